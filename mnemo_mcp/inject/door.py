"""The door: what a colleague would say when a session opens, the most useful first.

What stands for the project, that is preferences, decisions and states that are still true. What merely came
up here but is about another code base is not said; nor are events, which tell what others had yet to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log1p

import numpy as np

from mnemo_mcp.index.arrays import Rows
from mnemo_mcp.index.states import States, milliseconds
from mnemo_mcp.memory import Instant, Kind, Memory, Role, Standing, moment
from mnemo_mcp.recall.retention import BASE_DAYS, retained

STANDING: Mapping[Kind, float] = {Kind.STATE: 1.1, Kind.PREFERENCE: 1.0, Kind.DECISION: 0.9}
"""The kinds that are told at the door, each with its weight: a state is young or it is not told at all."""

_CODE_BASES = ("repository", "project")
_NEUTRAL = Standing()
_CONFIRMED = 0.15  # for each further source, up to three
_USED = 0.3  # times the logarithm of uses
_MISSED = 0.3  # for each time a session was opened with it in vain
_DAY = 86_400
_LOOKED_AT = 512  # of those that merely stand; reading one takes as long as ranking a thousand


def likeliest(states: States, rows: Rows, now: Instant, oldest_state: Instant) -> Rows:
    """Those of many rows that may be worth telling, as far as kind, age and sources show it.

    States that began before `oldest_state` are told only when somebody asks.
    """
    kinds = {kind: states.of_kinds(frozenset({kind}))[rows] for kind in STANDING}
    start, changed, sources = states.histories(rows)
    weights = np.sum([weight * kinds[kind] for kind, weight in STANDING.items()], axis=0)
    days = np.maximum(milliseconds(now) - changed, 0) / (1000 * _DAY)
    fresh = (1 + np.exp(-days / (BASE_DAYS * np.maximum(sources, 1)))) / 2
    worth = weights * fresh + _CONFIRMED * np.clip(sources.astype(np.int64) - 1, 0, 3)
    worth[kinds[Kind.STATE] & (start < milliseconds(oldest_state))] = 0
    order = np.lexsort((rows, -worth))[:_LOOKED_AT]
    return np.asarray(rows[order[worth[order] > 0]], np.int64)


def worth_telling(
    memories: Iterable[Memory], standing: Mapping[str, Standing], project: str, now: Instant
) -> list[Memory]:
    """Those about the project, kept ones first; what was told in vain before falls behind."""
    told = [each for each in memories if each.origin is not Role.TOOL and _about(each, project)]
    stands = {each.id: standing.get(each.id, _NEUTRAL) for each in told}
    worth = {each.id: _worth(each, stands[each.id], now) for each in told}
    return sorted(told, key=lambda each: (not stands[each.id].keep, -worth[each.id], each.id))


def _worth(memory: Memory, standing: Standing, now: Instant) -> float:
    told = max(memory.changed_at, standing.last_used or "")
    days = (moment(now) - moment(told)).total_seconds() / _DAY
    sources = len(memory.episodes)
    fresh = (1 + retained(days, sources, standing.uses)) / 2
    return (
        STANDING[memory.claim.kind] * fresh
        + _CONFIRMED * min(max(0, sources - 1), 3)
        + _USED * log1p(standing.uses)
        - _MISSED * standing.door_misses
    )


def _about(memory: Memory, project: str) -> bool:
    """Whether it is about this code base, as far as it names any."""
    named = {
        each.name.casefold()
        for each in memory.claim.entities
        if each.kind in _CODE_BASES and each.role != "tool"
    }
    return not named or project.rsplit("/", 1)[-1].casefold() in {name.rsplit("/", 1)[-1] for name in named}
