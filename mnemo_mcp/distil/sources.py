"""Sources: whether the figures, identifiers and names of a claim stand in the text it is taken from.

Units are normalised and numbers in words count, in every language the guard reads; what a claim renders in
other words is not looked for, what it can only have copied is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from mnemo_mcp.guard.calendar import Clock
from mnemo_mcp.guard.figures import Figure
from mnemo_mcp.guard.reader import read
from mnemo_mcp.guard.reading import Reading
from mnemo_mcp.words import STOP_WORDS, fold

_NAME = re.compile(r"(?<![\w@#/.-])[A-Z][\w'’-]*")
_OTHER_SCRIPT = re.compile("[\u0370-\u052f\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+|[\"“(]\s*)$")
_SHORTEST_STEM = 4  # letters that two forms of one name have in common: Postgres, PostgreSQL
_CAPITALISED = """
    i a monday tuesday wednesday thursday friday saturday sunday january february march april may june july
    august september october november december english spanish french german portuguese italian russian
    japanese chinese korean dutch polish api apis ci cd cli cpu db dns gpu gui html http https id ids ip json
    ok os pdf pr prs ram sdk sql ssd ssh ssl tcp tls ttl ui url urls utc ux vm vpn xml yaml assistant user
    person team proposed done
    """
# words that English writes with capitals whoever says them, and what translating needs
_KNOWN = frozenset(_CAPITALISED.split())


class Source:
    """The text that a claim cites."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def lacks(self, claim: str, names: Iterable[str] = ()) -> list[str]:
        """The figures, identifiers and names in `claim` that the text has not, as they stand in the claim.

        `names` are names the claim is known to hold, whatever they begin with.
        """
        reading = read(claim)
        lacking = [each.text for each in reading.figures if not self._has_figure(each)]
        lacking += [each.text for each in reading.clocks if not self._has_clock(each)]
        lacking += [
            each.text for each in reading.identifiers if not self._has_identifier(each.key, each.text)
        ]
        lacking += [each for each in _names(claim, names) if not self._has_name(each)]
        return [text for text in dict.fromkeys(lacking) if text]

    def has_name(self, name: str) -> bool:
        """Whether a name stands in the text, in one of its forms."""
        parts = re.findall(r"\w[\w.@/-]*", name)
        return self._holds(name) or (bool(parts) and all(map(self._has_name, parts)))

    @cached_property
    def _folded(self) -> str:
        return "\n".join(fold(text) for text in self._texts).casefold()

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(re.findall(r"[^\W\d_][\w'’-]*", self._folded))

    @cached_property
    def _readings(self) -> list[Reading]:
        return [read(text) for text in self._texts]

    def _holds(self, text: str) -> bool:
        """Whether the very text stands there, not as a part of a longer word or figure."""
        wanted = re.escape(fold(text).casefold())
        return bool(re.search(rf"(?<![a-z0-9]){wanted}(?![a-z0-9]|[.,]\d)", self._folded))

    def _has_figure(self, figure: Figure) -> bool:
        if self._holds(figure.text):
            return True
        others = [each for reading in self._readings for each in reading.figures]
        if any(figure.equals(each) for each in others):
            return True
        # "30 min" cited as 30: no unit is no other unit
        bare = not figure.dimension
        return bare and any(not figure.values.isdisjoint(each.values) for each in others)

    def _has_clock(self, clock: Clock) -> bool:
        return self._holds(clock.text) or any(
            clock.second == each.second for reading in self._readings for each in reading.clocks
        )

    def _has_identifier(self, key: str, text: str) -> bool:
        return self._holds(text) or any(
            each.key == key for reading in self._readings for each in reading.identifiers
        )

    def _has_name(self, name: str) -> bool:
        folded = fold(name).casefold()
        if (
            folded in _KNOWN
            or folded.removesuffix("s") in _KNOWN
            or self._holds(name)
            or (not name.isascii() and folded in self._folded)
        ):
            return True
        if folded.removesuffix("s") in self._words or folded + "s" in self._words:
            return True
        keys = {item.key for item in read(name).items if item.kind == "name"}
        if keys and any(item.key in keys for reading in self._readings for item in reading.items):
            return True
        stem = folded[:_SHORTEST_STEM]
        return len(folded) > _SHORTEST_STEM and any(
            word.startswith(stem) and _form_of(word, folded) for word in self._words
        )


def _form_of(one: str, other: str) -> bool:
    """Whether two words are one but for their ends: Postgres and PostgreSQL, España and Español."""
    shared = next(
        (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )
    return shared >= _SHORTEST_STEM and shared >= 0.6 * max(len(one), len(other))


def _names(claim: str, known: Iterable[str]) -> list[str]:
    """What is written as a name: in the middle of a sentence, before another one, or known to be one."""
    given = {part.casefold() for name in known for part in name.split()}
    found = [match[0] for match in _OTHER_SCRIPT.finditer(claim)]
    for match in _NAME.finditer(claim):
        name = re.sub(r"['’]s?$", "", match[0])
        first = bool(_SENTENCE_START.search(claim[: match.start()]))
        followed = re.match(r"\s+[A-Z]\w", claim[match.end() :])
        if first and name.casefold() in STOP_WORDS:
            continue
        if not first or followed or name.casefold() in given or re.search(r"\d|[a-z][A-Z]", name):
            found.append(name)
    return found
