"""Rows: what the search tables keep of a memory or an episode, and which text its vectors are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.memory import Episode, Memory
from mnemo_mcp.search.stems import stems
from mnemo_mcp.words import words

EMBEDDED_CHARACTERS = 2_000  # what an encoder reads of one episode: the packaged ones cut at 256 tokens
WORDS_CHARACTERS = 20_000
CONTEXT_CHARACTERS = 200  # 0, 300 and 400 found less than 200 on LoCoMo

_NAME_CHARACTERS = 60
_SPEAKER = re.compile(r"\s*((?:[^\W\d_][\w.'’-]*\s?){1,3}):\s")
_ASKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a search table. `embedded` is not stored; `state` holds the columns of its table alone."""

    id: str
    profile: str
    project: str
    words: str
    embedded: str
    state: Mapping[str, Any]


def memory_row(memory: Memory) -> Row:
    claim = memory.claim
    parts = (claim.what, claim.why, claim.how, claim.who, claim.where, claim.when)
    names = (each.name for each in claim.entities)
    return Row(
        id=memory.id,
        profile=memory.profile,
        project=memory.project,
        words=" ".join(word for part in (*parts, *names) for word in words(part)),
        embedded=claim.text(),
        state={
            "text": claim.text(),
            "kind": str(claim.kind),
            "valid_from": memory.valid_from,
            "valid_to": memory.valid_to,
            "retracted": memory.retracted,
        },
    )


def episode_row(episode: Episode, number: int, before: Episode | None = None) -> Row:
    """The row of an episode; `number` is its place in the store, `before` the one before it in its thread.

    Its words are its own. Those of its neighbours are weighed when it is looked for, so a row never
    changes when the next episode arrives.
    """
    own = bounded(episode.text, WORDS_CHARACTERS)
    return Row(
        id=episode.id,
        profile=episode.profile,
        project=episode.project,
        words=" ".join(stems(own)),
        embedded=episode_embedded(episode.text, before.text if before else ""),
        state={
            "role": str(episode.role),
            "session": episode.session,
            "occurred_at": episode.occurred_at,
            "number": number,
            "before": before.id if before else "",
            "speaker": _speaker(episode.text),
            "asks": episode.text.rstrip().endswith(_ASKS),
        },
    )


def episode_embedded(text: str, before: str) -> str:
    """The text whose vector stands for an episode: the end of what came before it, then its own.

    An answer often lacks the subject of its question.
    """
    own = bounded(text, EMBEDDED_CHARACTERS)
    return f"{before[-CONTEXT_CHARACTERS:]}\n{own}" if before else own


def bounded(text: str, most: int) -> str:
    """`text`, or where it is longer than `most` characters its beginning and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n{text[-half:]}"


def _speaker(text: str) -> str:
    """The words of the name a line of talk begins with (`Ada Example: ...`), as they are searched for."""
    named = _SPEAKER.match(text, 0, _NAME_CHARACTERS)
    return " ".join(dict.fromkeys(stems(named[1]))) if named else ""
