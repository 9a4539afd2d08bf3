"""Candidates: the rows any channel named, with everything the ranking looks at, read from the index once."""

from __future__ import annotations

import numpy as np

from mnemo_mcp.index.arrays import Floats, Mask, Rows
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.recall.channels import INHERITED, Meaning
from mnemo_mcp.recall.matching import Matched, QuestionWords
from mnemo_mcp.recall.question import Question

_NO_VECTOR = -1.0
_WHOLE = 0.95  # of a weight: as good as all of it


class Candidates:
    """How near each candidate is, and which of the question's words it holds.

    What speaks for a memory that was replaced speaks, a little less, for the one that replaced it.
    """

    def __init__(
        self,
        index: ProfileIndex,
        question: Question,
        meaning: Meaning | None,
        named: Rows,
        words_share: float,
    ) -> None:
        """`named` are distinct rows; `words_share` is the weight of words beside the cosine."""
        self.index = index
        self.question = question
        self.everyday = meaning.everyday if meaning else -1.0
        """How near an everyday request lies to the question."""
        successions = index.successions()
        self._before = {row: before for row in named.tolist() if (before := successions.ancestors(row))}
        replaced = [old for each in self._before.values() for old, _ in each]
        everything = np.array(list(dict.fromkeys([*named.tolist(), *replaced])), np.int64)
        self._place = {row: place for place, row in enumerate(everything.tolist())}
        self._words = QuestionWords(index, question)
        held = index.postings.held(question.words, everything)
        self._held = held.T.tolist()
        self._coverage = self._inherited(self._words.share(held))
        self._cosine = self._inherited(self._cosines(meaning, everything))
        self._exact: Mask = np.asarray(held[self._words.identifier].any(axis=0), np.bool_)
        speaking = np.maximum(self._cosine, 0) + np.float32(words_share) * self._coverage
        self.speaking: Floats = speaking[: len(named)]
        """What speaks for each named row in one figure."""

    @property
    def known_identifier(self) -> bool:
        """Whether any memory holds an identifier asked for."""
        return self._words.known_identifier

    @property
    def known_share(self) -> float:
        """The share of the question's weight in words that any memory holds."""
        return self._words.known_share

    @property
    def with_vectors(self) -> bool:
        return bool((self._cosine > _NO_VECTOR).any())

    def worth_an_answer(self, rows: Rows, meaning_asked: float, words_asked: float) -> Mask:
        """Which rows hold an identifier asked for, enough of the words, or lie near enough in meaning."""
        places = np.fromiter((self._place[row] for row in rows.tolist()), np.int64, len(rows))
        exact = self._exact.copy()
        for row in self._before:
            exact[self._place[row]] = any(self._exact[self._place[each]] for each in self.lineage(row))
        # all that is known here of what was asked is enough, however much of it nobody knows
        enough = self._coverage >= min(words_asked, _WHOLE * self.known_share or words_asked)
        worth = (self._cosine >= meaning_asked) | enough | exact
        return np.asarray(worth[places], np.bool_)

    def lineage(self, row: int) -> list[int]:
        """The row and those it replaced, itself first."""
        return [row, *(old for old, _ in self._before[row])] if row in self._before else [row]

    def cosine(self, row: int) -> float | None:
        """None without vectors, or where this row has none yet."""
        value = float(self._cosine[self._place[row]])
        return value if value > _NO_VECTOR else None

    def coverage(self, row: int) -> float:
        """The share of the question's weight in words that a row holds, 0..1."""
        return float(self._coverage[self._place[row]])

    def most_covered(self, rows: Rows) -> float:
        """The coverage of the row that covers most."""
        return max(self.coverage(row) for row in rows.tolist())

    def speaks_for(self, row: int) -> float:
        """What speaks for a named row in one figure."""
        return float(self.speaking[self._place[row]])

    def matched(self, row: int) -> Matched:
        """What the question's words that a row holds itself amount to."""
        return self._words.matched(self._held[self._place[row]])

    def _cosines(self, meaning: Meaning | None, rows: Rows) -> Floats:
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
