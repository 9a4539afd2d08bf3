"""How many tokens a text may cost a model, rather too many than too few; counted once, kept with the text."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from mnemo_mcp.models.cut import sound
from mnemo_mcp.models.files import VOCABULARY, VOCABULARY_SHA256, checked

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES_A_TOKEN = 4
LONGEST_READ = 200_000  # bytes; WordPiece takes 0.1 to 0.2 s for so many


class TokenCounter:
    """Counts by a WordPiece vocabulary or by bytes, whichever gives more, times `scale`.

    WordPiece alone takes an unbroken run of more than 100 letters for one token; bytes alone give
    far too few for code and for languages with short words. Loads its vocabulary at first use.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale
        self._tokenizer: Tokenizer | None = None
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        """The tokens of `text`; beyond 200 kB its bytes alone decide."""
        readable = sound(text)
        size = len(readable.encode())
        tokens = math.ceil(size / BYTES_A_TOKEN)
        if 0 < size <= LONGEST_READ:
            tokens = max(tokens, len(self._loaded().encode(readable, add_special_tokens=False).ids))
        return math.ceil(self._scale * tokens)

    def _loaded(self) -> Tokenizer:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = _vocabulary()
            return self._tokenizer


def _vocabulary() -> Tokenizer:
    from tokenizers import Tokenizer

    checked(VOCABULARY, VOCABULARY_SHA256)
    tokenizer = Tokenizer.from_buffer(VOCABULARY.read_bytes())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return tokenizer
