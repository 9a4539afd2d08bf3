"""Relevance: what speaks for a candidate, and whether it is enough to show it unasked.

Order alone cannot stay silent: something always comes first. So each candidate is looked at by itself
(how near in meaning, how much of the question its words cover, whether it holds the very identifier asked
for) and against the field (how far it stands behind the nearest one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnemo_mcp.index.profile import ProfileIndex, indexed_words
from mnemo_mcp.recall.channels import Scores
from mnemo_mcp.recall.question import Question, names_one_thing
from mnemo_mcp.settings import Floor

_DIGITS = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one candidate. `cosine` is None without vectors; `behind`: distance to the nearest."""

    cosine: float | None
    behind: float
    coverage: float
    matched: int
    identifier: bool
    other_identifier: bool
    name: bool
    rare: bool

    def sure(self, floor: Floor) -> bool:
        """Enough to show it unasked."""
        if self.other_identifier and not self.identifier:
            return False
        if self.identifier:
            return True
        if self.coverage >= floor.words_alone and (self.name or (self.rare and self.matched > 1)):
            return True
        if self.cosine is None:
            return False
        if self.cosine >= floor.meaning_alone and self.behind <= floor.behind:
            return True
        return (
            self.cosine >= floor.meaning_with_words
            and self.coverage >= floor.words_with_meaning
            and self.behind <= floor.behind
        )

    def worth_an_answer(self, floor: Floor) -> bool:
        """Enough to be named when somebody asks."""
        if self.identifier or self.coverage >= floor.words_asked:
            return True
        return self.cosine is not None and self.cosine >= floor.meaning_asked


def weigh(index: ProfileIndex, question: Question, scores: Scores, row: int, nearest: float) -> Evidence:
    """The evidence for one row; `nearest` is the best cosine of the field."""
    held = set(indexed_words(index.memories[row]))
    matched = [word for word in question.words if word in held]
    cosine = float(scores.cosine[row]) if scores.cosine is not None and scores.cosine[row] > -1 else None
    return Evidence(
        cosine=cosine,
        behind=nearest - cosine if cosine is not None else 0.0,
        coverage=float(scores.coverage[row]),
        matched=len(matched),
        identifier=any(word in held for word in question.identifiers),
        other_identifier=_holds_another(question, held),
        name=any(index.is_name(word) for word in matched),
        rare=any(_rare(index, word) for word in matched),
    )


def _holds_another(question: Question, held: set[str]) -> bool:
    """Whether it holds an identifier built like one asked for, but another one: OPS-1187 for OPS-1188."""
    shapes = {_DIGITS.sub("0", word) for word in question.identifiers if _DIGITS.search(word)}
    return any(_DIGITS.sub("0", word) in shapes for word in held if names_one_thing(word))


def _rare(index: ProfileIndex, word: str) -> bool:
    return index.postings.frequency(word) <= max(2, len(index) // 30)
