"""Fusion: the lists of all channels become one order, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Keys, Rows
from mnemo_mcp.recall.channels import Channel, Listed
from mnemo_mcp.settings import Recall

Lists = Mapping[Channel, Listed]
Weights = Mapping[Channel, float]


def fuse(
    lists: Lists, weights: Weights, ties: Callable[[Rows], Keys], constants: Recall
) -> tuple[Rows, Floats]:
    """Rows with the sum of weight x vote over the channels that hold them; best first, ties by id.

    A vote lies in 0..1. By ranks it is (k + 1) / (k + rank), after weighted reciprocal rank fusion; by scores
    it is the row's share of what lies between the list's last score and its first, but a time is near or far
    in itself. Both were measured (`bench/quality.py`, docs/recall.md). An empty list and a weight of 0 make
    no difference to the order.
    """
    heard = [(channel, listed) for channel, listed in lists.items() if len(listed) and weights[channel] > 0]
    if not heard:
        return NO_ROWS, np.zeros(0, np.float32)
    rows, places = np.unique(np.concatenate([listed.rows for _, listed in heard]), return_inverse=True)
    said = [weights[channel] * votes(channel, listed, constants) for channel, listed in heard]
    # sums of votes in one order whatever the order of lists; what is left of rounding must not decide
    sums = np.round(np.bincount(places, np.concatenate(said)), 6).astype(np.float32)
    order = np.lexsort((ties(rows), -sums))
    return rows[order], sums[order]


def votes(channel: Channel, listed: Listed, constants: Recall) -> Floats:
    """How strongly a channel speaks for each row of its list, 0..1."""
    if constants.votes_by == "ranks":
        k = constants.rank_constant
        return np.asarray((k + 1) / (k + 1 + np.arange(len(listed))), np.float32)
    if channel is Channel.TIME or not len(listed):
        return listed.scores
    top = listed.scores[0]
    # Cosines have no zero of their own: where a full list ends, nothing is meant any more.
    full = channel is Channel.MEANING and len(listed) >= constants.channel_depth
    low = listed.scores[-1] if full else np.float32(0)
    return np.asarray((listed.scores - low) / ((top - low) or np.float32(1)), np.float32)
