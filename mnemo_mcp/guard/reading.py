"""What the guard saw in one text: figures, dates, identifiers, turns of meaning, and what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mnemo_mcp.guard.calendar import Clock, Day
from mnemo_mcp.guard.figures import Figure

DENIABLE = frozenset({"enable", "allow", "need", "strong", "public", "mutable"})
"""Lines whose marked end denies the plain one: disabled is not enabled."""

JOINED = "and"
"""The part of a word that is joined to the one before it, in any language."""


@dataclass(frozen=True, slots=True)
class Item:
    """A word that says what a text is about. `key` is what is compared."""

    key: str
    text: str
    kind: str
    place: int
    clause: int
    role: str = ""
    strong: bool = False
    weak: bool = False
    glued: bool = False
    form: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A negation, and the word it falls on."""

    text: str
    place: int
    clause: int
    focus: str = ""
    contrast: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of a closed list: a bound, a scope, an end of a line, an environment, an ordinal, a rhythm."""

    kind: str
    value: str
    text: str
    place: int


@dataclass(slots=True)
class Reading:
    """What was seen in one text. Places are those of its tokens."""

    language: str
    figures: list[Figure] = field(default_factory=list)
    days: list[Day] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    identifiers: list[Item] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    joined: list[Item] = field(default_factory=list)
    reasons: list[tuple[int, int]] = field(default_factory=list)
    every_word: Counter[str] = field(default_factory=Counter)

    def of(self, kind: str) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == kind]

    def without_reasons(self) -> Reading:
        """What is claimed, without what it is said to follow from."""
        if not self.reasons:
            return self
        return replace(
            self,
            figures=self._outside(self.figures),
            days=self._outside(self.days),
            clocks=self._outside(self.clocks),
            identifiers=self._outside(self.identifiers),
            turns=self._outside(self.turns),
            marks=self._outside(self.marks),
            items=self._outside(self.items),
            joined=self._outside(self.joined),
            reasons=[],
        )

    def _outside(self, seen: Iterable[_Placed]) -> list[_Placed]:
        return [each for each in seen if not any(start <= each.place < end for start, end in self.reasons)]


_Placed = TypeVar("_Placed", Figure, Day, Clock, Item, Turn, Mark)
