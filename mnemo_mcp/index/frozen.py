"""A profile's index as it was at one moment: sealed and saved while the index itself goes on.

Freezing takes copies of what may change and costs milliseconds; what takes longer happens on the copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index import entities, memories, postings, sealed, states
from mnemo_mcp.index.arrays import Floats, Keys, Mask, Rows
from mnemo_mcp.index.snapshot import Saved, Snapshot
from mnemo_mcp.index.vectors import Values, VectorMatrix

_CHUNK = 32_768  # rows of vectors copied at once


@dataclass(frozen=True, slots=True)
class Sealed:
    """The parts of an index made anew, so that few things are looked up beside them."""

    postings: sealed.Sealed
    entities: entities.Sealed
    memories: memories.Block
    ids: Rows
    texts: Rows


@dataclass(frozen=True, slots=True)
class Frozen:
    """All parts of an index as they were."""

    states: states.Frozen
    postings: postings.Frozen
    entities: entities.Frozen
    memories: memories.Frozen
    ids: Keys
    texts: Keys
    erased: Mask
    successions: npt.NDArray[np.int64]
    awaited: Mapping[str, list[int]]
    written: Mapping[str, int]
    named: Mapping[tuple[str, str], int]
    matrices: Mapping[str, VectorMatrix]

    def sealed(self) -> Sealed:
        return Sealed(
            self.postings.sealed(),
            self.entities.sealed(),
            self.memories.unblocked(),
            np.argsort(self.ids, kind="stable"),
            np.argsort(self.texts, kind="stable"),
        )

    def save(self, file: Snapshot, prefix: str, made: Sealed, lock: AbstractContextManager[Any]) -> None:
        """Write all parts. Vectors are taken bit by bit, each under `lock`."""
        words, blocks = made.postings, list(self.memories.whole())
        before = np.cumsum([0, *(len(block.text) for block in blocks)])
        arrays = {
            **{f"states.{name}": column for name, column in self.states.columns.items()},
            "postings.starts": words.starts,
            "postings.docs": words.docs,
            "postings.codes": words.codes,
            "postings.lengths": self.postings.lengths,
            "entities.numbers": self.entities.numbers,
            "entities.parts": self.entities.parts,
            "entities.ends": self.entities.ends,
            "ids": self.ids,
            "texts": self.texts,
            "erased": self.erased,
            "successions": self.successions,
        }
        for name, array in arrays.items():
            file.array(prefix + name, [array])
        file.array(prefix + "memories.text", (np.frombuffer(each.text, np.uint8) for each in blocks))
        ends = (each.ends + start for each, start in zip(blocks, before, strict=False))
        file.array(prefix + "memories.ends", ends)
        values = {
            "postings.words": list(words.words),
            "entities.keys": self.entities.keys,
            "entities.roles": self.entities.roles,
            "states.codes": self.states.codes,
            "states.pieces": list(self.states.pieces.items()),
            "awaited": self.awaited,
            "written": dict(self.written),
            "named": [[*pair, count] for pair, count in self.named.items()],
            "encoders": list(self.matrices),
        }
        for name, value in values.items():
            file.value(prefix + name, value)
        for number, matrix in enumerate(self.matrices.values()):
            scales: list[Floats] = []
            file.array(f"{prefix}vectors.{number}", self._vectors(matrix, scales, lock))
            file.array(f"{prefix}scales.{number}", scales)

    def _vectors(
        self, matrix: VectorMatrix, scales: list[Floats], lock: AbstractContextManager[Any]
    ) -> Iterator[Values]:
        size = len(self.ids)
        for start in range(0, max(size, 1), _CHUNK):
            with lock:
                part, values = matrix.part(start, min(start + _CHUNK, size))
            scales.append(part)
            yield values


def matrices_of(saved: Saved) -> Iterator[tuple[str, Floats, Values]]:
    """The vectors in a snapshot, encoder by encoder."""
    for number, encoder in enumerate(saved.value("encoders")):
        yield encoder, saved.arrays[f"scales.{number}"], saved.arrays[f"vectors.{number}"]


def postings_of(saved: Saved) -> tuple[sealed.Sealed, Floats]:
    """The postings in a snapshot, and the documents' lengths."""
    words = {word: number for number, word in enumerate(saved.value("postings.words"))}
    starts, docs, codes, lengths = (
        saved.arrays[f"postings.{name}"] for name in ("starts", "docs", "codes", "lengths")
    )
    return sealed.Sealed(words, starts, docs, codes), lengths


def entities_of(saved: Saved) -> entities.Frozen:
    """The entities in a snapshot."""
    keys, roles = (saved.value(f"entities.{name}") for name in ("keys", "roles"))
    numbers, parts, ends = (saved.arrays[f"entities.{name}"] for name in ("numbers", "parts", "ends"))
    return entities.Frozen(keys, roles, numbers, parts, ends)


def states_of(saved: Saved) -> states.Frozen:
    """The states in a snapshot."""
    columns = saved.under("states.").arrays
    pieces = {row: tuple((start, end) for start, end in spans) for row, spans in saved.value("states.pieces")}
    return states.Frozen(columns, saved.value("states.codes"), pieces)


def memories_of(saved: Saved) -> list[memories.Block]:
    """The memories in a snapshot."""
    return [memories.Block(0, saved.arrays["memories.text"].tobytes(), saved.arrays["memories.ends"])]
