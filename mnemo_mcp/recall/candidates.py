"""Candidates: the rows any channel named, with everything the ranking looks at, read from the index once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.recall.channels import INHERITED, Meaning
from mnemo_mcp.recall.question import Question

Floats = npt.NDArray[np.float32]

_NO_VECTOR = -1.0


class Candidates:
    """How near each candidate is, and which of the question's words it holds.

    What speaks for a memory that was replaced speaks, a little less, for the one that replaced it.
    """

    def __init__(
        self,
        index: ProfileIndex,
        question: Question,
        meaning: Meaning | None,
        named: Iterable[int],
        words_share: float,
    ) -> None:
        """`named` are the rows that may answer; `words_share` is the weight of words beside the cosine."""
        self.index = index
        self.question = question
        rows = list(dict.fromkeys(named))
        before = self._replaced_by(rows)
        replaced = [old for each in before.values() for old, _ in each]
        self._place = {row: place for place, row in enumerate(dict.fromkeys([*rows, *replaced]))}
        everything = np.fromiter(self._place, np.int64, len(self._place))
        weights = np.array([index.postings.weight(word) for word in question.words], np.float32)
        known = np.array([index.postings.frequency(word) > 0 for word in question.words], np.bool_)
        total = float(weights.sum()) or 1.0
        self._held = index.postings.held(question.words, everything)
        self._before = before
        self.known_share = float(weights[known].sum()) / total
        coverage = np.asarray(weights @ self._held / total, np.float32)
        self._coverage = self._inherited(coverage)
        self._cosine = self._inherited(self._cosines(meaning, everything))
        speaking = np.maximum(self._cosine, 0) + words_share * self._coverage
        self.speaking = dict(zip(rows, speaking[: len(rows)].tolist(), strict=True))
        """What speaks for each named row in one figure."""

    def lineage(self, row: int) -> list[int]:
        """The row and those it replaced, itself first."""
        return [row, *(old for old, _ in self._before.get(row, ()))]

    def cosine(self, row: int) -> float | None:
        """None without vectors, or where this row has none yet."""
        value = float(self._cosine[self._place[row]])
        return value if value > _NO_VECTOR else None

    def coverage(self, row: int) -> float:
        """The share of the question's weight in words that a row holds, 0..1."""
        return float(self._coverage[self._place[row]])

    def matched(self, row: int) -> list[str]:
        """The question's words that a row holds itself."""
        column = self._held[:, self._place[row]]
        return [word for word, held in zip(self.question.words, column.tolist(), strict=True) if held]

    @property
    def with_vectors(self) -> bool:
        return bool((self._cosine > _NO_VECTOR).any())

    def _replaced_by(self, rows: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
        successions = self.index.successions()
        return {row: before for row in rows if (before := successions.ancestors(row))}

    def _cosines(self, meaning: Meaning | None, rows: npt.NDArray[np.int64]) -> Floats:
        matrix = self.index.matrices.get(meaning.encoder) if meaning else None
        if matrix is None or meaning is None:
            return np.full(len(rows), _NO_VECTOR, np.float32)
        return matrix.cosines(meaning.vector, rows)

    def _inherited(self, values: Floats) -> Floats:
        found = values.copy()
        for row, before in self._before.items():
            inherited = (values[self._place[old]] * INHERITED**steps for old, steps in before)
            found[self._place[row]] = max(values[self._place[row]], *inherited)
        return found
