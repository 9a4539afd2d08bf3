"""The channels: each ranks the rows it is allowed to see, and cuts its own list."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.arrays import Mask
from mnemo_mcp.recall.question import Question

Floats = npt.NDArray[np.float32]

INHERITED = 0.97  # of the replaced one's score, so that words of one's own still come first


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question's vector and the encoder it came from."""

    encoder: str
    vector: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """What each channel says of every row, before any scope."""

    bm25: Floats
    coverage: Floats
    cosine: Floats | None


def score(index: ProfileIndex, question: Question, meaning: Meaning | None) -> Scores:
    """Score all rows of an index once; ranking under different masks then costs next to nothing."""
    size = len(index)
    bm25, coverage = index.postings.scores(question.words, size)
    matrix = index.matrices.get(meaning.encoder) if meaning else None
    cosine = matrix.cosines(meaning.vector, size) if matrix and meaning else None
    # what replaced a memory is also found by what the replaced one is found by: they answer one question
    successions = index.successions()
    for values in (bm25, coverage, cosine):
        if values is not None:
            successions.pass_on(values, INHERITED)
    return Scores(bm25, coverage, cosine)


def by_words(index: ProfileIndex, scores: Scores, allowed: Mask, depth: int) -> list[int]:
    """The best rows by BM25 that hold any word of the question."""
    return _best(index, scores.bm25, allowed & (scores.bm25 > 0), depth)


def by_meaning(index: ProfileIndex, scores: Scores, allowed: Mask, depth: int) -> list[int]:
    """The nearest rows by the encoder's cosine."""
    if scores.cosine is None:
        return []
    return _best(index, scores.cosine, allowed & (scores.cosine > 0), depth)


def _best(index: ProfileIndex, values: Floats, allowed: Mask, depth: int) -> list[int]:
    """Ties by id, at the cut too: in which order memories came makes no difference."""
    rows = np.flatnonzero(allowed)
    least = np.partition(values[rows], -depth)[-depth] if len(rows) > depth else -np.inf
    above, level = rows[values[rows] > least].tolist(), rows[values[rows] == least].tolist()
    last = nsmallest(depth - len(above), level, key=lambda row: index.memories[row].id)
    return [*sorted(above, key=lambda row: (-values[row], index.memories[row].id)), *last]
