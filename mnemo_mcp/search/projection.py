"""The projection: memories and episodes with their words and vectors as LanceDB tables.

It holds nothing of its own. Each table tells by its highest `seq` how far it reflects the store, so there is
no second record that could disagree, and an emptied folder is one that starts at 0.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from mnemo_mcp.errors import Refused, StoreBusy, StoreDamaged, StoreError
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.search.recent import CHUNK_EPISODES, Recent, first_recent
from mnemo_mcp.search.recent import COLUMNS as RECENT_COLUMNS
from mnemo_mcp.search.rows import Row
from mnemo_mcp.search.tables import (
    EPISODES,
    MEMORIES,
    PLACE,
    Table,
    any_of,
    arrow,
    check_shape,
    dimensions,
    equip,
    index_words,
    literal,
    schema,
    vector_column,
    vector_columns,
    widen,
    worn,
)
from mnemo_mcp.search.trouble import PassedOver, Translated
from mnemo_mcp.times import Clock, system_clock

Found = list[tuple[str, float]]
"""Ids with their scores, best first, ties by id."""

_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES = 256 * 2**20, 64 * 2**20  # LanceDB's own bounds are 6 and 1 GiB
_CODE = re.compile(r"(?:os error |Errno |code: )(\d+)")
_OUTER = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
_OUTER |= {errno.ENOMEM, errno.EIO}
_T = TypeVar("_T")


class Projection:
    """The two tables. One thread of one process writes at a time; any number may read meanwhile.

    `folder` is a local one, or an address LanceDB knows (`s3://...`, `db://...`), which is handed on as it
    is; only local folders are tested. `encoders` gives the dimensions of each encoder by its id. The newest
    four to five times `chunk` episodes are held in RAM (`recent.py`), and older ones as they are reached for,
    up to `memory_mib`.

    Methods raise `StoreDamaged` when a table cannot be used as it is and must be made anew, and `StoreBusy`
    or `StoreError` for other trouble.
    """

    def __init__(
        self,
        folder: str | Path,
        encoders: Mapping[str, int],
        clock: Clock = system_clock,
        chunk: int = CHUNK_EPISODES,
        memory_mib: float = math.inf,
    ) -> None:
        self._remote = "://" in str(folder)
        self._folder = Path(folder).absolute()
        self._address = str(folder) if self._remote else str(self._folder)
        self._encoders = dict(encoders)
        self._clock = clock
        self._chunk = chunk
        self._memory_bytes = memory_mib * 2**20
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._connection: Any = None
        self._tables: dict[Table, Any] = {}
        self._recent: Recent | None = None

    def place(self, table: Table) -> int:
        """The ledger row or episode number up to which a table reflects the store."""

        def ask(handle: Any) -> int:
            from lancedb.query import ColumnOrdering

            highest = [ColumnOrdering(column_name="seq", ascending=False)]
            found = handle.search().select(["seq"]).order_by(highest).limit(1).to_list()
            return int(found[0]["seq"]) if found else 0

        return self.read(table, ask, 0)

    def count(self, table: Table) -> int:
        """How many memories or episodes a table holds."""
        return self.read(table, lambda handle: int(handle.count_rows(f"id <> '{PLACE}'")), 0)

    def held(self, table: Table, ids: Iterable[str]) -> list[str]:
        """Those of `ids` a table holds."""
        listed = ", ".join(map(literal, ids))
        if not listed:
            return []
        return self.read(table, lambda handle: _ids(handle.search().where(f"id IN ({listed})")), [])

    def lacking(self, table: Table, encoder: str, most: int) -> list[str]:
        """Up to `most` ids of rows that have no vector of an encoder."""

        def ask(handle: Any) -> list[str]:
            empty = f"{vector_column(encoder)} IS NULL" if dimensions(handle, encoder) else "true"
            return _ids(handle.search().where(f"id <> '{PLACE}' AND {empty}").limit(most))

        return self.read(table, ask, [])

    def by_words(self, table: Table, wanted: Sequence[str], scope: str, depth: int) -> Found:
        """The rows inside `scope` (SQL) that hold most of the wanted words, by BM25; no word is syntax."""

        def ask(handle: Any) -> Found:
            query = handle.search(any_of(wanted), query_type="fts")
            found = query.where(scope).select(["id", "_score"]).limit(2 * depth).to_list()
            return [(row["id"], row["_score"]) for row in found]

        return _best(self.read(table, ask, []), depth)

    def recent(self) -> Recent | None:
        """The newest rows of the episodes in RAM, read at first use; None while there is no table."""
        if (known := self._recent) is not None:
            return known
        with self._writing:  # so that no row is written between reading and holding
            if self._recent is None:
                self._recent = self._read_recent()
            return self._recent

    def reach_back(self) -> bool:
        """Hold a further chunk of older episodes in RAM; False where all are held, or all that may be."""
        if (recent := self.recent()) is None:
            return False
        with self._writing:
            if recent is not self._recent or not recent.first or recent.bytes >= self._memory_bytes:
                return False
            first = max(0, recent.first - self._chunk)
            between = f"number >= {first} AND number < {recent.first}"
            rows = self.read(EPISODES, lambda handle: _numbered(handle, between), None)
            recent.take_older(rows, first)
        return True

    def put(self, table: Table, rows: Sequence[Row], vectors: Mapping[str, Matrix], place: int) -> None:
        """Add rows, or replace those of the same ids; from then on `table` reflects the store up to `place`.

        All in one commit. `vectors` has a matrix for each encoder at hand, one line a row.
        """
        with self._writing:
            handle = self._writable(table)
            with self._translated():
                widen(handle, {encoder: matrix.shape[1] for encoder, matrix in vectors.items()})
                columns = handle.schema
            batch = arrow(table, columns, rows, vectors, place)
            with self._translated():
                merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(batch, on_bad_vectors="null")
            if table == EPISODES and self._recent is not None:
                self._recent.take(batch)
                if self._recent.outgrows(self._memory_bytes):
                    self._recent = None  # read anew without the oldest

    def remove(self, table: Table, ids: Iterable[str]) -> None:
        """Take rows out for good: the table and its index are written anew without them.

        A mere deletion would leave their text in the files of the rows and their words in the index. What
        is left then in old versions goes with maintenance.
        """
        listed = ", ".join(map(literal, ids))
        if not listed:
            return
        with self._writing:
            handle = self._writable(table)
            with self._translated():
                kept = handle.search().where(f"id NOT IN ({listed})").to_batches()
                handle.add(kept, mode="overwrite", on_bad_vectors="null")
                index_words(handle)
            if table == EPISODES:
                self._recent = None

    def maintain(self, older_than: timedelta) -> None:
        """Make one file of many where a table is worn, and drop its versions older than `older_than`.

        Costs a few milliseconds where nothing is to be done, so it may be called after every few rows.
        """
        if older_than <= timedelta(0):
            raise ValueError("a version that may still be read must be kept for a while")
        if self._address.startswith("db://"):
            return  # a server looks after its own tables
        for table in (MEMORIES, EPISODES):
            with self._writing, self._translated():
                handle = self._open(table)
                if handle is not None and worn(handle, older_than, self._clock()):
                    handle.optimize(cleanup_older_than=older_than)
                    equip(handle)

    def reset(self) -> None:
        """Empty the folder, whatever is in it; the relay then starts at 0. Raises `Refused` for a remote."""
        if self._remote:
            raise Refused(
                f"{self._address} is not this mnemo's alone to empty.",
                "Drop its tables `memories` and `episodes` with LanceDB.",
            )
        with self._writing, self._opening, self._translated():
            self._tables.clear()
            self._connection = self._recent = None
            _empty(self._folder)

    def read(self, table: Table, ask: Callable[[Any], _T], nothing: _T) -> _T:
        """What `ask` finds in a table; `nothing` while there is no table."""
        with self._translated():
            handle = self._open(table)
            if handle is None:
                return nothing
            with PassedOver():
                return ask(handle)
            # maintenance may have dropped the version while it was read; then the newest one answers
            handle.checkout_latest()
            return ask(handle)

    def _read_recent(self) -> Recent | None:
        first = first_recent(self.place(EPISODES), self._chunk)
        recent = Recent(first, self._chunk)

        def ask(handle: Any) -> Recent:
            recent.take(_numbered(handle, f"number >= {first}"))
            return recent

        return self.read(EPISODES, ask, None)

    def _writable(self, table: Table) -> Any:
        with self._translated():
            handle = self._open(table)
            if handle is None:
                with self._opening:
                    handle = self._connected().create_table(table, schema=schema(table))
                    self._tables[table] = handle
            equip(handle)
            widen(handle, self._encoders)
        return handle

    def _open(self, table: Table) -> Any:
        if (known := self._tables.get(table)) is not None:
            return known
        with self._opening:
            if table not in self._tables and self._is_there(table):
                handle = self._connected().open_table(table)
                check_shape(table, handle)
                self._tables[table] = handle
            return self._tables.get(table)

    def _is_there(self, table: Table) -> bool:
        if self._remote:
            return table in self._connected().table_names()
        return self._folder.is_file() or (self._folder / f"{table}.lance").exists()

    def _connected(self) -> Any:
        if self._connection is None:
            import lancedb

            if not self._remote:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            session = lancedb.Session(_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES)
            self._connection = lancedb.connect(self._address, session=session)
        return self._connection

    def _translated(self) -> Translated:
        """LanceDB's errors as ours."""
        return Translated(self._explained)

    def _explained(self, error: BaseException) -> StoreError:
        text = str(error).split(", /")[0][:200]  # LanceDB appends where in its sources it happened
        if "conflict" in text.lower():
            return StoreBusy(f"Another process writes to the search tables in {self._address}.")
        causes = {int(code) for code in _CODE.findall(str(error))} & _OUTER
        if causes:
            return StoreError(
                f"The search tables in {self._address} cannot be used ({os.strerror(min(causes))}).",
                "See to the folder and its disk; mnemo goes on by itself then.",
            )
        if self._remote:
            return StoreError(f"The search tables at {self._address} do not answer ({text}).")
        return StoreDamaged(
            f"The search tables in {self._address} are damaged ({text}).",
            "They are a copy and are made anew from mnemo.db; nothing is lost.",
        )


def _ids(query: Any) -> list[str]:
    return [row["id"] for row in query.select(["id"]).to_list()]


def _numbered(handle: Any, where: str) -> Any:
    """The rows of the episodes' table that are held in RAM, in the order of their numbers."""
    columns = [*RECENT_COLUMNS, *vector_columns(handle.schema)]
    return handle.search().where(where).select(columns).to_arrow().sort_by("number")


def _best(found: Found, depth: int) -> Found:
    """The best `depth` of twice as many: which of several equal rows LanceDB returns is left to chance."""
    return sorted(found, key=lambda item: (-item[1], item[0]))[:depth]


def _empty(folder: Path) -> None:
    if folder.is_file():
        folder.unlink()
        return
    for child in folder.iterdir() if folder.is_dir() else ():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
