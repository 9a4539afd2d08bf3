"""Likeness of memories among themselves: whether two may tell of the same thing, or tell the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemo_mcp.guard import may_be_same
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.settings import Recall

_REPEAT_SHARED = 0.5  # of the words of both; fewer are no repeat, whatever the vectors say


class Likeness:
    """By the cosine of two rows where both have a vector, else by the words they share."""

    def __init__(
        self, index: ProfileIndex, meaning: Meaning | None, rows: Sequence[int], constants: Recall
    ) -> None:
        """`rows` are those that will be compared."""
        self._index = index
        self._constants = constants
        self._place = {row: place for place, row in enumerate(rows)}
        matrix = index.matrices.get(meaning.encoder) if meaning else None
        self._there = [matrix is not None and matrix.has(row) for row in rows]
        vectors = matrix.vectors(np.array(rows, np.int64)) if matrix else np.zeros((len(rows), 1), np.float32)
        self._cosine: list[list[float]] = (vectors @ vectors.T).tolist()

    def of_one_thing(self, one: int, other: int) -> bool:
        """Alike enough to be two values of one thing."""
        return self._least(one, other, self._constants.alike_meaning, self._constants.alike_words)

    def pairs(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """The pairs of `rows` alike enough to say the same, in their order."""
        constants = self._constants
        return [
            (one, other)
            for place, other in enumerate(rows)
            for one in rows[:place]
            if self._least(one, other, constants.repeat_meaning, constants.repeat_words)
        ]

    def say_the_same(self, one: int, other: int) -> bool:
        """Whether two rows that are alike share most words, and the guard sees no difference."""
        if self._shared(one, other) < _REPEAT_SHARED:
            return False
        first, second = (self._index.memory(row).claim.text() for row in (one, other))
        return may_be_same(first, second)

    def by_meaning(self, one: int, other: int) -> bool:
        """Whether the vectors of two rows can be compared."""
        return self._there[self._place[one]] and self._there[self._place[other]]

    def _least(self, one: int, other: int, cosine: float, words: float) -> bool:
        if self.by_meaning(one, other):
            return self._cosine[self._place[one]][self._place[other]] >= cosine
        return self._shared(one, other) >= words

    def _shared(self, one: int, other: int) -> float:
        """The share of their words that two memories have in common."""
        words, others = (set(self._index.words_of(row)) for row in (one, other))
        return len(words & others) / (len(words | others) or 1)
