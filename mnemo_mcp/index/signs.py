"""The signs of vectors as bits: how many differ tells roughly how far two vectors lie apart, at a fraction of
what their cosine costs.

Half of the words choose many, all of them choose few among those, and only the few are scored exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import Floats, Mask, Rows, grown

_BLOCK = 32_768  # rows; with its scratch space a block stays in the processor's cache
_FIRST_WORDS = 4  # at most: their 256 differences just fit into a byte, and all of them is no answer
_LEAST, _GROWTH = 12, 5.0  # rows scored exactly: times those wanted, and times the root of all
_MANY = 12  # times as many pass the first choice as the second
_SAMPLE = 16_384  # rows from which the limit of the first choice is read

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


class Signs:
    """64 signs a word. The first words lie word by word within blocks of rows, so that each step reads memory
    in its order; the rest, looked up for single rows, row by row.
    """

    def __init__(self, dims: int, *, uneven: bool = False) -> None:
        """`uneven` vectors are turned first, which spreads what few dimensions hold over all of them."""
        self._turn = _turn(dims) if uneven else None
        self._words = -(-dims // 64)
        self._first = min(_FIRST_WORDS, (self._words + 1) // 2)
        self._blocks = np.zeros((0, self._first, _BLOCK), np.uint64)
        self._rest = np.zeros((0, self._words - self._first), np.uint64)
        self._apart = np.zeros((0, _BLOCK), np.uint8)
        self._crossed, self._ones = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint8)

    def set(self, start: int, values: npt.NDArray[np.int8]) -> None:
        """Enter the signs of rows from `start` on."""
        stop = start + len(values)
        self._blocks = grown(self._blocks, -(-stop // _BLOCK))
        self._rest = grown(self._rest, stop)
        while start < stop:
            block, place = divmod(start, _BLOCK)
            count = min(stop - start, _BLOCK - place)
            packed = self._packed(values[:count])
            self._blocks[block, :, place : place + count] = packed[:, : self._first].T
            self._rest[start : start + count] = packed[:, self._first :]
            values, start = values[count:], start + count

    def nearest(self, query: Floats, allowed: Mask, open_rows: int, depth: int) -> Rows:
        """So many of the allowed rows, `open_rows` in number, that the nearest `depth` are among them."""
        count = max(_LEAST * depth, int(_GROWTH * open_rows**0.5)) * (1 if self._turn is None else 2)
        wanted = self._packed(query[None, :])[0]
        apart = self._first_choice(wanted, allowed)
        sample = apart[:: max(1, len(apart) // _SAMPLE)]
        limit = _limit(sample, _MANY * count * len(sample) // len(apart))
        rows = np.flatnonzero(apart <= limit)
        rest = np.bitwise_count(self._rest.take(rows, axis=0) ^ wanted[self._first :])
        differing = apart[rows].astype(np.uint16)
        for column in rest.T:  # summing along short rows costs ten times as much
            differing += column
        return rows[differing <= _limit(differing, count)]

    def _first_choice(self, wanted: Words, allowed: Mask) -> Bytes:
        """In how many of the first words' signs each row differs; 255 for rows that are not allowed."""
        if len(self._apart) < len(self._blocks):
            self._apart = np.zeros((len(self._blocks), _BLOCK), np.uint8)
        apart = self._apart.reshape(-1)[: len(allowed)]
        crossed, ones = self._crossed, self._ones
        for start in range(0, len(allowed), _BLOCK):
            block, part = self._blocks[start // _BLOCK], apart[start : start + _BLOCK]
            size = len(part)
            np.bitwise_count(np.bitwise_xor(block[0, :size], wanted[0], out=crossed[:size]), out=part)
            for word in range(1, self._first):
                np.bitwise_xor(block[word, :size], wanted[word], out=crossed[:size])
                part += np.bitwise_count(crossed[:size], out=ones[:size])
            part |= np.subtract(allowed[start : start + size].view(np.uint8), 1, out=ones[:size])
        return apart

    def _packed(self, values: npt.NDArray[np.int8] | Floats) -> Words:
        if self._turn is not None:
            values = values.astype(np.float32) @ self._turn
        packed = np.packbits(values < 0, axis=1)
        padded = np.zeros((len(values), 8 * self._words), np.uint8)
        padded[:, : packed.shape[1]] = packed
        return padded.view(np.uint64)


def _turn(dims: int) -> Floats:
    """A turn of all axes, the same in every process."""
    return np.asarray(np.linalg.qr(np.random.default_rng(dims).normal(size=(dims, dims)))[0], np.float32)


def _limit(apart: npt.NDArray[np.unsignedinteger], count: int) -> int:
    """How far apart the nearest `count` or a few more are; below 255, which marks what is not allowed."""
    reached = np.cumsum(np.bincount(apart))
    return min(
        int(np.searchsorted(reached, count)), len(reached) - 1, 254 if apart.dtype == np.uint8 else 65_535
    )
