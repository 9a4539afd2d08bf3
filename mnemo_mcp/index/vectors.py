"""Meaning: one int8 matrix an encoder. A large one is first looked through by the signs of its values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Keys, Mask, Rows, best, grown
from mnemo_mcp.index.signs import Signs

EXACT_ROWS = 2_048
"""Up to so many rows each is scored exactly; beyond, the signs are quicker (`bench/rank.py`)."""

Values = npt.NDArray[np.int8]

_BLOCK_ROWS = 2_048  # widened at once, one after the other
_LOOKED_UP = 512  # widened at once, from all over the matrix


class VectorMatrix:
    """int8 rows with one scale each. A row without a scale has no vector.

    `ties` gives rows the keys by which equally near ones are ordered.
    """

    def __init__(self, dims: int, ties: Callable[[Rows], Keys | Rows] | None = None) -> None:
        self.dims = dims
        self.filled = 0
        self._ties = ties or (lambda rows: rows)
        self._values = np.zeros((256, dims), np.int8)
        self._scales = np.zeros(256, np.float32)
        self._there = np.zeros(256, np.bool_)
        self._signs = Signs(dims)

    def set(self, row: int, scale: float, values: bytes) -> None:
        self._make_room(row + 1)
        self.filled += not self._there[row]
        self._values[row] = np.frombuffer(values, np.int8)
        self._scales[row] = scale
        self._there[row] = True
        self._signs.set(row, self._values[row : row + 1])

    def fill(self, start: int, scales: Floats, values: Values) -> None:
        """Set many rows from `start` on at once; a scale of 0 marks one without a vector."""
        stop = start + len(scales)
        self._make_room(stop)
        self.filled += int(np.count_nonzero(scales)) - int(np.count_nonzero(self._there[start:stop]))
        self._values[start:stop], self._scales[start:stop] = values, scales
        self._there[start:stop] = scales > 0
        self._signs.set(start, self._values[start:stop])

    def clear(self, row: int) -> None:
        if self.has(row):
            self._values[row], self._scales[row], self._there[row] = 0, 0.0, False
            self._signs.set(row, self._values[row : row + 1])
            self.filled -= 1

    def has(self, row: int) -> bool:
        return row < len(self._there) and bool(self._there[row])

    def part(self, start: int, stop: int) -> tuple[Floats, Values]:
        """Copies of the scales and values of some rows."""
        self._make_room(stop)
        return self._scales[start:stop].copy(), self._values[start:stop].copy()

    def there(self, size: int) -> Mask:
        """Which of the first `size` rows have a vector."""
        self._make_room(size)
        return self._there[:size]

    def vectors(self, rows: Rows) -> Floats:
        """Some rows as vectors of unit length; zeros where there is none."""
        self._make_room(int(rows.max(initial=-1)) + 1)
        return self._values[rows].astype(np.float32) * self._scales[rows, None]

    def cosine(self, row: int, other: int) -> float:
        """The cosine of two rows that both have a vector."""
        one, two = (self._values[each].astype(np.float32) for each in (row, other))
        return float(one @ two * self._scales[row] * self._scales[other])

    def cosines(self, query: Floats, rows: Rows) -> Floats:
        """The cosines of `query` (unit length) with some rows; -1 where a row has no vector."""
        rows = np.arange(rows) if isinstance(rows, int) else rows
        self._make_room(int(rows.max(initial=-1)) + 1)
        found = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _LOOKED_UP):
            part = rows[start : start + _LOOKED_UP]
            # int8 @ int8 overflows without a word, so each block is widened first
            found[start : start + len(part)] = self._values.take(part, axis=0).astype(np.float32) @ query
        return np.where(self._there[rows], found * self._scales[rows], np.float32(-1.0))

    def nearest(self, query: Floats, allowed: Mask, depth: int) -> tuple[Rows, Floats]:
        """The `depth` rows nearest to `query` among the allowed ones with a vector, best first."""
        open_rows = allowed & self.there(len(allowed))
        count = int(np.count_nonzero(open_rows))
        if not count or not depth:
            return NO_ROWS, np.zeros(0, np.float32)
        if count <= EXACT_ROWS:
            rows = np.flatnonzero(open_rows)
        else:
            rows = self._signs.nearest(query, open_rows, count, candidates(count, depth))
        return self._best(rows, self.cosines(query, rows), depth)

    def exact(self, query: Floats, allowed: Mask, depth: int) -> tuple[Rows, Floats]:
        """`nearest` by one pass over every row: what the quicker way is measured against."""
        open_rows = allowed & self.there(len(allowed))
        found = np.empty(len(allowed), np.float32)
        for start in range(0, len(allowed), _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, len(allowed))
            found[start:stop] = self._values[start:stop].astype(np.float32) @ query
        found *= self._scales[: len(allowed)]
        rows = np.flatnonzero(open_rows)
        return self._best(rows, found[rows], depth)

    def _best(self, rows: Rows, cosines: Floats, depth: int) -> tuple[Rows, Floats]:
        places = best(cosines, self._ties(rows), depth)
        return rows[places], cosines[places]

    def _make_room(self, size: int) -> None:
        self._values = grown(self._values, size)
        self._scales = grown(self._scales, size)
        self._there = grown(self._there, size)


def candidates(rows: int, depth: int) -> int:
    """How many rows the signs must let through for the nearest 20 to be among them (`bench/rank.py`)."""
    return max(12 * depth, int(4 * rows**0.5))
