"""The index of every profile, kept level with the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.vectors import Stored
from mnemo_mcp.models.encoder import Encoder

Embed = Callable[[Encoder, Sequence[str]], Sequence[Stored]]
"""Gives texts their int8 vectors, from the cache where they are there."""


class Index:
    """One `ProfileIndex` a profile; nothing is shared between them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._profiles: dict[str, ProfileIndex] = {}
        self._seq = 0
        self._lock = threading.Lock()

    def profile(self, name: str) -> ProfileIndex:
        """The index of a profile, up to the last ledger row."""
        self.catch_up()
        with self._lock:
            return self._of(name)

    def profiles(self) -> list[ProfileIndex]:
        with self._lock:
            return list(self._profiles.values())

    def catch_up(self) -> None:
        """Take in what the ledger holds beyond what the index has seen."""
        with self._lock:
            newest, changed = self._store.truth.changed_since(self._seq)
            for memory in changed:
                index = self._of(memory.profile)
                with index.lock:
                    index.apply(memory)
            self._seq = newest

    def _of(self, profile: str) -> ProfileIndex:
        if profile not in self._profiles:
            self._profiles[profile] = ProfileIndex()
        return self._profiles[profile]

    def embed(self, encoder: Encoder, embed: Embed, most: int) -> int:
        """Give up to `most` memories a profile the vectors they lack; how many were given."""
        given = 0
        for index in self.profiles():
            with index.lock:
                rows = index.lacking(encoder.id, most)
                memories = [index.memory(row) for row in rows]
            if memories:
                vectors = embed(encoder, [memory.claim.text() for memory in memories])
                ids = [memory.id for memory in memories]
                with index.lock:
                    index.attach(encoder.id, encoder.dims, dict(zip(ids, vectors, strict=True)))
            given += len(memories)
        return given
