"""Which memories name an entity, in which role, and which entities a memory names."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from mnemo_mcp.index.arrays import NO_ROWS, Rows
from mnemo_mcp.memory import EntityRef, same_text

NEWEST = 4_096
"""Rows told of one entity at most, the newest: what is in everything tells nothing apart."""

_ROLE_BITS = 16


class Entities:
    """Rows by entity key (`same_text` of a name) and role. Rows are entered in rising order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._held: list[array[int]] = []  # of each entity: row and role in one number
        self._roles: dict[str, int] = {}
        self._named = array("I")  # entity numbers, row after row
        self._ends = array("Q")  # of each row, in `_named`

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, row: int, entities: Iterable[EntityRef]) -> None:
        """Enter what a row names."""
        while len(self._ends) < row:
            self._ends.append(len(self._named))
        for key, role in dict.fromkeys((same_text(each.name), each.role) for each in entities):
            number = self._number(key)
            self._held[number].append(row << _ROLE_BITS | self._roles.setdefault(role, len(self._roles)))
            if number not in self._named[self._ends[row - 1] if row else 0 :]:
                self._named.append(number)
        self._ends.append(len(self._named))

    def remove(self, row: int) -> None:
        """Take out what a row names."""
        for key in self.entities_of([row])[0]:
            held = self._held[self._numbers[key]]
            self._held[self._numbers[key]] = array("Q", (each for each in held if each >> _ROLE_BITS != row))

    def rows_of(self, key: str, role: str | None = None, most: int | None = NEWEST) -> Rows:
        """The newest rows that name an entity (in a role), oldest first; every row where `most` is None."""
        number = self._numbers.get(key)
        if number is None or (role is not None and role not in self._roles):
            return NO_ROWS
        held = np.array(self._held[number], np.int64)
        if role is not None:
            held = held[held & ((1 << _ROLE_BITS) - 1) == self._roles[role]]
        rows = np.unique(held >> _ROLE_BITS)
        return rows if most is None else rows[-most:]

    def entities_of(self, rows: Iterable[int]) -> list[tuple[str, ...]]:
        """Of each row, the keys of the entities it names."""
        return [tuple(self._keys[each] for each in self._of(int(row))) for row in rows]

    def _of(self, row: int) -> list[int]:
        """The numbers of what a row names; an entity that holds no such row any more was taken out of it."""
        if row >= len(self._ends):
            return []
        numbers = self._named[self._ends[row - 1] if row else 0 : self._ends[row]]
        return [each for each in numbers if self._holds(each, row)]

    def _holds(self, number: int, row: int) -> bool:
        held = self._held[number]
        low, high = 0, len(held)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if held[middle] >> _ROLE_BITS < row else (low, middle)
        return low < len(held) and held[low] >> _ROLE_BITS == row

    def _number(self, key: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._held.append(array("Q"))
        return number
