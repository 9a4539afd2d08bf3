"""Reading a question by rules: what it says, what it asks for, of which time, and whether it asks at all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import islice
from typing import Any

from mnemo_mcp.index.names import Named, Names
from mnemo_mcp.memory import Instant
from mnemo_mcp.recall.asking import W, asked_part
from mnemo_mcp.recall.before import asks_past, before_named
from mnemo_mcp.recall.dates import Asked, asked_time
from mnemo_mcp.words import ACKNOWLEDGEMENTS, STOP_WORDS, is_identifier, telling_among, words

_HEAD, _TAIL = 2_000, 4_000  # characters: pasted logs come first, the question about them last
_MOST_WORDS = 96
_MOST_PARTS = 16  # quoted phrases, figures and paths of each kind
_MOST_SENTENCES = 8  # that are looked at for the one that asks

_WORD = re.compile(r"\w")

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|[“„]([^“”\n]{1,200})[“”]|«([^«»\n]{1,200})»|‹([^‹›\n]{1,200})›"
    r"|「([^「」\n]{1,200})」|『([^『』\n]{1,200})』|‘([^‘’\n]{1,200})’|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
# Lines that programs wrote: stack traces, log lines, prompts of a shell, rows of signs.
_LOGGED = re.compile(
    r"\s*(?:at \S+[(:]|File \"|Traceback|>>>|[$>|+#]\s|[-=*]{3}|\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d"
    r"|\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL)\b|[\w.]*(?:Error|Exception)\b:"
    r"|[\w.:]+\(.*\)[:;{]?\s*$)"
)
_MARKED = re.compile("[`\"'“„«‹「『‘]")
_ASKING_ENDS = "?？؟"
# A point inside a word (app.py) or after the figure of a day (14. März) ends no sentence.
_SENTENCES = re.compile(
    r"[^\n.!?。！？؟]*"
    r"(?:(?:[.?](?=\w)|(?:(?<=\b\d)|(?<=\b\d\d))\.(?= [^\W\d]))[^\n.!?。！？؟]*)*[.!?。！？؟]*"
)
_PATHS = re.compile(
    r"(?<!\w)\w{1,16}://\S+|(?<![\w./\\~-])((?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])*[\w.@+-]*\w/?"
    r"|(?:[\w.@+-]+[/\\]){2,}[\w.@+-]*\w|[\w.@+-]+[/\\][\w@+-]*\.\w{1,8}|\.?[\w-]+(?:\.[\w-]+)*\.(?:py|js"
    r"|ts|tsx|jsx"
    r"|rs|go|c|h|cc|cpp|hpp|java|kt|rb|php|cs|swift|sh|sql|md|txt|json|toml|ya?ml|xml|html|css|csv|ini|cfg"
    r"|conf|env"
    r"|lock|log|db|service))(?![\w/\\])"
)
_UNIT = (
    r"(?: ?(?:%|ms|µs|us|ns|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|d|days?|weeks?|months?|years?"
    r"|[kKMGT]i?B(?:/s)?"
    r"|[kmgt]b|bytes?|bits?|[kMG]?bps|[kMG]?Hz|px|rpm|rps|qps|€|\$|£|USD|EUR|x)(?![\w]))?"
)
_FIGURES = re.compile(rf"(?<![\w./:@\\-])(?:[$€£¥] ?)?\d+(?:[.,:]\d+)*{_UNIT}(?![\w/\\@-]|\.\d)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question as read. `words` are folded, distinct, without function words.

    `asks` is the W it asks for, `past` whether it asks how it was before, `time` the period it asks about.
    """

    text: str
    words: tuple[str, ...]
    identifiers: tuple[str, ...]
    bare: bool
    entities: tuple[Named, ...] = ()
    asks: W | None = None
    past: bool = False
    quoted: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    time: Asked | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether no word of it can find anything."""
        return not self.words

    def shown(self) -> dict[str, Any]:
        """The reading as plain values, for people."""
        return {
            "words": list(self.words),
            "identifiers": list(self.identifiers),
            "entities": [{"name": each.name, "key": each.key} for each in self.entities],
            "asks": self.asks and self.asks.value,
            "past": self.past,
            "time": self.time and self.time.shown(),
            "quoted": list(self.quoted),
            "figures": list(self.figures),
            "paths": list(self.paths),
            "bare": self.bare,
        }


def read(text: str, names: Names | None = None, zone: tzinfo = UTC, now: Instant | None = None) -> Question:
    """Read any text as a question; of a very long one the beginning and the end count.

    Times are those of `zone`, told from `now`; without a `now` no time is read.
    """
    kept = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    said = words(kept)
    found = telling_among(said)
    if len(found) > _MOST_WORDS:
        found = found[: _MOST_WORDS // 3] + found[-2 * _MOST_WORDS // 3 :]
    sentences = _sentences(kept)
    asks, past = _asked(sentences)
    entities = _entities(kept, names)
    spans = [(each.start, each.end) for each in entities]
    return Question(
        kept,
        tuple(found),
        tuple(word for word in found if names_one_thing(word)),
        _bare(said),
        entities=entities,
        asks=asks,
        past=past or (bool(spans) and before_named(kept, spans)),
        quoted=_distinct(match[match.lastindex or 0] for match in _QUOTED.finditer(kept)),
        figures=_distinct(match[0] for match in _FIGURES.finditer(kept)),
        paths=_distinct(match[1] for match in _PATHS.finditer(kept)),
        time=_time(sentences, tuple(found), zone, now),
    )


def _sentences(text: str) -> list[str]:
    """The sentences people wrote, likeliest to ask first: questions, the last of them before others.

    What is quoted, fenced or was written by programs is set aside, unless there is nothing else.
    """
    prose = _QUOTED.sub(" ", _FENCED.sub("\n", text)) if _MARKED.search(text) else text
    lines = [line for line in prose.splitlines() if line.strip() and not _logged(line)]
    if not any(map(_WORD.search, lines)):
        lines = text.splitlines()
    spoken = unicodedata.normalize("NFC", "\n".join(lines))
    parts = [part for part in map(str.strip, _SENTENCES.findall(spoken)) if _WORD.search(part)]
    questions = [part for part in parts if part[-1] in _ASKING_ENDS]
    others = [part for part in parts if part[-1] not in _ASKING_ENDS]
    return (questions[::-1] + others[-1:] + others[:-1])[:_MOST_SENTENCES]


def _logged(line: str) -> bool:
    return line.rstrip().endswith(("{", "}", ";")) or bool(_LOGGED.match(line))


def _asked(sentences: list[str]) -> tuple[W | None, bool]:
    """Which W is asked for, and whether of the past: by the first sentence that asks for any."""
    for sentence in sentences:
        lowered = sentence.lower()
        if found := asked_part(lowered):
            return found[0], asks_past(lowered, found[1])
    return None, bool(sentences) and asks_past(sentences[0].lower(), None)


def _time(sentences: list[str], telling: tuple[str, ...], zone: tzinfo, now: Instant | None) -> Asked | None:
    if now is None:
        return None
    return next(filter(None, (asked_time(each, telling, zone, now) for each in sentences)), None)


def _entities(text: str, names: Names | None) -> tuple[Named, ...]:
    """Each entity once, where it is named first."""
    found: dict[str, Named] = {}
    for each in names.find(text) if names else ():
        found.setdefault(each.key, each)
    return tuple(found.values())


def _distinct(found: Iterable[str | None]) -> tuple[str, ...]:
    kept = (each.strip() for each in found if each and each.strip())
    return tuple(islice(dict.fromkeys(kept), _MOST_PARTS))


def names_one_thing(word: str) -> bool:
    """Whether a word is exact enough that sharing it says two texts speak of the same thing.

    Error codes, tickets, hashes, paths and snake_case names are; small figures and years are not.
    """
    if word.isdigit():
        return len(word) >= 4 and not (len(word) == 4 and word[:2] in ("19", "20"))
    return len(word) >= 4 and is_identifier(word) and any(letter.isalpha() for letter in word)


def _bare(said: Sequence[str]) -> bool:
    """Acknowledgements, single digits and signs: nothing is asked."""
    return all(
        word in ACKNOWLEDGEMENTS or word in STOP_WORDS or (word.isdigit() and len(word) < 3) for word in said
    )
