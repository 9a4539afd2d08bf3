"""What LanceDB has to be told: columns, the index of words, when a table is worn, and how to quote."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mnemo_mcp.errors import StoreDamaged
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.search.rows import Row

Table = Literal["memories", "episodes"]
MEMORIES: Table = "memories"
EPISODES: Table = "episodes"

PLACE = ""
"""The id of a row that only tells how far its table reflects the store."""

_STATE = {
    MEMORIES: {
        "text": "string",
        "kind": "string",
        "valid_from": "string",
        "valid_to": "string",
        "retracted": "bool",
    },
    EPISODES: {
        "role": "string",
        "session": "string",
        "occurred_at": "string",
        "number": "int64",
        "before": "string",
        "speaker": "string",
        "asks": "bool",
    },
}
_TEXTS = ("profile", "project", "words")
_VECTOR, _SIGNS = "v_", "s_"
_FRAGMENTS_MOST = 30  # files of rows a search has to open before they are made one
_REST_SECONDS_A_ROW = 0.01  # compacting takes 35 us a row, so less than 0.4 % of the time a table rests


def schema(table: Table) -> Any:
    """The columns every table of this name has; those of vectors come with their encoders."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "bool": pa.bool_(), "int64": pa.int64()}
    types = dict.fromkeys(_TEXTS, "string") | _STATE[table]
    fields = [pa.field(name, kinds[kind]) for name, kind in types.items()]
    return pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("seq", pa.int64()), *fields])


def vector_column(encoder: str) -> str:
    """The column of an encoder: its id as far as a column may hold it, and a hash that tells ids apart."""
    plain = re.sub(r"[^a-z0-9]+", "_", encoder.lower())
    return f"{_VECTOR}{plain}_{hashlib.sha256(encoder.encode()).hexdigest()[:6]}"


def signs_column(encoder: str) -> str:
    """The column of the signs of an encoder's vectors, which LanceDB can look through; int8 it cannot."""
    return _SIGNS + vector_column(encoder).removeprefix(_VECTOR)


def check_shape(table: Table, handle: Any) -> None:
    """Raises `StoreDamaged` for a table that another version of mnemo or somebody else made."""
    import pyarrow as pa

    there = {field.name: field.type for field in handle.schema}
    wrong = [field.name for field in schema(table) if there.get(field.name) != field.type]
    wrong += [
        name
        for name, kind in there.items()
        if name.startswith(_VECTOR) and getattr(kind, "value_type", None) != pa.int8()
    ]
    if wrong:
        raise StoreDamaged(f"The search table {table} has other columns than expected ({', '.join(wrong)}).")


def dimensions(handle: Any, encoder: str) -> int:
    """How many dimensions the column of an encoder has; 0 while there is none."""
    there = handle.schema
    name = vector_column(encoder)
    return int(there.field(name).type.list_size) if name in there.names else 0


def widen(handle: Any, encoders: Mapping[str, int]) -> None:
    """Add the columns of encoders the table has not met; its rows have no vector there yet."""
    import pyarrow as pa

    for encoder, dims in encoders.items():
        known = dimensions(handle, encoder)
        if not known:
            signs = pa.field(signs_column(encoder), pa.list_(pa.uint8(), -(-dims // 8)))
            handle.add_columns(
                pa.schema([pa.field(vector_column(encoder), pa.list_(pa.int8(), dims)), signs])
            )
        elif known != dims:
            raise StoreDamaged(f"The search tables hold vectors of {encoder} with {known} parts, not {dims}.")


def equip(handle: Any) -> None:
    """Give a table its key and the index of words, where it lacks them.

    With a key, rows that two processes add at once are still one row. LanceDB drops an index it cannot read.
    """
    if not handle.schema.field("id").metadata:
        handle.set_unenforced_primary_key("id")
    if not any(index.columns == ["words"] for index in handle.list_indices()):
        index_words(handle)


def index_words(handle: Any) -> None:
    """Index the words anew. They are matched exactly as they are, whatever they look like."""
    from lancedb.index import FTS

    exact = FTS(
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        with_position=False,
    )
    handle.create_index("words", config=exact, name="words")


def arrow(table: Table, columns: Any, rows: Sequence[Row], vectors: Mapping[str, Matrix], place: int) -> Any:
    """`rows` with their vectors in `columns`, a schema; without rows, the one that only tells the place."""
    import pyarrow as pa

    blank: dict[str, Any] = dict.fromkeys(("id", *_TEXTS), PLACE)
    values = [
        {"id": row.id, **{name: getattr(row, name) for name in _TEXTS}, **row.state} for row in rows
    ] or [blank]
    matrices: dict[str, Any] = {}
    for encoder, matrix in vectors.items():
        matrices[vector_column(encoder)] = as_bytes(matrix)
        matrices[signs_column(encoder)] = signs(matrix)
    arrays = []
    for field in columns:
        if field.name in matrices:
            flat = pa.array(matrices[field.name].ravel())
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
        elif field.name == "seq":
            arrays.append(pa.array([place] * len(values), field.type))
        else:
            arrays.append(pa.array([each.get(field.name) for each in values], field.type))
    return pa.Table.from_arrays(arrays, schema=columns)


def vector_columns(columns: Any) -> dict[str, int]:
    """The columns of vectors among those of an arrow schema, with their dimensions."""
    return {each.name: int(each.type.list_size) for each in columns if each.name.startswith(_VECTOR)}


def byte_vectors(batch: Any, column: str) -> npt.NDArray[np.int8]:
    """The vectors in a column of an arrow table, one line a row; zeros where a row has none."""
    vectors = batch[column].combine_chunks()
    lines = np.zeros((len(vectors), vectors.type.list_size), np.int8)
    there = vectors.is_valid().to_numpy(zero_copy_only=False)
    lines[there] = vectors.drop_null().flatten().to_numpy().reshape(-1, lines.shape[1])
    return lines


def as_bytes(vectors: Matrix) -> npt.NDArray[np.int8]:
    """Each vector with its largest part as 127 or -127; cosines need no scale."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0] = 1.0
    return np.asarray(np.rint(vectors * (127 / largest)), np.int8)


def signs(vectors: Matrix) -> npt.NDArray[np.uint8]:
    """One bit a part: two vectors are near where few of them differ."""
    return np.packbits(vectors > 0, axis=1)


def worn(handle: Any, older_than: timedelta, now: datetime) -> bool:
    """Whether a table has many small files, or has come to rest and still holds versions to drop.

    Compacting writes the whole table again, so it is not done for every few rows.
    """
    versions = handle.list_versions()
    newest = max(versions, key=lambda each: each["version"])
    if int(newest["metadata"]["total_fragments"]) >= _FRAGMENTS_MOST:
        return True
    rest = older_than + timedelta(seconds=_REST_SECONDS_A_ROW * handle.count_rows())
    return len(versions) > 1 and now - newest["timestamp"].astimezone() > rest


def any_of(wanted: Sequence[str]) -> Any:
    """The query for rows with any of the wanted words."""
    from lancedb import query

    match: Any = query.MatchQuery  # its defaults are of a kind that type checkers do not see
    storable = " ".join(wanted).encode("utf-8", "replace").decode()
    return match(storable, "words")


def literal(text: str) -> str:
    """`text` in SQL; a text no table can hold (half a character) is NULL, to which nothing is equal."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "NULL"
    return "'" + text.replace("'", "''") + "'"
