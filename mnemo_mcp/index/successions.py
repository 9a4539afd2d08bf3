"""Successions: memories that were replaced, and what replaced them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_LONGEST = 8  # links of a chain that are followed; each further one says less of the question anyway


class Successions:
    """Pairs of rows: one that was replaced, and one that replaced it."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        listed = list(pairs)
        self._old = np.array([old for old, _ in listed], np.int64)
        self._new = np.array([new for _, new in listed], np.int64)
        self._before: dict[int, list[int]] = {}
        for old, new in listed:
            self._before.setdefault(new, []).append(old)

    def replaced_by(self, row: int) -> list[int]:
        """The rows that this one replaced."""
        return self._before.get(row, [])

    def pass_on(self, values: Floats, share: float) -> None:
        """Give each row at least `share` of what the rows it replaced have, along chains."""
        for _ in range(_LONGEST if len(self._old) else 0):
            inherited = values[self._old] * np.float32(share)
            if (inherited <= values[self._new]).all():
                return
            np.maximum.at(values, self._new, inherited)
