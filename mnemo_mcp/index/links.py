"""Connections between memories: neighbours of a row with weights, in arrays that grow."""

from __future__ import annotations

from array import array

_MOST = 64
"""Neighbours told of one row, the newest: what is connected to everything says little of anything."""


class Links:
    """Each connection stands with both its ends; a chain of places leads from a row to its neighbours."""

    def __init__(self) -> None:
        self._first = array("i")
        self._next = array("i")
        self._other = array("i")
        self._weight = array("f")

    def __len__(self) -> int:
        """How many connections there are or were."""
        return len(self._other) // 2

    def add(self, row: int, other: int, weight: float) -> None:
        """Connect two rows, or give their connection another weight; a weight of 0 takes it away."""
        if row == other:
            return
        place = self._place(row, other)
        if place >= 0:
            self._weight[place] = self._weight[place ^ 1] = weight
        elif weight > 0:
            self._enter(row, other, weight)
            self._enter(other, row, weight)

    def remove(self, row: int) -> None:
        """Take away all connections of a row."""
        place = self._begin(row)
        while place >= 0:
            self._weight[place] = self._weight[place ^ 1] = 0.0
            place = self._next[place]

    def neighbours(self, row: int) -> dict[int, float]:
        """The rows connected to a row with their weights, the newest connections first."""
        found: dict[int, float] = {}
        place = self._begin(row)
        while place >= 0 and len(found) < _MOST:
            if self._weight[place] > 0:
                found[self._other[place]] = self._weight[place]
            place = self._next[place]
        return found

    def _begin(self, row: int) -> int:
        return self._first[row] if row < len(self._first) else -1

    def _place(self, row: int, other: int) -> int:
        place = self._begin(row)
        while place >= 0 and self._other[place] != other:
            place = self._next[place]
        return place

    def _enter(self, row: int, other: int, weight: float) -> None:
        if row >= len(self._first):
            self._first.extend([-1] * (row + 1 - len(self._first)))
        self._next.append(self._first[row])
        self._first[row] = len(self._other)
        self._other.append(other)
        self._weight.append(weight)
