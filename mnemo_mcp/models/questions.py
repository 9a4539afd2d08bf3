"""Typed questions to a judge and what it answers: a probability for each option, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the options holds? `options` gives each with its description."""

    name: str
    instructions: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Predicate:
    """Is it so?"""

    name: str
    instructions: str


Question = Choice | Predicate

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Answer:
    """How probable each option is (of a predicate: yes and no).

    One that is `refused` has no probabilities and decides nothing. A judge that can only name an option
    gives it in `said`, without probabilities: enough to tell a person, never enough to change a memory.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    refused: bool = False
    said: str = ""

    def probability(self, option: str = YES) -> float:
        return self.probabilities.get(option, 0.0)

    @property
    def best(self) -> tuple[str, float]:
        """The most probable option; what was said, at probability 0, where there are none."""
        if not self.probabilities:
            return self.said, 0.0
        return max(self.probabilities.items(), key=lambda each: (each[1], each[0]))


REFUSED = Answer(refused=True)


def options_of(question: Question) -> Mapping[str, str]:
    """The options of any question with their descriptions."""
    return question.options if isinstance(question, Choice) else {YES: "It is so.", NO: "It is not so."}


def from_shares(question: Question, shares: Mapping[str, Any]) -> Answer:
    """An answer from probabilities as a server gave them, made to sum to 1; refused where they cannot be."""
    usable = {}
    for option in options_of(question):
        share = shares.get(option, 0.0)
        if type(share) not in (int, float) or not 0.0 <= share <= 1.0 + 1e-6:
            return REFUSED
        usable[option] = float(share)
    whole = sum(usable.values())
    return Answer({option: share / whole for option, share in usable.items()}) if whole > 0 else REFUSED
