"""Recent: rows of the episodes' table in RAM, the newest first, so that most questions ask no table.

A query costs LanceDB ten milliseconds and more, whatever it finds. Of few rows inside a scope each one is
weighed; of many those that words or vectors speak for, their neighbours, and a sample that shows what is
usual.
What is older than what is held is found in the table (`older.py`) and weighed in the same field.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import best, grown
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.search.field import K1, B, Field, Floats, Mask, Places, Sought, Vector, tells
from mnemo_mcp.search.scope import Scope
from mnemo_mcp.search.tables import byte_vectors, vector_column, vector_columns

CHUNK_EPISODES = 4_096
CHUNKS = 4
"""So many full chunks, and what came since the last one, are read at once; more is read in the background."""

WORDS_DEPTH, MEANING_DEPTH = 200, 100
_USUAL = 2_048  # rows that show what is usual among more than can all be weighed
_STRETCH = 64
_POSTING_BYTES, _ROW_BYTES = 6, 320
_OVERFULL = 1.25
_AT_ONCE = 256  # older rows taken while a search waits, some twenty milliseconds

_STRINGS = ("profile", "project", "session", "speaker")
COLUMNS = ("id", "number", "before", "words", "asks", "occurred_at", *_STRINGS)
_ARRAYS: dict[str, Any] = {
    "ids": np.object_, "lengths": np.float32, "asks": np.bool_, "occurred": "S24",
    "before": np.int32, "after": np.int32, **dict.fromkeys(_STRINGS, np.int32),
}  # fmt: skip


def first_recent(place: int, chunk: int) -> int:
    """The number of the first episode read at once while a table reflects the store up to `place`.

    It hangs on the place alone, so that every process begins with the same ones.
    """
    return max(0, place // chunk - CHUNKS) * chunk


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The wanted words: which rows hold each and how often; how many of the `size` inside a scope do."""

    postings: Sequence[tuple[Places, Floats]]
    held: Floats
    size: int


