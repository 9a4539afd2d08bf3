"""Order: the fused list becomes an answer's list. Each rule that moves a memory says so.

What is too weak to answer goes; what was kept or confirmed gains, what faded falls behind; what does not say
what is asked (why, who ...) gives way; newer look-alikes come first; repeats are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.memory import Instant, Kind, Memory, Standing, Status
from mnemo_mcp.recall.asking import W
from mnemo_mcp.recall.candidates import Candidates
from mnemo_mcp.recall.channels import Channel, Listed
from mnemo_mcp.recall.freshness import fresher_first
from mnemo_mcp.recall.likeness import Likeness
from mnemo_mcp.recall.relevance import survey, weigh
from mnemo_mcp.recall.retention import retained
from mnemo_mcp.settings import Floor, Recall

Standings = Callable[[Sequence[str]], Mapping[str, Standing]]
"""The standing of memories, by id; those that have none are left out."""

_DAY = 86_400_000  # milliseconds
_NEUTRAL = Standing()
_OFTEN_IN_WHAT: Mapping[W, float] = {W.HOW: 0.3, W.WHERE: 0.3}  # what a memory says often tells these itself


@dataclass(frozen=True, slots=True)
class Placed:
    """A row in its place: score, whether its relevance is sure, rank in each channel, and what moved it."""

    row: int
    score: float
    sure: bool
    ranks: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    outdated_by: int | None = None
    repeats: tuple[int, ...] = ()


def worthy(
    candidates: Candidates,
    fused: Sequence[tuple[int, float]],
    lists: Mapping[Channel, Listed],
    floor: Floor,
    constants: Recall,
    most: int,
) -> list[Placed]:
    """At most `most` of the fused rows that are relevant enough to answer, in their order."""
    field = survey(candidates, floor, constants)
    listed = lists[Channel.TIME]
    then = {row for row, score in zip(listed.rows, listed.scores, strict=True) if score == 1.0}
    found: list[Placed] = []
    for row, score in fused:
        if len(found) == most:
            break
        weighed = weigh(candidates, row, field)
        sure = any(evidence.sure(floor) for evidence in weighed)
        worth = sure or row in then or any(evidence.worth_an_answer(floor) for evidence in weighed)
        if worth:
            ranks = {str(name): each.rows.index(row) + 1 for name, each in lists.items() if row in each.rows}
            found.append(Placed(row, score, sure, ranks))
    return found


def ordered(
    placed: Sequence[Placed],
    candidates: Candidates,
    likeness: Likeness,
    standings: Standings,
    now: Instant,
    constants: Recall,
) -> list[Placed]:
    """The rows in their final order."""
    index = candidates.index
    ids = [index.id(each.row) for each in placed]
    standing = standings(ids)
    moved = [
        _moved(each, index.memory(each.row), standing.get(name, _NEUTRAL), candidates, now, constants)
        for each, name in zip(placed, ids, strict=True)
    ]
    moved.sort(key=lambda each: (-each.score, index.id(each.row)))
    scores = {each.row: each.score for each in moved}
    order, outdated = fresher_first(candidates, likeness, scores, now, constants)
    by_row = {each.row: each for each in moved}
    fresh = [replace(by_row[row], outdated_by=outdated.get(row)) for row in order]
    return _folded(fresh, likeness)


def _moved(
    placed: Placed,
    memory: Memory,
    standing: Standing,
    candidates: Candidates,
    now: Instant,
    constants: Recall,
) -> Placed:
    """A row with its gains and losses."""
    factor, reasons = 1.0, list[str]()
    if standing.keep:
        factor *= 1 + constants.kept_gain
        reasons.append("kept by a person")
    if (further := len(memory.episodes) - 1) > 0:
        factor *= 1 + constants.confirmed_gain * min(further, 3)
        reasons.append(f"confirmed {further} times")
    if not standing.keep:
        last = max(candidates.index.states.changed(placed.row), _used(standing))
        days = (milliseconds(now) - last) / _DAY
        left = retained(days, len(memory.episodes), standing.uses)
        factor *= 1 - constants.faded_loss * (1 - left)
        if left < 0.2:
            reasons.append(f"not heard of for {round(days)} days")
    if candidates.question.past and memory.status(now) is Status.CLOSED:
        factor *= 1 + constants.past_gain
        reasons.append("the past is asked about")
    asked = candidates.question.asks
    if asked is not None and not _says(memory, asked):
        factor *= 1 - constants.unsaid_loss * _OFTEN_IN_WHAT.get(asked, 1.0)
        reasons.append(f"does not say {asked}")
    return replace(placed, score=placed.score * factor, reasons=tuple(reasons))


def _used(standing: Standing) -> int:
    return milliseconds(standing.last_used) if standing.last_used else 0


def _says(memory: Memory, asked: W) -> bool:
    """Whether the W that is asked is filled."""
    claim = memory.claim
    roles = {each.role for each in claim.entities}
    match asked:
        case W.WHY:
            return bool(claim.why)
        case W.HOW:
            return bool(claim.how) or claim.kind is Kind.PROCEDURE
        case W.WHO:
            return bool(claim.who) or "who" in roles
        case W.WHERE:
            return bool(claim.where) or "where" in roles
        case W.WHEN:
            return bool(claim.when) or not memory.assumed
        case _:
            return True


def _folded(placed: Sequence[Placed], likeness: Likeness) -> list[Placed]:
    """Each near-repeat taken into the one that stands before it."""
    kept: list[Placed] = []
    for each in placed:
        for place, before in enumerate(kept):
            if likeness.repeats(before.row, each.row):
                kept[place] = replace(before, repeats=(*before.repeats, each.row))
                break
        else:
            kept.append(each)
    return kept
