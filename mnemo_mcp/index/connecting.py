"""Connecting: a memory whose vector arrives is linked to those that lie near it in meaning."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import instant
from mnemo_mcp.times import Clock

MOST = 10
LEAST = 0.70
"""The cosine from which on two memories are connected, to ten others at most: text 001's figures."""


class Connecting:
    """Keeps the links of the indexes and the connections in the store level."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: set[str] = set()

    def read(self, profile: str, index: ProfileIndex) -> None:
        """Take in the stored connections of a profile; once, for the background."""
        if profile in self._read:
            return
        self._read.add(profile)
        for one, other, weight in self._store.connections.all(profile, instant(self._clock())):
            with index.lock:
                row, to = index.row(one), index.row(other)
                if row is not None and to is not None:
                    index.links.add(row, to, weight)

    def connect(self, profile: str, index: ProfileIndex, encoder: str, memories: Iterable[str]) -> None:
        """Link memories that just got their vectors to their neighbours, and store that."""
        pairs = [pair for memory in memories for pair in _near(index, encoder, memory)]
        if pairs:
            with self._store.write() as tx:
                self._store.connections.add(tx, profile, pairs, instant(self._clock()))


def _near(index: ProfileIndex, encoder: str, memory: str) -> list[tuple[str, str, float]]:
    """The pairs of a memory with those near it, which are linked in the index as well."""
    found: list[tuple[str, str, float]] = []
    with index.lock:
        row, matrix = index.row(memory), index.matrices[encoder]
        if row is None or not matrix.has(row):
            return []
        vector = matrix.vectors(np.array([row]))[0]
        rows, cosines = matrix.nearest(vector, index.states.everything(), MOST + 1)
        for other, cosine in zip(rows.tolist(), cosines.tolist(), strict=True):
            if other != row and cosine >= LEAST:
                index.links.add(row, other, min(1.0, cosine))
                found.append((memory, index.id(other), min(1.0, cosine)))
    return found
