"""Freshness: of two memories that seem to tell of the same thing, the newer one answers first.

Nobody said that one replaced the other, so neither is closed; the older one is told after the newer one, with
a word that it may be outdated.
"""

from __future__ import annotations

from collections.abc import Mapping

from mnemo_mcp.index.states import States
from mnemo_mcp.memory import Kind
from mnemo_mcp.recall.candidates import Candidates
from mnemo_mcp.recall.likeness import Likeness
from mnemo_mcp.settings import Recall

_LOOKED_AT = 12  # places from the top; further down nobody reads


def fresher_first(
    candidates: Candidates,
    likeness: Likeness,
    scores: Mapping[int, float],
    now: int,
    constants: Recall,
) -> tuple[list[int], dict[int, int]]:
    """Rows with newer look-alikes moved up, and for each older one the row that may have outdated it.

    `scores` are the rows with their scores, best first; `now` is in milliseconds.
    """
    rows = list(scores)
    top, rest = rows[:_LOOKED_AT], rows[_LOOKED_AT:]
    states = candidates.index.states
    age = {row: (states.start(row), states.known(row)) for row in top}

    def outdates(newer: int, older: int) -> bool:
        return (
            age[newer] > age[older]
            and scores[newer] >= constants.alike_score * scores[older]
            and likeness.of_one_thing(newer, older)
            and _answers_as_well(candidates, likeness, newer, older, constants)
            and _may_change(states, newer, older, now)
        )

    for place in range(1, len(top)):
        for before in range(place):
            if outdates(top[place], top[before]):
                top[before], top[place] = top[place], top[before]
                break
    outdated: dict[int, int] = {}
    for place, newer in enumerate(top):
        for older in top[place + 1 :]:
            if older not in outdated and outdates(newer, older):
                outdated[older] = newer
    return top + rest, outdated


def _may_change(states: States, newer: int, older: int, now: int) -> bool:
    """An event changes nothing by itself, and what is known to have ended needs no guess at its end."""
    return not states.is_kind(newer, Kind.EVENT) and not states.ended(older, now)


def _answers_as_well(
    candidates: Candidates, likeness: Likeness, newer: int, older: int, constants: Recall
) -> bool:
    """The newer one speaks to the question no less than the older one."""
    if candidates.coverage(newer) < candidates.coverage(older):
        return False
    one, other = candidates.cosine(newer) or 0.0, candidates.cosine(older) or 0.0
    return not (likeness.by_meaning(newer, older) and other - one > constants.alike_behind)
