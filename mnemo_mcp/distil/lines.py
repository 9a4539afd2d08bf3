"""Lines: what of each episode a model is shown, without what mnemo or a client put there itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.inject.render import BLOCKS
from mnemo_mcp.memory import Episode, Role, moment

SPOKEN = (Role.PERSON, Role.ASSISTANT)
RECALLED = "[a note mnemo recalled]"

_SHORTEST_QUOTE = 20  # characters of a recalled note that stand for it and not for common words
_SHOWN_OF = {Role.PERSON: 24_000, Role.ASSISTANT: 24_000}  # characters; the middle of a longer one goes
_SHOWN_OF_OTHERS = 3_000
_READ_THROUGH = 4  # times as much is looked through for secrets, which were taken out when it was stored
_BLOCKS = re.compile(
    rf"{BLOCKS}"
    r"|<(?P<tag>system-reminder|task-notification|environment_context|user_instructions|INSTRUCTIONS"
    r"|hook_prompt|command-name|command-message|command-args|local-command-\w+)\b[^>]{0,300}>.*?"
    r"(?:</(?P=tag)>|\Z)",
    re.DOTALL,
)
# An instruction file as clients hand it over: its heading, then its text to the end.
_INSTRUCTIONS = re.compile(
    r"(?:\A\s*|\n)[<#*\s]{0,20}(?:the\s+)?(?:contents?\s+of\s+[^\n>]{0,200}?|(?=[\w.]+\s+instructions\s+for\s))"
    r"(?:CLAUDE|AGENTS|GEMINI)(?:\.\w+)?\.md\b[^\n]*(?:\n.*|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_OFFSET = re.compile(r"UTC([+-])(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Line:
    """What is shown of an episode under a short `number`; one that is not `fresh` was read before."""

    number: int
    episode: Episode
    text: str
    fresh: bool = True

    @property
    def at(self) -> datetime:
        """When it was said, where it was said."""
        return moment(self.episode.occurred_at).astimezone(zone_of(self.episode))

    @property
    def spoken(self) -> bool:
        return self.episode.role in SPOKEN


def zone_of(episode: Episode) -> tzinfo:
    """The zone an episode was told in."""
    try:
        return ZoneInfo(episode.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found = _OFFSET.fullmatch(episode.zone)
    if found is None:
        return UTC
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(offset if found[1] == "+" else -offset)


def shown_text(episode: Episode, recalled: Sequence[str] = ()) -> str:
    """What a model may read of an episode: nothing injected, no instruction file, no secret, no endless log.

    `recalled` are the memories its session was shown; where the assistant repeats one, a mark stands for it.
    """
    text = _INSTRUCTIONS.sub("", _BLOCKS.sub("", episode.text))
    if episode.role is not Role.PERSON:
        for note in recalled:
            if len(note) >= _SHORTEST_QUOTE:
                text = text.replace(note, RECALLED)
    most = _SHOWN_OF.get(episode.role, _SHOWN_OF_OTHERS)
    text, _ = redact(cut(text.strip(), _READ_THROUGH * most))
    return cut(text, most)


def cut(text: str, most: int) -> str:
    """A text of at most about `most` characters: beginning and end of a longer one, with what is missing."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2], text[-(most // 2) :]
    head = head[: max(head.rfind("\n"), head.rfind(" "), most // 4)]
    begin = min((place for sign in "\n " if (place := tail.find(sign)) >= 0), default=0)
    tail = tail[begin if begin < most // 4 else 0 :]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail.lstrip()}"


def numbered(texts: Iterable[tuple[Episode, str, bool]]) -> list[Line]:
    """Lines with the numbers by which a model cites them, from 1."""
    return [Line(number, episode, text, fresh) for number, (episode, text, fresh) in enumerate(texts, 1)]
