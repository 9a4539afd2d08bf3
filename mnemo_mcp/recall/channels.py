"""Six channels: each ranks the rows it may see by one sort of evidence, and cuts its own list.

Scope and currency hold inside each, before its cut. A channel that has nothing to say is empty: no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import log2

import numpy as np

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Mask, Rows, best
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.recall.asking import W
from mnemo_mcp.recall.question import Question
from mnemo_mcp.settings import Recall

INHERITED = 0.97  # of the replaced one's score, so that words of one's own still come first
_DAY = 86_400_000  # milliseconds
_NEAR_DAYS = 30.0  # the time channel's bell: exp(-days^2 / (2 * 30^2))
_FAR_DAYS = 365
_ROLES: Mapping[str, float] = {"about": 1.0, "tool": 0.9, "who": 0.9, "where": 0.7}
_BOOSTS: Mapping[W, tuple[float, float, float, float]] = {  # of what, why, how, and the rest
    W.WHY: (1.0, 1.3, 1.0, 1.0),
    W.HOW: (1.0, 1.0, 1.3, 1.0),
    W.WHO: (1.0, 1.0, 1.0, 1.3),
    W.WHERE: (1.0, 1.0, 1.0, 1.3),
}
_PLAIN = (1.0, 1.0, 1.0, 1.0)

# Spreading activation, after the text it is taken from: what a node keeps of its own, what it passes on,
# how many nodes a round go on, and below which value nothing is passed.
_KEPT, _PASSED, _WIDEST, _FAINT, _ROUNDS = 0.5, 0.8, 10, 0.02, 2
_SEEDS = 5
_TELLING_ENTITY = 24  # rows; what more of them name ties nothing together


class Channel(StrEnum):
    """One sort of evidence."""

    MEANING = "meaning"
    WORDS = "words"
    ENTITIES = "entities"
    TIME = "time"
    CONNECTIONS = "connections"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question's vector and the encoder it came from; how near the nearest everyday request lies to it."""

    encoder: str
    vector: Floats
    everyday: float = -1.0


@dataclass(frozen=True, slots=True)
class Listed:
    """A channel's list: rows, best first, each with its score there."""

    rows: Rows
    scores: Floats

    def __len__(self) -> int:
        return len(self.rows)


NONE = Listed(NO_ROWS, np.zeros(0, np.float32))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a channel may look at: the rows that may answer, in the index of one profile."""

    index: ProfileIndex
    allowed: Mask
    constants: Recall
    now: int  # milliseconds


def by_meaning(seen: Seen, meaning: Meaning | None) -> Listed:
    """The nearest rows by the encoder's cosine."""
    matrix = seen.index.matrices.get(meaning.encoder) if meaning else None
    if matrix is None or meaning is None:
        return NONE
    return _inherited(seen, lambda mask: matrix.nearest(meaning.vector, mask, seen.constants.channel_depth))


def by_words(seen: Seen, question: Question) -> Listed:
    """The best rows by BM25; the field that answers the W asked counts for more."""
    boosts = _BOOSTS.get(question.asks, _PLAIN) if question.asks else _PLAIN
    postings, depth = seen.index.postings, seen.constants.channel_depth
    return _inherited(seen, lambda mask: postings.search(question.words, boosts, mask, depth))


def by_entities(seen: Seen, question: Question) -> Listed:
    """The rows that speak of the entities the question names, the rarer entity and the nearer role first."""
    keys = dict.fromkeys(each.key for each in question.entities)
    parts = [part for key in keys if len((part := _speaking_of(seen, key))[0])]
    if not parts:
        return NONE
    rows, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    sums = np.bincount(places, np.concatenate([part[1] for part in parts]))
    return _best(seen, rows, sums.astype(np.float32))


def _speaking_of(seen: Seen, key: str) -> tuple[Rows, Floats]:
    """The allowed rows of one entity, each with the weight of its nearest role there."""
    rows, shares = seen.index.entities.weighted(key, _ROLES)
    inside = seen.allowed[rows]
    return rows[inside], shares[inside] * np.float32(np.log1p(len(seen.index) / (len(rows) or 1)))


