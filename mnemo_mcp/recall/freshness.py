"""Freshness: of two memories that seem to tell of the same thing, the newer one answers first.

Nobody said that one replaced the other, so neither is closed; the older one is told after the newer one, with
a word that it may be outdated.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemo_mcp.index.profile import ProfileIndex, indexed_words
from mnemo_mcp.recall.channels import Meaning, Scores
from mnemo_mcp.settings import Recall

_LOOKED_AT = 12  # places from the top; further down nobody reads


def fresher_first(
    index: ProfileIndex, scores: Scores, meaning: Meaning | None, rows: Sequence[int], constants: Recall
) -> tuple[list[int], dict[int, int]]:
    """`rows` with newer look-alikes moved up, and for each older one the row that may have outdated it."""
    top, rest = list(rows[:_LOOKED_AT]), list(rows[_LOOKED_AT:])
    outdated: dict[int, int] = {}
    for place in range(1, len(top)):
        newer = top[place]
        for before in range(place):
            older = top[before]
            if _newer(index, newer, older) and _tells_the_same(
                index, scores, meaning, newer, older, constants
            ):
                top[before], top[place] = newer, older
                break
    for place, newer in enumerate(top):
        for older in top[place + 1 :]:
            if (
                older not in outdated
                and _newer(index, newer, older)
                and _tells_the_same(index, scores, meaning, newer, older, constants)
            ):
                outdated[older] = newer
    return top + rest, outdated


def _newer(index: ProfileIndex, one: int, other: int) -> bool:
    first, second = (index.memories[row] for row in (one, other))
    return (first.valid_from, first.known_at) > (second.valid_from, second.known_at)


def _tells_the_same(
    index: ProfileIndex, scores: Scores, meaning: Meaning | None, newer: int, older: int, constants: Recall
) -> bool:
    """Alike in themselves, and the newer one speaks to the question no less than the older one."""
    if scores.coverage[newer] < scores.coverage[older]:
        return False
    matrix = index.matrices.get(meaning.encoder) if meaning else None
    if scores.cosine is None or matrix is None or not (matrix.has(newer) and matrix.has(older)):
        return _shared(index, newer, older) >= constants.alike_words
    if scores.cosine[older] - scores.cosine[newer] > constants.alike_behind:
        return False
    return matrix.cosine(newer, older) >= constants.alike_meaning


def _shared(index: ProfileIndex, one: int, other: int) -> float:
    """The share of their words that two memories have in common."""
    words, others = (set(indexed_words(index.memories[row])) for row in (one, other))
    return len(words & others) / (len(words | others) or 1)
