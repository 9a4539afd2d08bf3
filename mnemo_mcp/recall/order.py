"""Order: the fused list becomes an answer's list. Each rule that moves a memory says so.

What is too weak to answer goes; what was kept or confirmed gains, what faded falls behind; what does not say
what is asked (why, who ...) gives way; newer look-alikes come first; repeats are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mnemo_mcp.index import states
from mnemo_mcp.index.arrays import Floats, Rows
from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.memory import Instant, Standing
from mnemo_mcp.recall.asking import W
from mnemo_mcp.recall.candidates import Candidates
from mnemo_mcp.recall.channels import Channel, Listed
from mnemo_mcp.recall.freshness import fresher_first
from mnemo_mcp.recall.likeness import Likeness
from mnemo_mcp.recall.relevance import sure, survey
from mnemo_mcp.recall.retention import retained
from mnemo_mcp.settings import Floor, Recall

Standings = Callable[[Sequence[str]], Mapping[str, Standing]]
"""The standing of memories, by id; those that have none are left out."""

_DAY = 86_400_000  # milliseconds
_FAINT = 0.2  # of its weight is left: worth a word
_FOLDED_AMONG = 12  # places from the top; further down nobody reads
_COMPARED = 6  # pairs that the guard looks at, a third of a millisecond each
_NEUTRAL = Standing()
_PARTS: Mapping[W, int] = {W.WHY: states.WHY, W.WHO: states.WHO, W.WHEN: states.WHEN}
"""The parts that `what` itself seldom tells."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A row in its place: score, whether its relevance is sure, what moved it, what speaks for it."""

    row: int
    score: float
    sure: bool
    reasons: tuple[str, ...] = ()
    outdated_by: int | None = None
    repeats: tuple[int, ...] = ()
    speaks: float = 0.0


def worthy(
    candidates: Candidates,
    fused: tuple[Rows, Floats],
    lists: Mapping[Channel, Listed],
    floor: Floor,
    constants: Recall,
    most: int,
) -> list[Placed]:
    """At most `most` of the fused rows that are relevant enough to answer, in their order."""
    rows, scores = fused
    worth = candidates.worth_an_answer(rows, floor.meaning_asked, floor.words_asked)
    worth |= np.isin(rows, _within(lists[Channel.TIME], 1.0))
    named = lists[Channel.ENTITIES]
    worth |= np.isin(rows, _within(named, max(named.scores.tolist(), default=0.0)))
    kept = np.flatnonzero(worth)[:most]
    field = survey(candidates, floor, constants)
    return [
        Placed(row, score, sure(candidates, row, field, floor), speaks=candidates.speaks_for(row))
        for row, score in zip(rows[kept].tolist(), scores[kept].tolist(), strict=True)
    ]


def _within(listed: Listed, score: float) -> Rows:
    """The rows of a list that have the very score: began in the time asked about, name all that is named."""
    return np.compress(listed.scores >= score, listed.rows)


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
        _moved(each, standing.get(name, _NEUTRAL), candidates, milliseconds(now), constants)
        for each, name in zip(placed, ids, strict=True)
    ]
    named = dict(zip((each.row for each in placed), ids, strict=True))
    moved.sort(key=lambda each: (-each.score, named[each.row]))
    moved = _saying_first(moved, candidates, constants)
    scores = {each.row: each.score for each in moved}
    order, outdated = fresher_first(candidates, likeness, scores, milliseconds(now), constants)
    by_row = {each.row: each for each in moved}
    fresh = [
        replace(by_row[row], outdated_by=outdated[row]) if row in outdated else by_row[row] for row in order
    ]
    return _folded(fresh, likeness)


def _moved(placed: Placed, standing: Standing, candidates: Candidates, now: int, constants: Recall) -> Placed:
    """A row with its gains and losses."""
    known, row = candidates.index.states, placed.row
    factor, reasons = 1.0, list[str]()
    if standing.keep:
        factor *= 1 + constants.kept_gain
        reasons.append("kept by a person")
    if (further := known.cited(row) - 1) > 0:
        factor *= 1 + constants.confirmed_gain * min(further, 3)
        reasons.append(f"confirmed {further} times")
    if not standing.keep:
        days = (now - max(known.changed(row), _used(standing))) / _DAY
        left = retained(days, known.cited(row), standing.uses)
        factor *= 1 - constants.faded_loss * (1 - left)
        if left < _FAINT:
            reasons.append(f"not heard of for {round(days)} days")
    if candidates.question.past and known.ended(row, now):
        factor *= 1 + constants.past_gain
        reasons.append("the past is asked about")
    return Placed(placed.row, placed.score * factor, placed.sure, tuple(reasons), speaks=placed.speaks)


def _saying_first(placed: Sequence[Placed], candidates: Candidates, constants: Recall) -> list[Placed]:
    """What stands first says the W that is asked, if anything surely relevant and nearly as good does."""
    asked = candidates.question.asks
    if not placed or asked is None or asked not in _PARTS:
        return list(placed)
    known, part = candidates.index.states, _PARTS[asked]
    least = constants.saying_score * placed[0].score
    for place, each in enumerate(placed):
        if each.score < least:
            break
        if known.says(each.row, part) and (each.sure or not place):
            first = replace(each, reasons=(*each.reasons, f"says {asked}")) if place else each
            return [first, *placed[:place], *placed[place + 1 :]]
    return list(placed)


def _used(standing: Standing) -> int:
    return milliseconds(standing.last_used) if standing.last_used else 0


def _folded(placed: Sequence[Placed], likeness: Likeness) -> list[Placed]:
    """Each near-repeat taken into the one that stands before it."""
    top = [each.row for each in placed[:_FOLDED_AMONG]]
    into: dict[int, int] = {}
    for one, other in likeness.pairs(top)[:_COMPARED]:
        if one not in into and other not in into and likeness.say_the_same(one, other):
            into[other] = one
    repeats: dict[int, tuple[int, ...]] = {}
    for row, kept in into.items():
        repeats[kept] = (*repeats.get(kept, ()), row)
    return [
        replace(each, repeats=repeats[each.row]) if each.row in repeats else each
        for each in placed
        if each.row not in into
    ]