def by_time(seen: Seen, question: Question) -> Listed:
    """The rows that began to hold near the time asked about; empty when the question names none."""
    if question.time is None or question.time.anything:
        return NONE
    period = question.time.period
    start = milliseconds(period.start)
    end = milliseconds(period.end) if period.end else seen.now
    rows, began = seen.index.states.beginning_near(start, end, _FAR_DAYS * _DAY, seen.allowed)
    away = np.maximum(np.maximum(start - began, began - end), 0) / _DAY
    return _best(seen, rows, np.exp(-(away**2) / (2 * _NEAR_DAYS**2)).astype(np.float32))


def by_connections(seen: Seen, lists: Iterable[Listed]) -> Listed:
    """What hangs together with the rows other channels put first: spreading activation over stored links.

    A row keeps half of what it had, passes on four fifths divided among its neighbours, and the ten
    strongest rows of a round go on.
    """
    front: dict[int, float] = {}
    for each in lists:
        for place, row in enumerate(each.rows[:_SEEDS].tolist()):
            front[row] = max(front.get(row, 0.0), 1.0 / (1 + place))
    seeds = frozenset(front)
    reached: dict[int, float] = {}
    for _ in range(_ROUNDS):
        front = _spread(seen.index, front, seeds)
        if not front:
            break
        for row, value in front.items():
            reached[row] = _KEPT * reached.get(row, 0.0) + value
    return _cut(seen, {row: value for row, value in reached.items() if seen.allowed[row]})


def _spread(index: ProfileIndex, front: Mapping[int, float], seeds: frozenset[int]) -> dict[int, float]:
    """What the strongest rows of `front` give their neighbours; those that began keep what they have."""
    onward: dict[int, float] = {}
    rows = np.fromiter(front, np.int64, len(front))
    ties = dict(zip(front, index.ids.of(rows).tolist(), strict=True))
    strongest = sorted(front.items(), key=lambda item: (-item[1], ties[item[0]]))[:_WIDEST]
    for row, value in strongest:
        neighbours = _neighbours(index, row)
        share = _PASSED * value / (len(neighbours) or 1)
        for other, weight in neighbours.items():
            if other not in seeds and (passed := share * weight) >= _FAINT:
                onward[other] = onward.get(other, 0.0) + passed
    return onward


def _neighbours(index: ProfileIndex, row: int) -> dict[int, float]:
    """The rows linked to a row, and those that name an entity it names, where few enough do."""
    found = index.links.neighbours(row)
    for key in index.entities.of(row):
        if len(named := index.entities.few(key, _TELLING_ENTITY)) > 1:
            weight = 1.0 / log2(1 + len(named))
            for other in named:
                if other != row:
                    found[other] = max(found.get(other, 0.0), weight)
    return found


def by_scope(seen: Seen, project: str, lists: Iterable[Listed]) -> Listed:
    """Those that other channels found and that belong to the very project asked in, not to all of them."""
    if not project:
        return NONE
    found = np.unique(np.concatenate([NO_ROWS, *(each.rows for each in lists)]))
    own = found[seen.index.states.in_project(project)[found]]
    return _best(seen, own, np.ones(len(own), np.float32))


def _inherited(seen: Seen, search: Callable[[Mask], tuple[Rows, Floats]]) -> Listed:
    """A search whose finds include what replaced a found row: both answer one question."""
    successions = seen.index.successions()
    rows, scores = search(successions.leading_to(seen.allowed))
    rows, scores = rows[scores > 0], scores[scores > 0]
    if not any(map(successions.was_replaced, rows.tolist())):
        return Listed(rows, scores)
    best: dict[int, float] = {}
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        if seen.allowed[row]:
            best[row] = max(best.get(row, 0.0), score)
        for heir, steps in successions.heirs(row):
            if seen.allowed[heir]:
                best[heir] = max(best.get(heir, 0.0), score * INHERITED**steps)
    return _cut(seen, best)


def _cut(seen: Seen, scores: Mapping[int, float]) -> Listed:
    rows = np.fromiter(scores.keys(), np.int64, len(scores))
    return _best(seen, rows, np.fromiter(scores.values(), np.float32, len(scores)))


def _best(seen: Seen, rows: Rows, scores: Floats) -> Listed:
    """The best of a channel; ties by id, at the cut too: in which order memories came makes no difference."""
    places = best(scores, seen.index.ids.of(rows), seen.constants.channel_depth)
    return Listed(rows[places], scores[places])
