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


def older(handle: Any, sought: Sought, scope: str) -> Field:
    """The field of candidates inside `scope` (SQL) and their neighbours."""
    wanted, vector = sought.words, sought.vector
    if vector is not None and dimensions(handle, vector[0]) != len(vector[1]):
        vector = None
    columns = [*_COLUMNS, *([vector_column(vector[0])] if vector else [])]
    found: dict[str, dict[str, Any]] = {}
    if wanted:
        _gather(found, _by_words(handle, wanted, scope, columns), vector)
    if vector is not None:
        _gather(found, _by_meaning(handle, vector, scope, columns), vector, _MEANING_DEPTH)
    if found:
        _gather(found, _beside(handle, found, scope, columns), vector)
    return _field([found[name] for name in sorted(found)], sought)


def _by_words(handle: Any, wanted: Sequence[str], scope: str, columns: Sequence[str]) -> Any:
    query = handle.search(any_of(wanted), query_type="fts").where(scope)
    return query.select([*columns, "_score"]).limit(_WORDS_DEPTH).to_arrow()


def _by_meaning(handle: Any, vector: Vector, scope: str, columns: Sequence[str]) -> Any:
    query = handle.search(signs(vector[1][None])[0], vector_column_name=signs_column(vector[0]))
    found = query.distance_type("hamming").where(scope).select([*columns, "_distance"])
    return found.limit(_SIGNS_DEPTH).to_arrow()


def _beside(handle: Any, found: Mapping[str, Mapping[str, Any]], scope: str, columns: Sequence[str]) -> Any:
    """The episodes before and after those found."""
    listed = ", ".join(map(literal, found))
    before = ", ".join({literal(each["before"]) for each in found.values() if each["before"]}) or "NULL"
    near = f"(id IN ({before}) OR before IN ({listed}))"
    return handle.search().where(f"{scope} AND {near}").select(list(columns)).to_arrow()


def _gather(found: dict[str, dict[str, Any]], batch: Any, vector: Vector | None, most: int = 0) -> None:
    """Add the rows of a batch to those `found`, with their cosines; only the `most` nearest if given."""
    near = _cosines(batch, vector)
    rows = batch.select(list(_COLUMNS)).to_pylist()
    order = np.argsort(-near, kind="stable")[:most] if most else range(len(rows))
    for index in order:
        found.setdefault(rows[index]["id"], {**rows[index], "cosine": float(near[index])})


def _cosines(batch: Any, vector: Vector | None) -> Floats:
    if vector is None:
        return np.full(batch.num_rows, np.nan, np.float32)
    vectors = byte_vectors(batch, vector_column(vector[0]))
    return cosines(vectors, lengths(vectors), vector[1])


def _field(rows: Sequence[dict[str, Any]], sought: Sought) -> Field:
    wanted, (start, end) = sought.words, sought.told_in()
    places = {row["id"]: place for place, row in enumerate(rows)}
    before = np.array([places.get(row["before"], -1) for row in rows], np.int64)
    after = np.full(len(rows), -1)
    after[before[before >= 0]] = np.flatnonzero(before >= 0)
    held = [row["words"].split(" ") for row in rows]
    counts = [[words.count(word) for words in held] for word in wanted]
    asked = set(wanted)
    return Field(
        np.array([row["id"] for row in rows], np.object_),
        before,
        after,
        np.array(counts, np.float32).reshape(len(wanted), len(rows)),
        np.array([len(words) for words in held], np.float32),
        np.array([row["cosine"] for row in rows], np.float32),
        np.array([row["asks"] for row in rows], np.bool_),
        np.array([bool(asked & set(row["speaker"].split())) for row in rows], np.bool_),
        np.array([start <= row["occurred_at"] < end for row in rows], np.bool_),
    )
