"""Which memories name an entity, in which role, and which entities a memory names."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Rows
from mnemo_mcp.memory import Claim, EntityRef, same_text

NEWEST = 4_096
"""Rows told of one entity at most, the newest: what is in everything tells nothing apart."""

_PARTS, _FEW = (
    8,
    64,
)  # so many times the rows wanted are looked at, for the parts rows play and those taken out
_ROLE_BITS = 16
_GONE = (1 << _ROLE_BITS) - 1

Packed = npt.NDArray[np.int64]
"""Row and role in one number, so that their order is that of the rows."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What rows up to `rows` name, entity by entity."""

    rows: int
    starts: npt.NDArray[np.int64]
    packed: Packed

    def of(self, number: int) -> Packed:
        if number >= len(self.starts) - 1:
            return NO_ROWS
        return self.packed[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True, slots=True)
class Frozen:
    """What rows name, row after row: `ends` says where each ends in the other two."""

    keys: list[str]
    roles: list[str]
    numbers: npt.NDArray[np.uint32]
    parts: npt.NDArray[np.uint16]
    ends: npt.NDArray[np.uint64]

    def sealed(self) -> Sealed:
        counts = np.diff(np.append(np.uint64(0), self.ends)).astype(np.int64)
        rows = np.repeat(np.arange(len(self.ends)), counts)
        living = self.parts != _GONE
        numbers, packed = self.numbers[living], rows[living] << _ROLE_BITS | self.parts[living]
        order = np.argsort(numbers, kind="stable")
        held = np.bincount(numbers, minlength=len(self.keys))
        return Sealed(len(self.ends), np.append(0, np.cumsum(held)), packed[order])


_BETWEEN = re.compile(r"[,;/&]| and | y | und | et ")
_LONGEST_NAME = 40  # letters; a longer part of who or where is a description


def named_in(claim: Claim) -> tuple[EntityRef, ...]:
    """The entities a claim declares, and the names that its `who` and `where` list."""
    found = list(claim.entities)
    known = {same_text(each.name) for each in found}
    for role, text in (("who", claim.who), ("where", claim.where)):
        for part in _BETWEEN.split(text):
            name = part.strip(" .")
            if name and len(name) <= _LONGEST_NAME and same_text(name) not in known:
                known.add(same_text(name))
                found.append(EntityRef(name, "name", role))
    return tuple(found)


class Entities:
    """Rows by entity key (`same_text` of a name) and role. Rows are entered in rising order."""

    def __init__(self, saved: Frozen | None = None) -> None:
        kept = saved or Frozen([], [], np.zeros(0, np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.uint64))
        self._keys = kept.keys
        self._numbers_of = {key: number for number, key in enumerate(kept.keys) if key}
        self._roles = {role: number for number, role in enumerate(kept.roles)}
        self._numbers = array("I", kept.numbers.tobytes())
        self._parts = array("H", kept.parts.tobytes())
        self._ends = array("Q", kept.ends.tobytes())
        self._sealed = kept.sealed()
        self._newer: dict[int, array[int]] = {}
        self._gone: set[int] = set()

    def add(self, row: int, entities: Iterable[EntityRef]) -> None:
        """Enter what a row names."""
        while len(self._ends) < row:
            self._ends.append(len(self._numbers))
        for key, role in dict.fromkeys((same_text(each.name), each.role) for each in entities):
            number, part = self._number(key), self._roles.setdefault(role, len(self._roles))
            self._numbers.append(number)
            self._parts.append(part)
            self._newer.setdefault(number, array("q")).append(row << _ROLE_BITS | part)
        self._ends.append(len(self._numbers))

    def remove(self, row: int) -> None:
        """Take out what a row names."""
        for place in self._places(row):
            self._parts[place] = _GONE
        self._gone.add(row)

    def rows_of(self, key: str, role: str | None = None, most: int | None = NEWEST) -> Rows:
        """The newest rows that name an entity (in a role), oldest first; every row where `most` is None."""
        packed = self._packed(key, most)
        if role is not None:
            packed = packed[packed & _GONE == self._roles.get(role, _GONE)]
        rows = packed >> _ROLE_BITS
        rows = rows[np.diff(rows, prepend=-1) > 0]
        return rows if most is None else rows[-most:]

    def few(self, key: str, most: int) -> list[int]:
        """The rows that name an entity; none where it is named more than `most` times."""
        number = self._numbers_of.get(key)
        if number is None:
            return []
        sealed, newer = self._sealed.of(number), self._newer.get(number, ())
        if len(sealed) + len(newer) > most:
            return []
        rows = dict.fromkeys(each >> _ROLE_BITS for each in (*sealed.tolist(), *newer))
        return [row for row in rows if row not in self._gone]

    def weighted(self, key: str, shares: Mapping[str, float], most: int = NEWEST) -> tuple[Rows, Floats]:
        """The newest rows that name an entity, each with the largest share among its roles there."""
        packed = self._packed(key, most)[-most:]
        rows, values = packed >> _ROLE_BITS, self._table(shares)[packed & _GONE]
        first = np.flatnonzero(np.diff(rows, prepend=-1) > 0)
        if len(first) < len(rows):
            rows, values = rows[first], np.maximum.reduceat(values, first)
        return rows, values

    def _table(self, shares: Mapping[str, float]) -> Floats:
        table = np.zeros(len(self._roles) + 1, np.float32)
        for role, number in self._roles.items():
            table[number] = shares.get(role, min(shares.values()))
        return table

    def _packed(self, key: str, most: int | None) -> Packed:
        """All that is known of an entity, or so much of the newest that as a rule it holds `most` rows."""
        number = self._numbers_of.get(key)
        if number is None:
            return NO_ROWS
        packed = np.append(self._sealed.of(number), np.array(self._newer.get(number, ()), np.int64))
        if most is not None:
            packed = packed[-_PARTS * max(most, _FEW) :]
        return packed[~np.isin(packed >> _ROLE_BITS, list(self._gone))] if self._gone else packed

    def of(self, row: int) -> tuple[str, ...]:
        """The keys of the entities a row names."""
        return tuple(dict.fromkeys(self._keys[self._numbers[place]] for place in self._places(row)))

    def freeze(self) -> Frozen:
        """What is known by now, for sealing and saving outside of anybody's way."""
        numbers, parts = np.array(self._numbers, np.uint32), np.array(self._parts, np.uint16)
        living = set(numbers[parts != _GONE].tolist()) if _GONE in parts else range(len(self._keys))
        keys = [key if number in living else "" for number, key in enumerate(self._keys)]
        return Frozen(keys, list(self._roles), numbers, parts, np.array(self._ends, np.uint64))

    def adopt(self, sealed: Sealed) -> None:
        """Answer from what was sealed meanwhile."""
        self._sealed = sealed
        self._gone = {row for row in self._gone if row >= sealed.rows}
        first = sealed.rows << _ROLE_BITS
        newer = {
            number: array("q", (each for each in held if each >= first))
            for number, held in self._newer.items()
        }
        self._newer = {number: held for number, held in newer.items() if held}

    def _places(self, row: int) -> Iterable[int]:
        """Where it stands what a row names."""
        if row >= len(self._ends):
            return ()
        first = self._ends[row - 1] if row else 0
        return (place for place in range(first, self._ends[row]) if self._parts[place] != _GONE)

    def _number(self, key: str) -> int:
        number = self._numbers_of.get(key)
        if number is None:
            number = self._numbers_of[key] = len(self._keys)
            self._keys.append(key)
        return number
