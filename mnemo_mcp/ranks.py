"""Ranks: lists of ids, each best first, fused once into one order by weighted reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

RANK_CONSTANT = 15
MISSING_RANK = 1000
"""Where a list is taken to hold an id that it does not hold."""


def fuse(lists: Sequence[tuple[float, Sequence[str]]], k: int = RANK_CONSTANT) -> list[tuple[str, float]]:
    """Ids with the sum of weight / (k + rank) over the (weight, ids) lists; best first, ties by id.

    A repeated id counts once, at its best rank, and a list of weight 0 is not heard. Neither an empty list
    nor the order of the lists makes a difference to the order. Raises `ValueError` for a weight below 0 or
    a `k` not above 0.
    """
    if k <= 0:
        raise ValueError(f"the rank constant is {k}; it must be above 0")
    heard: list[tuple[float, dict[str, int]]] = []
    for weight, ids in lists:
        if not weight >= 0:
            raise ValueError(f"a list has the weight {weight}; it must not be below 0")
        if weight:
            heard.append((weight, {each: rank for rank, each in reversed([*enumerate(ids, start=1)])}))
    found = {each for _, ranks in heard for each in ranks}
    scores = (
        (each, fsum(weight / (k + ranks.get(each, MISSING_RANK)) for weight, ranks in heard))
        for each in found
    )
    return sorted(scores, key=lambda item: (-item[1], item[0]))
