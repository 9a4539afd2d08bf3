"""Matching: what it means that a memory holds some of a question's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mnemo_mcp.index.arrays import Floats, Mask
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.recall.question import Question

_RARE_SHARE = 30  # a word in no more than one memory of so many is rare


@dataclass(frozen=True, slots=True)
class Matched:
    """How many whole words were matched, and whether an identifier, a name or a rare word is among them."""

    count: int
    identifier: bool
    name: bool
    rare: bool


class QuestionWords:
    """The words of a question as one index knows them, looked up once."""

    def __init__(self, index: ProfileIndex, question: Question) -> None:
        words = question.words
        seen = [index.postings.frequency(word) for word in words]
        self._weights = np.array([index.postings.telling(each) for each in seen], np.float32)
        self._total = float(self._weights.sum()) or 1.0
        self._rare = [each <= max(2, len(index) // _RARE_SHARE) for each in seen]
        self._name = [index.is_name(word) for word in words]
        self.identifier = [place for place, word in enumerate(words) if word in question.identifiers]
        self._identifiers = frozenset(self.identifier)
        # the parts of a compound are not counted beside it
        self._wholes = [
            [other for other, longer in enumerate(words) if word in longer and word != longer]
            for word in words
        ]
        self.known_identifier = any(seen[place] for place in self.identifier)
        known = np.array([each > 0 for each in seen], np.bool_)
        self.known_share = float(self._weights[known].sum()) / self._total
        """The share of the question's weight in words that any memory holds."""

    def share(self, held: Mask) -> Floats:
        """The share of the question's weight in the words that each memory (a column) holds."""
        return np.asarray(self._weights @ held / self._total, np.float32)

    def matched(self, held: Sequence[bool]) -> Matched:
        """What a memory that holds these words matches."""
        places = [place for place, each in enumerate(held) if each]
        return Matched(
            sum(not any(held[other] for other in self._wholes[place]) for place in places),
            not self._identifiers.isdisjoint(places),
            any(self._name[place] for place in places),
            any(self._rare[place] for place in places),
        )
