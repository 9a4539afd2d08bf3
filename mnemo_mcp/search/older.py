"""Older: candidates among episodes no longer held in RAM, found in the table by words and by meaning.

Each brings the ones beside it in its thread, so that it can be weighed like the recent ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnemo_mcp.search.field import Field, Floats, Sought, Vector
from mnemo_mcp.search.recent import cosines, lengths
from mnemo_mcp.search.tables import (
    any_of,
    byte_vectors,
    dimensions,
    literal,
    signs,
    signs_column,
    vector_column,
)

_WORDS_DEPTH = 200
_SIGNS_DEPTH = 1_000  # of 100,000 episodes the nearest 20 are among them
_MEANING_DEPTH = 100
_COLUMNS = ("id", "before", "words", "speaker", "asks", "occurred_at")
_THREAD = ("id", "before")  # whole rows are costly to read, so they are read once for all candidates


def older(handle: Any, sought: Sought, scope: str) -> Field:
    """The field of candidates inside `scope` (SQL) and their neighbours."""
    wanted, vector = sought.words, sought.vector
    if vector is not None and dimensions(handle, vector[0]) != len(vector[1]):
        vector = None
    found: dict[str, str] = {}
    if wanted:
        found |= _by_words(handle, wanted, scope)
    if vector is not None:
        found |= _by_meaning(handle, vector, scope)
    if not found:
        return _field([], np.zeros(0, np.float32), sought)
    batch = _with_neighbours(handle, found, scope, vector).sort_by("id")
    return _field(batch.select(list(_COLUMNS)).to_pylist(), _cosines(batch, vector), sought)


def _by_words(handle: Any, wanted: Sequence[str], scope: str) -> dict[str, str]:
    """Episodes that hold most of the wanted words, each with the one before it."""
    query = handle.search(any_of(wanted), query_type="fts").where(scope)
    found = query.select([*_THREAD, "_score"]).limit(_WORDS_DEPTH).to_arrow()
    return _threaded(found)


def _by_meaning(handle: Any, vector: Vector, scope: str) -> dict[str, str]:
    """The nearest episodes among those nearest by signs, each with the one before it."""
    query = handle.search(signs(vector[1][None])[0], vector_column_name=signs_column(vector[0]))
    near = query.distance_type("hamming").where(scope)
    found = near.select([*_THREAD, vector_column(vector[0]), "_distance"]).limit(_SIGNS_DEPTH).to_arrow()
    order = np.argsort(-_cosines(found, vector), kind="stable")
    return _threaded(found.take(order[:_MEANING_DEPTH]))


def _threaded(batch: Any) -> dict[str, str]:
    return dict(zip(*(batch[name].to_pylist() for name in _THREAD), strict=True))


def _with_neighbours(handle: Any, found: Mapping[str, str], scope: str, vector: Vector | None) -> Any:
    """The rows of the episodes found, of those before them and of those after them."""
    listed = ", ".join(map(literal, found))
    before = ", ".join(map(literal, {*found, *found.values()} - {""}))
    columns = [*_COLUMNS, *([vector_column(vector[0])] if vector else [])]
    near = f"(id IN ({before}) OR before IN ({listed}))"
    return handle.search().where(f"{scope} AND {near}").select(columns).to_arrow()


def _cosines(batch: Any, vector: Vector | None) -> Floats:
    if vector is None:
        return np.full(batch.num_rows, np.nan, np.float32)
    vectors = byte_vectors(batch, vector_column(vector[0]))
    return cosines(vectors, lengths(vectors), vector[1])


def _field(rows: Sequence[Mapping[str, Any]], near: Floats, sought: Sought) -> Field:
    wanted, (start, end) = sought.words, sought.told_in()
    places = {row["id"]: place for place, row in enumerate(rows)}
    before = np.array([places.get(row["before"], -1) for row in rows], np.int64)
    after = np.full(len(rows), -1)
    after[before[before >= 0]] = np.flatnonzero(before >= 0)
    held = [row["words"].split(" ") for row in rows]
    counts = [[words.count(word) for words in held] for word in wanted]
    asked = set(wanted)
    often = np.array(counts, np.float32).reshape(len(wanted), len(rows))
    return Field(
        np.array([row["id"] for row in rows], np.object_),
        before,
        after,
        often,
        np.array([len(words) for words in held], np.float32),
        near,
        np.array([row["asks"] for row in rows], np.bool_),
        np.array([bool(asked & set(row["speaker"].split())) for row in rows], np.bool_),
        np.array([start <= row["occurred_at"] < end for row in rows], np.bool_),
        np.zeros(len(rows), np.bool_),
        np.count_nonzero(often, axis=1).astype(np.float32),
        len(rows),
    )
