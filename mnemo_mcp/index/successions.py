"""Successions: memories that were replaced, and what replaced them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import Mask

_LONGEST = 8  # links of a chain that are followed; each further one says less of the question anyway


class Successions:
    """Pairs of rows: one that was replaced, and one that replaced it."""

    def __init__(self) -> None:
        self._old = array("q")
        self._new = array("q")
        self._before: dict[int, list[int]] = {}
        self._after: dict[int, list[int]] = {}

    def add(self, old: int, new: int) -> None:
        """Enter that one row was replaced by another; to say it again changes nothing."""
        if new not in self._after.get(old, ()):
            self._old.append(old)
            self._new.append(new)
            self._before.setdefault(new, []).append(old)
            self._after.setdefault(old, []).append(new)

    def part(self, old: int, new: int | None) -> None:
        """Take a pair out again."""
        if new is None or new not in self._after.get(old, ()):
            return
        pairs = [pair for pair in zip(self._old, self._new, strict=True) if pair != (old, new)]
        self._old, self._new = (
            array("q", column) for column in (zip(*pairs, strict=True) if pairs else ((), ()))
        )
        for steps, one, other in ((self._after, old, new), (self._before, new, old)):
            steps[one].remove(other)
            if not steps[one]:
                del steps[one]

    def drop(self, row: int) -> None:
        """Take a row out of every pair."""
        kept = [pair for pair in zip(self._old, self._new, strict=True) if row not in pair]
        if len(kept) < len(self._old):
            self._old = array("q", (old for old, _ in kept))
            self._new = array("q", (new for _, new in kept))
            for new in self._after.pop(row, ()):
                self._before[new].remove(row)
            for old in self._before.pop(row, ()):
                self._after[old].remove(row)

    def pairs(self) -> npt.NDArray[np.int64]:
        """Every pair, old and new."""
        return np.stack((np.array(self._old, np.int64), np.array(self._new, np.int64)), axis=1)

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
        replaced, replacing = np.array(self._old), np.array(self._new)
        for _ in range(_LONGEST):
            fresh = replaced[found[replacing] & ~found[replaced]]
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