class Recent:
    """The rows of episodes numbered `first` and later. Usable from any thread."""

    def __init__(self, first: int, chunk: int = CHUNK_EPISODES) -> None:
        self.first = first
        self._each = (CHUNKS + 1) * chunk  # so many rows are all weighed
        self._most_read = self._each + chunk
        self._lock = threading.Lock()
        self._size = self._posted = 0
        self._places: dict[str, int] = {}
        self._awaited: dict[str, int] = {}  # ids that are not held -> the place of what came after them
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _STRINGS}
        self._arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, kind) for name, kind in _ARRAYS.items()
        }
        self._vectors: dict[str, VectorMatrix] = {}

    @property
    def bytes(self) -> int:
        """About how much RAM it takes."""
        dims = sum(matrix.dims for matrix in self._vectors.values())
        return self._size * (_ROW_BYTES + dims + dims // 8) + self._posted * _POSTING_BYTES

    def outgrows(self, memory: float) -> bool:
        """Whether it takes far more than so many bytes, and would not if it were read anew."""
        return self._size > self._most_read and self.bytes > _OVERFULL * memory

    def take(self, batch: Any) -> None:
        """Hold the rows of an arrow table from `first` on; of those held already the vectors change."""
        numbers = batch["number"].to_pylist()  # None in the row that only tells the place
        least = max(self.first, 1)
        batch = _rows(batch, [at for at, number in enumerate(numbers) if (number or 0) >= least])
        ids = batch["id"].to_pylist()
        with self._lock:
            self._append(_rows(batch, [at for at, name in enumerate(ids) if name not in self._places]))
            self._set_vectors(batch, np.array([self._places[name] for name in ids], np.int64))

    def take_older(self, batch: Any, first: int) -> None:
        """Hold all rows from number `first` up to those that are held, in rising numbers."""
        for start in range(max(0, batch.num_rows - 1) // _AT_ONCE * _AT_ONCE, -1, -_AT_ONCE):
            part = batch.slice(start, _AT_ONCE)
            begun = self._size
            with self._lock:
                self._append(part)
                self._set_vectors(part, np.arange(begun, self._size))
                self.first = int(part["number"][0].as_py()) if start else first

    def field(self, sought: Sought, scope: Scope) -> tuple[Field, int]:
        """What is inside a scope, with what it holds of the wanted words and how near it is; and the number
        from which on everything was looked at.
        """
        with self._lock:
            inside = self._inside(scope)
            rows = np.flatnonzero(inside)
            usual = np.ones(len(rows), np.bool_)
            words = self._wanted(sought.words, inside)
            if len(rows) > self._each:
                sample = _sample(rows, min(self._each, _USUAL))
                candidates = self._candidates(sought, inside, words)
                rows = np.union1d(sample, candidates[inside[candidates]])
                usual = np.isin(rows, sample, assume_unique=True)
            return self._told(sought, rows, usual, words), self.first

    def _wanted(self, words: Sequence[str], inside: Mask) -> _Wanted:
        postings = [self._posting(word) for word in words]
        held = [np.count_nonzero(inside[places]) for places, _ in postings]
        return _Wanted(postings, np.array(held, np.float32), int(np.count_nonzero(inside)))

    def _told(self, sought: Sought, rows: Places, usual: Mask, words: _Wanted) -> Field:
        """The field of some rows, of which the `usual` ones are a fair sample."""
        places = np.full(self._size + 1, -1, np.int64)  # a neighbour -1 looks up the last one
        places[rows] = np.arange(len(rows))
        counts = np.zeros((len(words.postings), len(rows)), np.float32)
        for line, (posted, often) in zip(counts, words.postings, strict=True):
            at = places[posted]
            line[at[at >= 0]] = often[at >= 0]
        start, end = (each.encode() for each in sought.told_in())
        occurred = self._of("occurred")[rows]
        return Field(
            self._of("ids")[rows],
            places[self._of("before")[rows]],
            places[self._of("after")[rows]],
            counts,
            self._of("lengths")[rows],
            self._cosines(sought.vector, rows),
            self._of("asks")[rows],
            self._named(sought.words)[self._of("speaker")[rows]],
            (occurred >= start) & (occurred < end),
            usual,
            words.held,
            words.size,
        )

    def _candidates(self, sought: Sought, inside: Mask, words: _Wanted) -> Places:
        """The rows inside that most speaks for by words or by vectors, and their neighbours wherever."""
        found = [self._by_words(inside, words)]
        if sought.vector and (matrix := self._matrix(sought.vector)):
            found.append(matrix.nearest(sought.vector[1], inside, MEANING_DEPTH)[0])
        rows = np.concatenate(found)
        beside = np.concatenate([rows, self._of("before")[rows], self._of("after")[rows]])
        return np.asarray(beside[beside >= 0], np.int64)

    def _by_words(self, inside: Mask, words: _Wanted) -> Places:
        """The best rows by BM25 in the episode alone."""
        lengths = self._of("lengths")
        norm = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
        sums = np.zeros(self._size, np.float32)
        for (places, often), weight in zip(words.postings, tells(words.held, words.size), strict=True):
            sums[places] += weight * often * (K1 + 1) / (often + norm[places])
        sums[~inside] = 0
        found = np.flatnonzero(sums)
        return found[best(sums[found], found, WORDS_DEPTH)]

    def _append(self, batch: Any) -> None:
        start, count = self._size, batch.num_rows
        for name, kept in self._arrays.items():
            self._arrays[name] = grown(kept, start + count)
        self._size += count
        added = slice(start, self._size)
        self._of("before")[added] = self._of("after")[added] = -1
        columns = (batch[name].to_pylist() for name in ("id", "words", "before"))
        for place, (name, words, before) in enumerate(zip(*columns, strict=True), start):
            self._places[name] = place
            self._of("lengths")[place] = self._post(place, words.split(" "))
            if before:
                self._link(self._places.get(before, -1), place, before)
            if (later := self._awaited.pop(name, None)) is not None:
                self._link(place, later, name)
        for name, column in (("ids", "id"), ("asks", "asks")):
            self._of(name)[added] = batch[column].to_pylist()
        self._of("occurred")[added] = [each.encode() for each in batch["occurred_at"].to_pylist()]
        for name, codes in self._codes.items():
            self._of(name)[added] = [codes.setdefault(each, len(codes)) for each in batch[name].to_pylist()]

    def _link(self, before: int, after: int, name: str) -> None:
        """Enter that one row follows another one in its thread, or waits for it."""
        if before < 0:
            self._awaited[name] = after
        else:
            self._of("before")[after], self._of("after")[before] = before, after

    def _post(self, place: int, words: Sequence[str]) -> int:
        counted = Counter(words)
        for word, count in counted.items():
            places, counts = self._postings.setdefault(word, (array("I"), array("H")))
            places.append(place)
            counts.append(min(count, 65_535))
        self._posted += len(counted)
        return len(words)

    def _posting(self, word: str) -> tuple[Places, Floats]:
        """Which rows hold a word, and how often."""
        places, counts = self._postings.get(word, (array("I"), array("H")))
        return (
            np.frombuffer(places, np.uint32).astype(np.int64),
            np.frombuffer(counts, np.uint16).astype(np.float32),
        )

    def _set_vectors(self, batch: Any, places: Places) -> None:
        for column, dims in vector_columns(batch.schema).items():
            matrix = self._vectors.setdefault(column, VectorMatrix(dims))
            vectors = byte_vectors(batch, column)
            norms = lengths(vectors)
            scales = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
            for first, last in _runs(places):
                matrix.fill(int(places[first]), scales[first:last], vectors[first:last])

    def _inside(self, scope: Scope) -> Mask:
        def having(name: str, values: Sequence[str]) -> Mask:
            among = np.zeros(len(self._codes[name]) + 1, np.bool_)
            among[[self._codes[name][each] for each in values if each in self._codes[name]]] = True
            return np.asarray(among[self._of(name)], np.bool_)

        mask = having("profile", [scope.profile])
        if scope.projects is not None:
            mask &= having("project", scope.projects)
        if scope.exclude_session is not None:
            mask &= ~having("session", [scope.exclude_session])
        return mask

    def _named(self, wanted: Sequence[str]) -> Mask:
        """Which speakers' names hold a wanted word."""
        asked = set(wanted)
        return np.array([bool(asked & set(name.split())) for name in self._codes["speaker"]], np.bool_)

    def _matrix(self, vector: Vector | None) -> VectorMatrix | None:
        """The vectors that a question's can be compared with."""
        matrix = self._vectors.get(vector_column(vector[0])) if vector else None
        return matrix if matrix and vector and matrix.dims == len(vector[1]) else None

    def _cosines(self, vector: Vector | None, rows: Places) -> Floats:
        matrix = self._matrix(vector)
        if matrix is None or vector is None:
            return np.full(len(rows), np.nan, np.float32)
        there = matrix.there(self._size)[rows]
        return np.where(there, matrix.cosines(vector[1], rows), np.float32(np.nan))

    def _of(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name][: self._size]


def _sample(rows: Places, most: int) -> Places:
    """At most `most` of the rows, from all over: whole stretches, as each is weighed with its neighbours."""
    stretches = rows[: len(rows) // _STRETCH * _STRETCH].reshape(-1, _STRETCH)
    every = -(-len(rows) // most)
    return stretches[::every].ravel()


def _rows(batch: Any, places: Sequence[int]) -> Any:
    return batch.take(np.array(places, np.int64))


def _runs(places: Places) -> list[tuple[int, int]]:
    """Where in `places` numbers that follow one another begin and end."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    borders = [0, *breaks.tolist(), len(places)]
    return list(pairwise(borders))


def lengths(vectors: npt.NDArray[np.int8]) -> Floats:
    wide = vectors.astype(np.float32)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", wide, wide)), np.float32)


def cosines(vectors: npt.NDArray[np.int8], norms: Floats, question: Floats) -> Floats:
    """The cosines of int8 vectors with a question of length one; NaN for rows of zeros, which are none."""
    products = vectors.astype(np.float32) @ question  # int8 times int8 overflows without a word
    return np.asarray(products / np.where(norms > 0, norms, np.nan), np.float32)
