"""Ranks: lists of ids, each best first, fused once into one order by weighted reciprocal ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import fsum

RANK_CONSTANT = 15


def fuse(lists: Sequence[tuple[float, Sequence[str]]], k: int = RANK_CONSTANT) -> list[tuple[str, float]]:
    """Ids with the sum of weight / (k + rank) over the (weight, ids) lists; best first, ties by id.

    A list says nothing of an id it does not hold, a repeated id counts once, at its best rank, and a list
    of weight 0 is not heard. The order of the lists makes no difference. Raises `ValueError` for a weight
    below 0 or a `k` not above 0.
    """
    if k <= 0:
        raise ValueError(f"the rank constant is {k}; it must be above 0")
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for weight, ids in lists:
        if not weight >= 0:
            raise ValueError(f"a list has the weight {weight}; it must not be below 0")
        best: dict[str, int] = {}
        for rank, each in enumerate(ids if weight else (), start=1):
            best.setdefault(each, rank)
        for each, rank in best.items():
            shares[each].append(weight / (k + rank))
    scores = ((each, fsum(parts)) for each, parts in shares.items())
    return sorted(scores, key=lambda item: (-item[1], item[0]))
