"""Meaning: one int8 matrix an encoder, scored exactly in blocks that stay in the processor's cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_BLOCK_ROWS = 4096


class VectorMatrix:
    """int8 rows with one scale each; a row of zeros has no vector yet."""

    def __init__(self, dims: int) -> None:
        self.dims = dims
        self._values = np.zeros((256, dims), np.int8)
        self._scales = np.zeros(256, np.float32)

    def set(self, row: int, scale: float, values: bytes) -> None:
        if row >= len(self._scales):
            self._grow(max(row + 1, 2 * len(self._scales)))
        self._values[row] = np.frombuffer(values, np.int8)
        self._scales[row] = scale

    def _grow(self, size: int) -> None:
        values, scales = np.zeros((size, self.dims), np.int8), np.zeros(size, np.float32)
        values[: len(self._values)], scales[: len(self._scales)] = self._values, self._scales
        self._values, self._scales = values, scales

    def clear(self, row: int) -> None:
        if row < len(self._scales):
            self._values[row] = 0
            self._scales[row] = 0.0

    def has(self, row: int) -> bool:
        return row < len(self._scales) and bool(self._scales[row])

    def cosine(self, row: int, other: int) -> float:
        """The cosine of two rows that both have a vector."""
        one, two = (self._values[each].astype(np.float32) for each in (row, other))
        return float(one @ two * self._scales[row] * self._scales[other])

    def cosines(self, query: Floats, size: int) -> Floats:
        """The cosine of `query` (unit length) with every row; -1 where a row has no vector."""
        found = np.full(size, -1.0, np.float32)
        filled = min(size, len(self._scales))
        for start in range(0, filled, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, filled)
            # int8 @ int8 overflows without a word, so each block is widened first
            found[start:stop] = self._values[start:stop].astype(np.float32) @ query
        scales = self._scales[:filled]
        found[:filled] = np.where(scales > 0, found[:filled] * scales, -1.0)
        return found
