"""Recent: the newest rows of the episodes' table in RAM, so that a question about them asks no table.

A query costs LanceDB four milliseconds whatever it finds; most questions are about what was said lately.
What is older is found in the table (`older.py`) and weighed in the same field.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.search.field import Field, Floats, Mask, Places, Sought, Vector
from mnemo_mcp.search.scope import Scope
from mnemo_mcp.search.tables import byte_vectors, vector_column, vector_columns

CHUNK_EPISODES = 4_096
CHUNKS = 4  # 16,384 episodes and what came since the last full chunk: about 60 MB with both encoders
_BLOCK_ROWS = 4_096  # vectors widened at once
Bytes = npt.NDArray[np.int8]

_STRINGS = ("profile", "project", "session", "speaker")
COLUMNS = ("id", "number", "before", "words", "asks", "occurred_at", *_STRINGS)


def first_recent(place: int, chunk: int) -> int:
    """The number of the first episode held while a table reflects the store up to `place`.

    It hangs on the place alone, so that every process holds the same ones.
    """
    return max(0, place // chunk - CHUNKS) * chunk


class Recent:
    """The rows of episodes numbered `first` and later. Usable from any thread."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _STRINGS}
        self._strings: dict[str, Places] = {name: np.zeros(0, np.int64) for name in _STRINGS}
        self._ids = np.zeros(0, np.object_)
        self._lengths = np.zeros(0, np.float32)
        self._asks = np.zeros(0, np.bool_)
        self._occurred = np.zeros(0, "U24")
        self._before = np.zeros(0, np.int64)
        self._after = np.zeros(0, np.int64)
        self._vectors: dict[str, tuple[Bytes, Floats]] = {}

    def take(self, batch: Any) -> None:
        """Hold the rows of an arrow table, in rising numbers; of one held already the vectors change."""
        numbers = batch["number"].to_pylist()  # None in the row that only tells the place
        batch = _rows(batch, [at for at, number in enumerate(numbers) if (number or 0) >= max(self.first, 1)])
        ids = batch["id"].to_pylist()
        with self._lock:
            self._append(_rows(batch, [at for at, name in enumerate(ids) if name not in self._places]))
            self._set_vectors(batch, np.array([self._places[name] for name in ids], np.int64))

    def field(self, sought: Sought, scope: Scope) -> Field:
        """What is inside a scope, with what it holds of the wanted words and how near it is."""
        wanted, (start, end) = sought.words, sought.told_in()
        with self._lock:
            size = len(self._ids)
            rows = np.flatnonzero(self._inside(scope))
            counts = np.zeros((len(wanted), size), np.float32)
            for index, word in enumerate(wanted):
                if posting := self._postings.get(word):
                    counts[index, np.frombuffer(posting[0], np.uint32)] = np.frombuffer(posting[1], np.uint16)
            places = np.full(size + 1, -1, np.int64)  # a neighbour -1 looks up the last one
            places[rows] = np.arange(len(rows))
            return Field(
                self._ids[rows],
                places[self._before[rows]],
                places[self._after[rows]],
                counts[:, rows],
                self._lengths[rows],
                self._cosines(sought.vector, rows),
                self._asks[rows],
                self._named(wanted)[rows],
                ((self._occurred >= start) & (self._occurred < end))[rows],
            )

    def _append(self, batch: Any) -> None:
        count = batch.num_rows
        start = len(self._ids)
        held = np.zeros(count, np.float32)
        self._before = np.append(self._before, np.full(count, -1))
        self._after = np.append(self._after, np.full(count, -1))
        columns = (batch[name].to_pylist() for name in ("id", "words", "before"))
        for index, (name, words, before) in enumerate(zip(*columns, strict=True)):
            place = self._places[name] = start + index
            held[index] = self._post(place, words.split(" "))
            if (earlier := self._places.get(before)) is not None:
                self._before[place], self._after[earlier] = earlier, place
        self._ids = np.append(self._ids, np.array(batch["id"].to_pylist(), np.object_))
        self._lengths = np.append(self._lengths, held)
        self._asks = np.append(self._asks, np.array(batch["asks"].to_pylist(), np.bool_))
        self._occurred = np.append(self._occurred, np.array(batch["occurred_at"].to_pylist(), "U24"))
        for name, codes in self._codes.items():
            fresh = [codes.setdefault(each, len(codes)) for each in batch[name].to_pylist()]
            self._strings[name] = np.append(self._strings[name], np.array(fresh, np.int64))

    def _post(self, place: int, words: Sequence[str]) -> int:
        for word, count in Counter(words).items():
            places, counts = self._postings.setdefault(word, (array("I"), array("H")))
            places.append(place)
            counts.append(min(count, 65_535))
        return len(words)

    def _set_vectors(self, batch: Any, places: Places) -> None:
        size = len(self._ids)
        for column, dims in vector_columns(batch.schema).items():
            vectors, norms = self._vectors.get(
                column, (np.zeros((0, dims), np.int8), np.zeros(0, np.float32))
            )
            if more := size - len(vectors):
                vectors = np.concatenate([vectors, np.zeros((more, dims), np.int8)])
                norms = np.concatenate([norms, np.zeros(more, np.float32)])
            vectors[places] = byte_vectors(batch, column)
            norms[places] = lengths(vectors[places])
            self._vectors[column] = vectors, norms

    def _inside(self, scope: Scope) -> Mask:
        def having(name: str, values: Sequence[str]) -> Mask:
            codes = [self._codes[name][each] for each in values if each in self._codes[name]]
            return np.isin(self._strings[name], codes)

        mask = having("profile", [scope.profile])
        if scope.projects is not None:
            mask &= having("project", scope.projects)
        if scope.exclude_session is not None:
            mask &= ~having("session", [scope.exclude_session])
        return mask

    def _named(self, wanted: Sequence[str]) -> Mask:
        asked = set(wanted)
        codes = [code for name, code in self._codes["speaker"].items() if asked & set(name.split())]
        return np.isin(self._strings["speaker"], codes)

    def _cosines(self, vector: Vector | None, rows: Places) -> Floats:
        vectors, norms = self._vectors.get(vector_column(vector[0]), (None, None)) if vector else (None, None)
        if vector is None or vectors is None or norms is None or vectors.shape[1] != len(vector[1]):
            return np.full(len(rows), np.nan, np.float32)
        blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS))
        found = [cosines(vectors[block], norms[block], vector[1]) for block in blocks]
        return np.concatenate(found) if found else np.zeros(0, np.float32)


def _rows(batch: Any, places: Sequence[int]) -> Any:
    return batch.take(np.array(places, np.int64))


def lengths(vectors: Bytes) -> Floats:
    wide = vectors.astype(np.float32)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", wide, wide)), np.float32)


def cosines(vectors: Bytes, norms: Floats, question: Floats) -> Floats:
    """The cosines of int8 vectors with a question of length one; NaN for rows of zeros, which are none."""
    products = vectors.astype(np.float32) @ question  # int8 times int8 overflows without a word
    return np.asarray(products / np.where(norms > 0, norms, np.nan), np.float32)
