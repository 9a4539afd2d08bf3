"""Weighing: what a judge's answer amounts to, once the guard and the rules of kinds and people had their say.

In doubt both memories stay: whatever is not sure enough, refused or overruled is `different`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mnemo_mcp.guard import differences
from mnemo_mcp.judge.admission import covers
from mnemo_mcp.judge.asking import GROUNDED, LASTS, USEFUL, Relation
from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.memory import Claim, Kind, Memory, Period, Role
from mnemo_mcp.models.questions import NO, Answer
from mnemo_mcp.settings import Judging

_OF_PEOPLE = (Kind.DECISION, Kind.PREFERENCE)
_LOOSE = (Kind.FACT, Kind.STATE)
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


def weigh(
    candidate: Candidate, neighbour: Memory, answer: Answer | None, kept: bool, constants: Judging
) -> Judged:
    """What an answer amounts to. `kept` says that a person's word keeps one of the two."""
    seen = tuple(map(str, _differences(candidate.claim, neighbour.claim)))
    shares = answer.probabilities if answer else {}

    def judged(relation: Relation, reason: str) -> Judged:
        return Judged(neighbour, relation, reason, shares, seen)

    if answer is None or answer.refused:
        return judged(Relation.DIFFERENT, "the judge gave no answer")
    said, share = answer.best
    if not shares:
        if not constants.said_may_act or said not in set(Relation):
            return judged(Relation.DIFFERENT, f"the judge said {said} without a probability")
        relation, reason = Relation(said), f"the judge said {said}"
    else:
        reason = f"the judge said {said} at {share:.2f}"
        if share < constants.act_from:
            return judged(Relation.DIFFERENT, f"{reason}, below {constants.act_from:.2f}")
        relation = Relation(said)
    objection = _objection(candidate, neighbour, relation, bool(seen), kept)
    if objection:
        return judged(Relation.DIFFERENT, f"{reason}, but {objection}")
    if relation is Relation.CONTRADICTS and _tells_of_a_change(candidate, neighbour):
        return judged(Relation.UPDATES, f"{reason}, and the claim itself tells of a change")
    return judged(relation, reason)


def _objection(candidate: Candidate, neighbour: Memory, relation: Relation, apart: bool, kept: bool) -> str:
    """What stands against acting on a relation, or nothing."""
    claim, known = candidate.claim, neighbour.claim
    if relation is Relation.SAME:
        if apart:
            return "the guard sees a difference"
        if claim.kind is not known.kind and claim.kind not in _LOOSE:
            return f"a {claim.kind} is not merged into a {known.kind}"
        dated = candidate.valid_from is not None and not candidate.assumed
        if not covers(neighbour, Period(candidate.start, candidate.valid_to), dated=dated):
            return "it tells of another time"
        return "a person keeps it" if kept and candidate.memory else ""
    if relation is Relation.DIFFERENT:
        return ""
    if kept:
        return "a person keeps it"
    if known.kind in _OF_PEOPLE and neighbour.origin is Role.PERSON and candidate.origin is not Role.PERSON:
        return f"a person's {known.kind} gives way to a person's word alone"
    if relation is Relation.UPDATES and known.kind is Kind.EVENT:
        return "what happened stays true"
    if known.kind is Kind.PREFERENCE and claim.kind not in _OF_PEOPLE:
        return "a preference stands until it is changed"
    return ""


def _tells_of_a_change(candidate: Candidate, neighbour: Memory) -> bool:
    """Whether a claim that is said to correct another tells by its own words that the world changed."""
    return candidate.start > neighbour.valid_from and bool(_CHANGED.search(candidate.claim.what))


def _differences(claim: Claim, known: Claim) -> list[object]:
    """What the guard sees between two claims, part by part; a place that one alone names goes with `what`."""
    whats = [claim.what, known.what]
    if bool(claim.where) != bool(known.where):
        whats = [f"{each.what} {each.where}".strip() for each in (claim, known)]
    found: list[object] = [*differences(*whats)]
    for part in ("how", "who", "where", "when"):
        one, other = getattr(claim, part), getattr(known, part)
        if one and other:
            found += differences(one, other)
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
        reason = f"the judge said {said} at {share:.2f}" if answer.probabilities else f"the judge said {said}"
        found.append(Doubt(name, said == NO and sure and not exempt, reason, answer.probabilities))
    return tuple(found)
