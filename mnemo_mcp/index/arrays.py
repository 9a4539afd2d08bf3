"""What the parts of the index share: types of arrays, growth by doubling, and choosing the best few."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]

NO_ROWS: Rows = np.zeros(0, np.int64)


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """`array` itself where it has room for `size` rows, else a copy with twice the room or more."""
    if size <= len(array):
        return array
    larger = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def best(values: Floats, ties: Keys | Rows, depth: int) -> npt.NDArray[np.intp]:
    """The places of the `depth` largest values, largest first; equal ones by their `ties`, at the cut too."""
    places = np.arange(len(values))
    if len(values) > depth:
        least = np.partition(values, -depth)[-depth] if depth else np.inf
        places = np.flatnonzero(values >= least)
    return places[np.lexsort((ties[places], -values[places]))][:depth]
