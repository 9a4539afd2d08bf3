"""Weighing: what a judge's answer amounts to, once the guard and the rules of kinds and people had their say.

In doubt both memories stay: whatever is not sure enough, refused or overruled is `different`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor

from mnemo_mcp import guard
from mnemo_mcp.judge.admission import covers
from mnemo_mcp.judge.asking import GROUNDED, LASTS, USEFUL, Relation
from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.memory import Claim, Kind, Memory, Period, Role
from mnemo_mcp.models.questions import NO, Answer
from mnemo_mcp.settings import Judging
from mnemo_mcp.words import telling

_OF_PEOPLE = (Kind.DECISION, Kind.PREFERENCE)
_LOOSE = (Kind.FACT, Kind.STATE)
_STEM = 5  # letters at the beginning that two forms of a word share
_CHANGED = re.compile(
    r"\b(no longer|not any ?more|from now on|ya no|ne .{1,40} plus|nicht mehr|ab sofort|não .{1,40} mais"
    r"|non .{1,40} più|больше не)\b|もう.{1,20}ない|不再",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What is made of a candidate and one neighbour. `shares` and `guard` are kept beside it."""

    neighbour: Memory
    relation: Relation
    reason: str
    shares: Mapping[str, float] = field(default_factory=dict)
    guard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Which of the two a person's word keeps."""

    candidate: bool = False
    neighbour: bool = False


def weigh(
    candidate: Candidate, neighbour: Memory, answer: Answer | None, kept: Kept, constants: Judging
) -> Judged:
    """What an answer amounts to."""
    seen = tuple(map(str, differences(candidate.claim, neighbour.claim)))
    shares = answer.probabilities if answer else {}

    def judged(relation: Relation, reason: str) -> Judged:
        return Judged(neighbour, relation, reason, shares, seen)

    if answer is None or answer.refused:
        return judged(Relation.DIFFERENT, "the judge gave no answer")
    said, share = answer.best
    reason = told(answer)
    if said not in set(Relation) or (not shares and not constants.said_may_act):
        return judged(Relation.DIFFERENT, f"{reason}, without a probability")
    if shares and share < constants.act_from:
        return judged(Relation.DIFFERENT, f"{reason}, below {constants.act_from:.2f}")
    relation = Relation(said)
    if relation is Relation.CONTRADICTS and _tells_of_a_change(candidate, neighbour):
        relation, reason = Relation.UPDATES, f"{reason}, and the claim itself tells of a change"
    against = objection(candidate, neighbour, relation, kept, apart=bool(seen))
    if against:
        return judged(Relation.DIFFERENT, f"{reason}, but {against}")
    return judged(relation, reason)


def told(answer: Answer) -> str:
    """What a judge said, in words; probabilities are cut, so that none looks higher than it is."""
    said, share = answer.best
    return f"the judge said {said}" + (f" at {floor(share * 100) / 100:.2f}" if answer.probabilities else "")


def objection(
    candidate: Candidate, neighbour: Memory, relation: Relation, kept: Kept, *, apart: bool = False
) -> str:
    """What stands against acting on a relation, or nothing."""
    match relation:
        case Relation.SAME:
            return _against_merging(candidate, neighbour, kept, apart)
        case Relation.UPDATES | Relation.CONTRADICTS:
            return _against_replacing(candidate, neighbour, relation, kept)
    return ""


def _against_merging(candidate: Candidate, neighbour: Memory, kept: Kept, apart: bool) -> str:
    kind, known = candidate.claim.kind, neighbour.claim.kind
    if apart:
        return "the guard sees a difference"
    if kind is not known and kind not in _LOOSE:
        return f"a {kind} is not merged into a {known}"
    if not covers(neighbour, Period(candidate.start, candidate.valid_to), dated=candidate.dated):
        return "it tells of another time"
    return "a person keeps it" if kept.candidate else ""


def _against_replacing(candidate: Candidate, neighbour: Memory, relation: Relation, kept: Kept) -> str:
    known = neighbour.claim.kind
    if not _of_one_thing(candidate.claim, neighbour.claim):
        return "the two have nothing in common"
    if kept.neighbour or (kept.candidate and candidate.start < neighbour.valid_from):
        return "a person keeps it"
    if known in _OF_PEOPLE and neighbour.origin is Role.PERSON and candidate.origin is not Role.PERSON:
        return f"a person's {known} gives way to a person's word alone"
    if relation is Relation.UPDATES and known is Kind.EVENT:
        return "what happened stays true"
    if known is Kind.PREFERENCE and candidate.claim.kind not in _OF_PEOPLE:
        return "a preference stands until it is changed"
    return ""


def _of_one_thing(claim: Claim, known: Claim) -> bool:
    """Whether two claims share a telling word, or an entity; across scripts that cannot be seen."""
    one, other = (_speaking_of(each) for each in (claim, known))
    if one & other or claim.what.isascii() != known.what.isascii():
        return True
    return any(_akin(word, another) for word in one for another in other)


def _speaking_of(claim: Claim) -> set[str]:
    names = " ".join((claim.subject, *(each.name for each in claim.entities)))
    return {word for word in telling(f"{claim.text()} {names}") if not word[0].isdigit()}


def _akin(word: str, other: str) -> bool:
    return len(word) > _STEM and len(other) > _STEM and word[:_STEM] == other[:_STEM]


def _tells_of_a_change(candidate: Candidate, neighbour: Memory) -> bool:
    """Whether a claim that is said to correct another tells by its own words that the world changed."""
    return candidate.start > neighbour.valid_from and bool(_CHANGED.search(candidate.claim.what))


def differences(claim: Claim, known: Claim) -> list[object]:
    """What the guard sees between two claims, part by part; a place that one alone names goes with `what`."""
    whats = [claim.what, known.what]
    if bool(claim.where) != bool(known.where):
        whats = [f"{each.what} {each.where}".strip() for each in (claim, known)]
    found: list[object] = [*guard.differences(*whats)]
    for part in ("how", "who", "where", "when"):
        one, other = getattr(claim, part), getattr(known, part)
        if one and other:
            found += guard.differences(one, other)
    return found


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a judge said of a candidate by itself; with `holds` it is acted on."""

    name: str
    holds: bool
    reason: str
    shares: Mapping[str, float] = field(default_factory=dict)


def doubts(candidate: Candidate, answers: Mapping[str, Answer], constants: Judging) -> tuple[Doubt, ...]:
    """What stands against keeping a candidate, or the reason it gives; a state need not last."""
    found = []
    for name in (LASTS, USEFUL, GROUNDED):
        answer = answers.get(name)
        if answer is None or answer.refused:
            continue
        said, share = answer.best
        exempt = name == LASTS and candidate.claim.kind is Kind.STATE
        sure = share >= constants.act_from if answer.probabilities else constants.said_may_act
        holds = said == NO and sure and not exempt
        found.append(Doubt(name, holds, told(answer), answer.probabilities))
    return tuple(found)
