"""Search over episodes: by words and by meaning inside one scope, fused once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mnemo_mcp.ranks import fuse
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.tables import EPISODES, literal

VECTOR_WEIGHT = 0.33  # 0.25 to 0.4 did as well on LoCoMo with MiniLM; at 0.5 nDCG@10 fell by 0.03
_DEPTH = 50
_WORDS_MOST = 100  # 5,000 words take 0.4 s over 6,000 episodes, 100 take 0.02 s


@dataclass(frozen=True, slots=True)
class Hit:
    """One episode found: its fused score, its rank in each channel that found it, and its cosine if known."""

    id: str
    score: float
    words_rank: int | None
    meaning_rank: int | None
    cosine: float | None


def search_episodes(
    projection: Projection,
    words: Sequence[str],
    vector: tuple[str, npt.NDArray[np.float32]] | None,
    *,
    profile: str,
    projects: Sequence[str] | None,
    exclude_session: str | None,
    limit: int,
    vector_weight: float = VECTOR_WEIGHT,
) -> list[Hit]:
    """Episodes of a profile, best first, ties by id.

    `words` are taken as they are, in the form `mnemo_mcp.words` gives them; `vector` is that of the question
    with the id of its encoder. `projects` None is all of them; `exclude_session` leaves out what the one who
    asks has before their eyes. Scope holds inside each channel, before it is cut.
    """
    scope = _scope(profile, projects, exclude_session)
    wanted = list(dict.fromkeys(words))[:_WORDS_MOST]
    by_words = projection.by_words(EPISODES, wanted, scope, _DEPTH) if wanted else []
    by_meaning = projection.by_meaning(EPISODES, *vector, scope, _DEPTH) if vector is not None else []
    words_rank = _ranks(each for each, _ in by_words)
    meaning_rank = _ranks(each for each, _ in by_meaning)
    cosine = dict(by_meaning)
    fused = fuse([(1 - vector_weight, [*words_rank]), (vector_weight, [*meaning_rank])])
    return [
        Hit(each, score, words_rank.get(each), meaning_rank.get(each), cosine.get(each))
        for each, score in fused[:limit]
    ]


def _scope(profile: str, projects: Sequence[str] | None, exclude_session: str | None) -> str:
    conditions = [f"profile = {literal(profile)}"]
    if projects is not None:
        conditions.append(f"project IN ({', '.join(map(literal, projects))})" if projects else "false")
    if exclude_session is not None:
        conditions.append(f"(session = {literal(exclude_session)}) IS NOT TRUE")
    return " AND ".join(conditions)


def _ranks(ids: Iterable[str]) -> dict[str, int]:
    return {each: rank for rank, each in enumerate(ids, start=1)}
