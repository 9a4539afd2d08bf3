"""Successions: memories that were replaced, and what replaced them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mnemo_mcp.index.arrays import Mask

_LONGEST = 8  # links of a chain that are followed; each further one says less of the question anyway


class Successions:
    """Pairs of rows: one that was replaced, and one that replaced it."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        listed = list(pairs)
        self._old = np.array([old for old, _ in listed], np.int64)
        self._new = np.array([new for _, new in listed], np.int64)
        self._before: dict[int, list[int]] = {}
        self._after: dict[int, list[int]] = {}
        for old, new in listed:
            self._before.setdefault(new, []).append(old)
            self._after.setdefault(old, []).append(new)

    def ancestors(self, row: int) -> list[tuple[int, int]]:
        """The rows this one replaced, and those they replaced, each with its distance."""
        return _walk(self._before, row)

    def heirs(self, row: int) -> list[tuple[int, int]]:
        """The rows that replaced this one, and those that replaced them, each with its distance."""
        return _walk(self._after, row)

    def was_replaced(self, row: int) -> bool:
        """Whether anything replaced this row."""
        return row in self._after

    def leading_to(self, rows: Mask) -> Mask:
        """`rows` and all that were replaced by one of them, along chains."""
        if not len(self._old):
            return rows
        found = rows.copy()
        for _ in range(_LONGEST):
            fresh = self._old[found[self._new] & ~found[self._old]]
            if not len(fresh):
                break
            found[fresh] = True
        return found


def _walk(steps: Mapping[int, list[int]], row: int) -> list[tuple[int, int]]:
    if row not in steps:
        return []
    found = {row: 0}
    front = [row]
    for distance in range(1, _LONGEST + 1):
        front = [each for at in front for each in steps.get(at, ()) if each not in found]
        found.update(dict.fromkeys(front, distance))
        if not front:
            break
    del found[row]
    return list(found.items())
