"""What an encoder is, the order it works through many texts in, and how its vectors are kept small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
"""One vector a row."""

BATCH_TEXTS = 16


class Encoder(Protocol):
    """Turns texts into unit vectors. Vectors of encoders with different ids are never compared."""

    id: str
    dims: int

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        """A float32 unit vector for each text, whatever it holds; `query` marks questions.

        Raises `ModelError` when the model gives no usable vectors.
        """
        ...


def in_batches(texts: Sequence[str], encode: Callable[[list[str]], Matrix], dims: int) -> Matrix:
    """Rows of `encode` in the order of `texts`; texts of like length share a batch, so little is padded."""
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    rows = np.empty((len(texts), dims), np.float32)
    for start in range(0, len(order), BATCH_TEXTS):
        part = order[start : start + BATCH_TEXTS]
        rows[part] = encode([texts[at] for at in part])
    return rows


def unit(vectors: Matrix) -> Matrix:
    """The rows with length one. A row of zeros has no direction and takes that of the first axis."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    empty = lengths[:, 0] == 0
    if empty.any():
        vectors = vectors.copy()
        vectors[empty, 0] = 1.0
        lengths[empty] = 1.0
    return np.asarray(vectors / lengths, np.float32)


@dataclass(frozen=True, slots=True)
class Quantised:
    """A vector as signed bytes times one scale.

    The bytes must be widened before they are multiplied: numpy's `int8 @ int8` is again int8
    and overflows without a word.
    """

    scale: float
    values: bytes


def quantise(vectors: Matrix) -> list[Quantised]:
    """Each row as symmetric int8 with its own scale; the largest part of a row becomes 127 or -127."""
    scales = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(127)
    scales[scales == 0] = 1.0
    rounded = np.rint(vectors / scales[:, None]).astype(np.int8)
    return [Quantised(float(scale), row.tobytes()) for scale, row in zip(scales, rounded, strict=True)]


def dequantise(quantised: Sequence[Quantised]) -> Matrix:
    """The rows again as float32, a little off; all must have the same number of dimensions."""
    values = np.frombuffer(b"".join(each.values for each in quantised), np.int8)
    scales = np.array([each.scale for each in quantised], np.float32)
    rows = values.reshape(len(quantised), -1) if quantised else values.reshape(0, 0)
    return rows.astype(np.float32) * scales[:, None]
