"""Fusion: the lists of all channels become one order, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum

from mnemo_mcp.recall.channels import Channel, Listed
from mnemo_mcp.settings import Recall

Lists = Mapping[Channel, Listed]
Weights = Mapping[Channel, float]


def fuse(
    lists: Lists, weights: Weights, name: Callable[[int], str], constants: Recall
) -> list[tuple[int, float]]:
    """Rows with the sum of weight x vote over the channels that hold them; best first, ties by `name` (id).

    A vote lies in 0..1. By ranks it is (k + 1) / (k + rank), after weighted reciprocal rank fusion; by scores
    it is the row's share of what lies between the list's last score and its first. Both were measured
    (`bench/quality.py`, docs/recall.md). An empty list and a weight of 0 make no difference to the order.
    """
    by_row: dict[int, list[float]] = {}
    for channel, listed in lists.items():
        weight = weights[channel]
        if weight > 0:
            for row, vote in zip(listed.rows, votes(channel, listed, constants), strict=True):
                by_row.setdefault(row, []).append(weight * vote)
    fused = [(row, fsum(parts)) for row, parts in by_row.items()]
    return sorted(fused, key=lambda item: (-item[1], name(item[0])))


def votes(channel: Channel, listed: Listed, constants: Recall) -> Sequence[float]:
    """How strongly a channel speaks for each row of its list, 0..1."""
    if constants.votes_by == "ranks" or not listed.scores:
        k = constants.rank_constant
        return [(k + 1) / (k + rank) for rank in range(1, len(listed) + 1)]
    top = listed.scores[0]
    # Cosines have no zero of their own: where a full list ends, nothing is meant any more.
    low = listed.scores[-1] if channel is Channel.MEANING and len(listed) >= constants.channel_depth else 0.0
    spread = (top - low) or 1.0
    return [(score - low) / spread for score in listed.scores]
