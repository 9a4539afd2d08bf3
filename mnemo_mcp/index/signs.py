"""The signs of vectors as bits: how many differ tells roughly how far two vectors lie apart, at a fraction of
what their cosine costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import Floats, Mask, Rows, grown

_BLOCK = 32_768  # rows; with all its scratch space a block stays in the processor's cache
_FAR = np.uint16(0xFFFF)

Words = npt.NDArray[np.uint64]


class Signs:
    """64 signs a word, word by word within blocks of rows, so that each step reads memory in its order."""

    def __init__(self, dims: int) -> None:
        self._words = -(-dims // 64)
        self._blocks = np.zeros((0, self._words, _BLOCK), np.uint64)

    def set(self, start: int, values: npt.NDArray[np.int8]) -> None:
        """Enter the signs of rows from `start` on."""
        stop = start + len(values)
        self._blocks = grown(self._blocks, -(-stop // _BLOCK))
        while start < stop:
            block, place = divmod(start, _BLOCK)
            count = min(stop - start, _BLOCK - place)
            self._blocks[block, :, place : place + count] = self._packed(values[:count]).T
            values, start = values[count:], start + count

    def nearest(self, query: Floats, allowed: Mask, count: int) -> Rows:
        """At least `count` of the allowed rows (all, where there are fewer): those of fewest other signs."""
        wanted = self._packed(query[None, :])[0]
        size = len(allowed)
        apart = np.full(size, _FAR, np.uint16)
        counts = np.zeros(64 * self._words + 1, np.int64)
        for start in range(0, size, _BLOCK):
            part = allowed[start : start + _BLOCK]
            if not part.any():
                continue
            block = self._blocks[start // _BLOCK]
            differing = np.zeros(len(part), np.uint16)
            for word in range(self._words):
                differing += np.bitwise_count(block[word, : len(part)] ^ wanted[word])
            counts += np.bincount(differing[part], minlength=len(counts))
            np.copyto(apart[start : start + _BLOCK], differing, where=part)
        limit = int(np.searchsorted(np.cumsum(counts), count))
        return np.flatnonzero(apart <= min(limit, int(_FAR) - 1))

    def _packed(self, values: npt.NDArray[np.int8] | Floats) -> Words:
        packed = np.packbits(values < 0, axis=1)
        padded = np.zeros((len(values), 8 * self._words), np.uint8)
        padded[:, : packed.shape[1]] = packed
        return padded.view(np.uint64)
