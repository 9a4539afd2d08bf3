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
_SAMPLE = 4_096  # rows from which the geometry of an encoder is read
_EVEN = 0.8  # as if so large a share of the dimensions were used, all alike; the packaged encoders have 0.93
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
        self._signs: Signs | None = None  # made once there are so many rows that they are looked at

    def set(self, row: int, scale: float, values: bytes) -> None:
        self._make_room(row + 1)
        self.filled += not self._there[row]
        self._values[row] = np.frombuffer(values, np.int8)
        self._scales[row] = scale
        self._there[row] = True
        self._sign(row, row + 1)

    def fill(self, start: int, scales: Floats, values: Values) -> None:
        """Set many rows from `start` on at once; a scale of 0 marks one without a vector."""
        stop = start + len(scales)
        self._make_room(stop)
        self.filled += int(np.count_nonzero(scales)) - int(np.count_nonzero(self._there[start:stop]))
        self._values[start:stop], self._scales[start:stop] = values, scales
        self._there[start:stop] = scales > 0
        self._sign(start, stop)

    def clear(self, row: int) -> None:
        if self.has(row):
            self._values[row], self._scales[row], self._there[row] = 0, 0.0, False
            self.filled -= 1
            self._sign(row, row + 1)

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
        if count <= EXACT_ROWS or self._signs is None:
            rows = np.flatnonzero(open_rows)
        else:
            rows = self._signs.nearest(query, open_rows, count, depth)
        return self._best(rows, self.cosines(query, rows), depth)

    def exact(
        self, query: Floats, allowed: Mask, depth: int, block: int = _BLOCK_ROWS
    ) -> tuple[Rows, Floats]:
        """`nearest` by one pass over every row, `block` rows at once: what the quicker way is measured by."""
        open_rows = allowed & self.there(len(allowed))
        found = np.empty(len(allowed), np.float32)
        for start in range(0, len(allowed), block):
            stop = min(start + block, len(allowed))
            found[start:stop] = self._values[start:stop].astype(np.float32) @ query
        found *= self._scales[: len(allowed)]
        rows = np.flatnonzero(open_rows)
        return self._best(rows, found[rows], depth)

    def _best(self, rows: Rows, cosines: Floats, depth: int) -> tuple[Rows, Floats]:
        places = best(cosines, self._ties(rows), depth)
        return rows[places], cosines[places]

    def _sign(self, start: int, stop: int) -> None:
        """Enter the signs of rows, or those of all rows once there are so many."""
        if self._signs is None and self.filled > EXACT_ROWS:
            self._signs = Signs(
                self.dims, uneven=_uneven(self._values[np.flatnonzero(self._there)[:_SAMPLE]])
            )
            start, stop = 0, len(self._there)
        if self._signs is not None:
            for first in range(start, stop, _SAMPLE):
                self._signs.set(first, self._values[first : min(first + _SAMPLE, stop)])

    def _make_room(self, size: int) -> None:
        self._values = grown(self._values, size)
        self._scales = grown(self._scales, size)
        self._there = grown(self._there, size)


def _uneven(values: Values) -> bool:
    """Whether few dimensions hold most of what there is, so that the signs of all tell little."""
    energy = np.square(values.astype(np.float32)).mean(axis=0)
    share = float(energy.sum() ** 2 / (len(energy) * np.square(energy).sum()))
    return share < _EVEN
