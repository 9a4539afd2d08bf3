"""Vectors of texts through the cache in the store: no text is embedded twice by the same encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mnemo_mcp.errors import ModelError, StoreError
from mnemo_mcp.ledger.vectors import Stored, Vectors, text_hash
from mnemo_mcp.models.encoder import BATCH_TEXTS, Encoder, Matrix, Quantised, dequantise, quantise


class CachedEmbedding:
    """Gives texts their vectors, always as the cache keeps them, so that a rebuild finds the same ones.

    Usable from any thread. No transaction is open while an encoder works, and each batch is kept as soon
    as it is done. Two threads that lack the same text both embed it; the first one's vector stays.
    """

    def __init__(self, vectors: Vectors, ending: Callable[[], bool] = lambda: False) -> None:
        """Once `ending` holds, nothing more is embedded; each text then raises `StoreError`."""
        self._vectors = vectors
        self._ending = ending

    def missing(self, encoder: Encoder, texts: Sequence[str]) -> list[str]:
        """Those of `texts`, once each, that have no vector yet."""
        by_hash = {text_hash(text): text for text in texts}
        known = self._vectors.get(encoder.id, by_hash)
        return [text for name, text in by_hash.items() if name not in known]

    def get(self, encoder: Encoder, texts: Sequence[str]) -> Matrix:
        """The vectors of `texts` in order. Raises `ModelError` when the encoder gives no usable ones."""
        if not texts:
            return np.empty((0, encoder.dims), np.float32)
        return dequantise([Quantised(scale, values) for scale, values in self.stored(encoder, texts)])

    def stored(self, encoder: Encoder, texts: Sequence[str]) -> list[Stored]:
        """As `get`, in the form in which the cache keeps them."""
        fresh: dict[bytes, Stored] = {}
        lacking = sorted(self.missing(encoder, texts), key=len)  # texts of like length pad each other little
        for start in range(0, len(lacking), BATCH_TEXTS):
            if self._ending():
                raise StoreError("mnemo is ending.", "Ask again in a moment.")
            batch = lacking[start : start + BATCH_TEXTS]
            kept = [(each.scale, each.values) for each in quantise(_usable(encoder, batch))]
            done = dict(zip(map(text_hash, batch), kept, strict=True))
            self._vectors.put(encoder.id, done.items())
            fresh |= done
        hashes = [text_hash(text) for text in texts]
        found = fresh | self._vectors.get(encoder.id, set(hashes))
        return [found[name] for name in hashes]


def _usable(encoder: Encoder, texts: Sequence[str]) -> Matrix:
    vectors = encoder.encode(texts)
    if vectors.shape != (len(texts), encoder.dims) or not np.isfinite(vectors).all():
        raise ModelError(
            f"The encoder {encoder.id} gave {vectors.shape} for {len(texts)} texts, or no numbers;"
            f" {encoder.dims} numbers each were expected.",
            "Choose another encoder in config.toml.",
        )
    return vectors
