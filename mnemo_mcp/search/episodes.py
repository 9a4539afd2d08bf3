"""Search over episodes: one question, one scope, one field of what is recent and what is older."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mnemo_mcp.memory import Period
from mnemo_mcp.search.field import VECTOR_WEIGHT, Field, Floats, Sought, Vector, Weighed, weigh
from mnemo_mcp.search.older import older
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.scope import Scope
from mnemo_mcp.search.stems import stem
from mnemo_mcp.search.tables import EPISODES

_WORDS_MOST = 100


@dataclass(frozen=True, slots=True)
class Hit:
    """One episode found: its score, its rank by words and by meaning if these found it, its cosine if known.

    `held` is the share of the question's words that it holds itself.
    """

    id: str
    score: float
    words_rank: int | None
    meaning_rank: int | None
    cosine: float | None
    held: float


def search_episodes(
    projection: Projection,
    words: Sequence[str],
    vector: Vector | None,
    *,
    profile: str,
    projects: Sequence[str] | None,
    exclude_session: str | None,
    limit: int,
    period: Period | None = None,
    vector_weight: float = VECTOR_WEIGHT,
) -> list[Hit]:
    """Episodes of a profile, best first, ties by id.

    `words` are taken in the form `mnemo_mcp.words` gives them; `vector` is that of the question with the id
    of its encoder; what is from the `period` it names comes sooner. `projects` None is all of them;
    `exclude_session` leaves out what the one who asks has before their eyes. Nothing outside the scope
    takes part, not even in how much a word tells.
    """
    scope = Scope(profile, projects, exclude_session)
    wanted = list(dict.fromkeys(map(stem, words)))[:_WORDS_MOST]
    recent = projection.recent()
    if recent is None:
        return []
    sought = Sought(wanted, vector, period)
    field, first = recent.field(sought, scope)
    if first:
        condition = f"number < {first} AND {scope.sql()}"
        found = projection.read(EPISODES, lambda table: older(table, sought, condition), None)
        field = field.joined(found) if found else field
    return _best(field, weigh(field, vector_weight), limit) if len(field) else []


def _best(field: Field, weighed: Weighed, limit: int) -> list[Hit]:
    places = np.flatnonzero(weighed.found)
    if len(places) > limit:
        least = np.partition(weighed.score[places], -limit)[-limit]
        places = places[weighed.score[places] >= least]
    ordered = sorted(places.tolist(), key=lambda place: (-weighed.score[place], field.ids[place]))
    return [_hit(field, weighed, place) for place in ordered[:limit]]


def _hit(field: Field, weighed: Weighed, place: int) -> Hit:
    cosine = float(field.cosines[place])
    return Hit(
        id=str(field.ids[place]),
        score=float(weighed.score[place]),
        words_rank=_rank(weighed.words, place),
        meaning_rank=_rank(weighed.cosines, place),
        cosine=None if np.isnan(cosine) else cosine,
        held=float(np.count_nonzero(field.counts[:, place])) / (len(field.counts) or 1),
    )


def _rank(values: Floats, place: int) -> int | None:
    """The rank of one value among all, None where it is not above 0."""
    return 1 + int(np.count_nonzero(values > values[place])) if values[place] > 0 else None
