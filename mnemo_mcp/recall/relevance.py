"""Relevance: what speaks for a candidate, and whether it is enough to show it unasked.

Order alone cannot stay silent: something always comes first. So each candidate is looked at by itself (how
near in meaning, which of the question's words it holds, whether it holds the very identifier asked for) and
against the field: what is meant stands out from the others, stands nearer to the best than to them, and lies
nearer to the question than an everyday request does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from heapq import nlargest

from mnemo_mcp.recall.candidates import Candidates
from mnemo_mcp.recall.question import names_one_thing
from mnemo_mcp.settings import Floor, Recall

_DIGITS = re.compile(r"\d")
_WHOLE = 0.95  # of a weight: as good as all of it


@dataclass(frozen=True, slots=True)
class Field:
    """The candidates as a whole: what speaks for the best, and for the others."""

    best: float
    others: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one candidate. `cosine` is None without vectors.

    `coverage` is the share of the question's weight in words it holds, `of_known` the share of what any
    memory holds. `behind` is its distance to the best one; `stands_out` how far it lies above the middle
    between the best and the others; `everyday` the cosine of the nearest everyday request.
    """

    cosine: float | None
    coverage: float
    of_known: float
    matched: int
    identifier: bool
    name: bool
    rare: bool
    behind: float
    stands_out: float
    everyday: float

    def sure(self, floor: Floor) -> bool:
        """Enough to show it unasked, unless it speaks of another identifier than the one asked for."""
        if self.identifier and self.rare:
            return True
        return not self._answers_everyday() and (self._said(floor) or self._meant(floor))

    def _answers_everyday(self) -> bool:
        """Whether the question is rather one that any session is asked."""
        return self.cosine is not None and self.cosine < self.everyday and self.coverage < _WHOLE

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
        best, telling = self.behind <= 0, self.name or self.rare
        if best and telling and self._near(floor.meaning_surely):
            return True
        if self.stands_out < floor.stands_out:
            return False
        if self.matched > 1:
            return self._near(floor.meaning_with_words)
        return best and self._near(floor.meaning_with_words if telling else floor.meaning_alone)

    def _near(self, least: float) -> bool:
        return self.cosine is not None and self.cosine >= least


def survey(candidates: Candidates, floor: Floor, constants: Recall) -> Field:
    """The field among the rows that may answer.

    A small store is looked at as if unrelated memories stood in it, too: their level is the encoder's.
    """
    level = floor.unrelated if candidates.with_vectors else 0.0
    rank = constants.field_rank
    found = nlargest(rank, [*candidates.speaking.tolist(), *([level] * rank)])
    return Field(found[0], found[-1])


def sure(candidates: Candidates, row: int, field: Field, floor: Floor) -> bool:
    """Whether enough speaks for a row, or for one that it replaced, to show it unasked."""
    here = candidates.speaks_for(row)
    for each in candidates.lineage(row):
        evidence = _weigh(candidates, each, here, field)
        if evidence.sure(floor) and (evidence.identifier or not _holds_another(candidates, each)):
            return True
    return False


def _weigh(candidates: Candidates, row: int, here: float, field: Field) -> Evidence:
    matched = candidates.matched(row)
    coverage = candidates.coverage(row)
    return Evidence(
        cosine=candidates.cosine(row),
        coverage=coverage,
        of_known=coverage / (candidates.known_share or 1.0),
        matched=matched.count,
        identifier=matched.identifier,
        name=matched.name,
        rare=matched.rare,
        behind=field.best - here,
        stands_out=here - (field.best + field.others) / 2,
        everyday=candidates.everyday,
    )


def _holds_another(candidates: Candidates, row: int) -> bool:
    """Whether it holds an identifier built like one asked for, but another one: OPS-1187 for OPS-1188."""
    asked = candidates.question.identifiers
    shapes = {_DIGITS.sub("0", word) for word in asked if _DIGITS.search(word)}
    if not shapes:
        return False
    held = candidates.index.words_of(row)
    return any(_DIGITS.sub("0", word) in shapes and names_one_thing(word) for word in held)
