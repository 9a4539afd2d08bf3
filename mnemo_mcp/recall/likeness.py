"""Likeness of two memories: whether they may tell of the same thing, or tell the same."""

from __future__ import annotations

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.settings import Recall


class Likeness:
    """By the cosine of two rows where both have a vector, else by the words they share."""

    def __init__(self, index: ProfileIndex, meaning: Meaning | None, constants: Recall) -> None:
        self._index = index
        self._matrix = index.matrices.get(meaning.encoder) if meaning else None
        self._constants = constants

    def of_one_thing(self, one: int, other: int) -> bool:
        """Alike enough to be two values of one thing."""
        return self._least(one, other, self._constants.alike_meaning, self._constants.alike_words)

    def repeats(self, one: int, other: int) -> bool:
        """The same words in whatever order, and so near in meaning that they say the same."""
        if not self._least(one, other, self._constants.repeat_meaning, self._constants.repeat_words):
            return False
        words, others = (sorted(self._index.words_of(row)) for row in (one, other))
        return words == others

    def by_meaning(self, one: int, other: int) -> bool:
        """Whether vectors can be compared."""
        return self._matrix is not None and self._matrix.has(one) and self._matrix.has(other)

    def _least(self, one: int, other: int, cosine: float, words: float) -> bool:
        if self._matrix is not None and self.by_meaning(one, other):
            return self._matrix.cosine(one, other) >= cosine
        return self._shared(one, other) >= words

    def _shared(self, one: int, other: int) -> float:
        """The share of their words that two memories have in common."""
        words, others = (set(self._index.words_of(row)) for row in (one, other))
        return len(words & others) / (len(words | others) or 1)
