"""Relevance: what speaks for a candidate, and whether it is enough to show it unasked.

Order alone cannot stay silent: something always comes first. So each candidate is looked at by itself (how
near in meaning, which of the question's words it holds, whether it holds the very identifier asked for) and
against the field: what is meant stands out from the others, and stands nearer to the best than to them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.profile import ProfileIndex, indexed_words
from mnemo_mcp.index.arrays import Mask
from mnemo_mcp.recall.channels import Scores
from mnemo_mcp.recall.question import Question, names_one_thing
from mnemo_mcp.settings import Floor, Recall

_DIGITS = re.compile(r"\d")
_WHOLE = 0.95  # of a weight: as good as all of it


@dataclass(frozen=True, slots=True)
class Field:
    """The candidates as a whole: what speaks for each row, for the best, and for the others.

    `known` is the share of the question's weight in words that any memory holds.
    """

    evidence: npt.NDArray[np.float32]
    best: float
    others: float
    known: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one candidate. `cosine` is None without vectors.

    `coverage` is the share of the question's weight in words it holds, `of_known` the share of what any
    memory holds. `behind` is its distance to the best one; `stands_out` how far it lies above the middle
    between the best and the others.
    """

    cosine: float | None
    coverage: float
    of_known: float
    matched: int
    identifier: bool
    other_identifier: bool
    name: bool
    rare: bool
    behind: float
    stands_out: float

    def sure(self, floor: Floor) -> bool:
        """Enough to show it unasked."""
        if self.other_identifier and not self.identifier:
            return False
        return (self.identifier and self.rare) or self._said(floor) or self._meant(floor)

    def worth_an_answer(self, floor: Floor) -> bool:
        """Enough to be named when somebody asks."""
        if self.identifier or self.coverage >= floor.words_asked:
            return True
        return self._near(floor.meaning_asked)

    def _said(self, floor: Floor) -> bool:
        """It holds the question's words: all that are known here, or a name, or several of which one is rare.

        Where it is near in meaning, fewer are enough.
        """
        near = self._near(floor.meaning_with_words)
        if self.matched > 1 and self.of_known >= _WHOLE:
            telling = self.name or self.rare or self.coverage >= floor.words_alone
            if near or (self.cosine is None and telling):
                return True
        if self.behind > floor.behind:
            return False
        several = self.matched > 1 or self.coverage >= _WHOLE
        if self.coverage >= floor.words_alone:
            return self.name or (several and (self.rare or self._near(floor.meaning_alone)))
        return near and several and self.rare and self.coverage >= floor.words_with_meaning

    def _meant(self, floor: Floor) -> bool:
        """It is near in meaning and no mere one of many; where words hardly agree, only the best one is."""
        best = self.behind <= 0
        if best and self._near(floor.meaning_surely):
            return True
        if self.stands_out < floor.stands_out:
            return False
        if self.matched > 1:
            return self._near(floor.meaning_with_words)
        return best and self._near(floor.meaning_alone)

    def _near(self, least: float) -> bool:
        return self.cosine is not None and self.cosine >= least


def survey(
    index: ProfileIndex, question: Question, scores: Scores, allowed: Mask, floor: Floor, constants: Recall
) -> Field:
    """The field among the allowed rows.

    A small store is looked at as if unrelated memories stood in it, too: their level is the encoder's.
    """
    near = np.maximum(scores.cosine, 0) if scores.cosine is not None else 0
    evidence = np.asarray(near + constants.words_share * scores.coverage, np.float32)
    rank = constants.field_rank
    level = floor.unrelated if scores.cosine is not None else 0.0
    top = np.partition(np.append(evidence[allowed], np.full(rank, level, np.float32)), -rank)[-rank:]
    weights = {word: index.postings.weight(word) for word in question.words}
    known = sum(weight for word, weight in weights.items() if index.postings.frequency(word))
    return Field(evidence, float(top.max()), float(top.min()), known / (sum(weights.values()) or 1.0))


def weigh(index: ProfileIndex, question: Question, scores: Scores, row: int, field: Field) -> Evidence:
    """The evidence for one row."""
    matched = [word for word in question.words if index.postings.holds(word, row)]
    cosine = float(scores.cosine[row]) if scores.cosine is not None and scores.cosine[row] > -1 else None
    here = float(field.evidence[row])
    return Evidence(
        cosine=cosine,
        coverage=float(scores.coverage[row]),
        of_known=float(scores.coverage[row]) / (field.known or 1.0),
        matched=_wholes(matched),
        identifier=any(word in question.identifiers for word in matched),
        other_identifier=_holds_another(index, question, row),
        name=any(index.is_name(word) for word in matched),
        rare=any(_rare(index, word) for word in matched),
        behind=field.best - here,
        stands_out=here - (field.best + field.others) / 2,
    )


def _wholes(matched: list[str]) -> int:
    """How many words, the parts of a compound not counted beside it."""
    return sum(not any(word in other and word != other for other in matched) for word in matched)


def _holds_another(index: ProfileIndex, question: Question, row: int) -> bool:
    """Whether it holds an identifier built like one asked for, but another one: OPS-1187 for OPS-1188."""
    shapes = {_DIGITS.sub("0", word) for word in question.identifiers if _DIGITS.search(word)}
    if not shapes:
        return False
    held = indexed_words(index.memories[row])
    return any(_DIGITS.sub("0", word) in shapes for word in held if names_one_thing(word))


def _rare(index: ProfileIndex, word: str) -> bool:
    return index.postings.frequency(word) <= max(2, len(index) // 30)
