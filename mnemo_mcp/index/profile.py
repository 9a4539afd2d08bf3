"""All memories of one profile in RAM: rows, their words and vectors, and masks over them."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

import numpy as np

from mnemo_mcp.index.postings import Postings
from mnemo_mcp.index.states import Mask, States
from mnemo_mcp.index.successions import Successions
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import Memory, same_text
from mnemo_mcp.words import STOP_WORDS, fold, words

_NAME = re.compile(r"(?<!\w)(?:[^\WA-Z]+[A-Z]\w*|(?<=[^.!?:\s] )[A-Z]\w*|[A-Z]\w*[A-Z]\w*)")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which memories may answer: `projects` None means all; an empty set of kinds means every kind."""

    projects: frozenset[str] | None = None
    kinds: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()


class ProfileIndex:
    """The index of one profile. Its caller holds `lock` while reading or changing it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.memories: list[Memory] = []
        self.states = States()
        self.postings = Postings()
        self.matrices: dict[str, VectorMatrix] = {}
        self.names: Counter[str] = Counter()
        self._rows: dict[str, int] = {}
        self._texts: dict[str, set[int]] = {}
        self._entities: dict[str, set[int]] = {}
        self._lacking: dict[str, set[int]] = {}
        self._replaced: dict[int, Memory] = {}
        self._successions: Successions | None = None

    def __len__(self) -> int:
        return len(self.memories)

    def row(self, memory_id: str) -> int | None:
        return self._rows.get(memory_id)

    def apply(self, memory: Memory) -> int | None:
        """Enter a memory or its newer state; its row, or None where it was erased before it got one."""
        row = self._rows.get(memory.id)
        if row is None:
            return None if memory.erased else self._enter(memory)
        before, self.memories[row] = self.memories[row], memory
        self.states.set(row, memory)
        if memory.replaced_by:
            self._replaced[row] = memory
            self._successions = None
        if memory.erased and not before.erased:
            self._leave(row, before)
        return row

    def successions(self) -> Successions:
        """Which rows were replaced by which."""
        if self._successions is None:
            pairs = [
                (row, self._rows[successor])
                for row, memory in self._replaced.items()
                for successor in memory.replaced_by
                if successor in self._rows
            ]
            self._successions = Successions(pairs)
        return self._successions

    def same(self, text: str) -> list[Memory]:
        """The memories whose `what` is the same text, case, spacing and closing points aside."""
        return [self.memories[row] for row in sorted(self._texts.get(same_text(text), ()))]

    def inside(self, scope: Scope) -> Mask:
        """The rows inside a scope."""
        found = np.ones(len(self.memories), np.bool_)
        if scope.projects is not None:
            found &= self.states.in_projects(scope.projects)
        if scope.kinds:
            found &= self.states.of_kinds(scope.kinds)
        if scope.entities:
            found &= self._about(scope.entities)
        return found

    def lacking(self, encoder: str, most: int) -> list[int]:
        """Rows without a vector of this encoder, newest first: what was just said is asked soonest."""
        return nlargest(most, self._without(encoder))

    def lacks(self, encoder: str) -> int:
        """How many rows have no vector of this encoder."""
        with self.lock:
            return len(self._without(encoder))

    def _without(self, encoder: str) -> set[int]:
        if encoder not in self._lacking:
            self._lacking[encoder] = {row for row, each in enumerate(self.memories) if not each.erased}
        return self._lacking[encoder]

    def attach(self, encoder: str, dims: int, vectors: Mapping[str, tuple[float, bytes]]) -> None:
        """Give memories (by id) their int8 vectors."""
        matrix = self.matrices.setdefault(encoder, VectorMatrix(dims))
        for memory_id, (scale, values) in vectors.items():
            row = self._rows.get(memory_id)
            if row is not None and not self.memories[row].erased:
                matrix.set(row, scale, values)
                self._lacking.get(encoder, set()).discard(row)

    def is_name(self, word: str) -> bool:
        """Whether a folded word is written like a name somewhere, or is an entity's."""
        return self.names[word] > 0

    def _about(self, entities: frozenset[str]) -> Mask:
        wanted = {same_text(name) for name in entities}
        found = np.zeros(len(self.memories), np.bool_)
        for name in wanted:
            found[list(self._entities.get(name, ()))] = True
        return found

    def _enter(self, memory: Memory) -> int:
        row = len(self.memories)
        self.memories.append(memory)
        self._rows[memory.id] = row
        self.states.set(row, memory)
        for rows in self._lacking.values():
            rows.add(row)
        for each in memory.claim.entities:
            self._entities.setdefault(same_text(each.name), set()).add(row)
        if memory.replaced_by:
            self._replaced[row] = memory
        self._successions = None
        self.postings.add(row, indexed_words(memory))
        self.names.update(_names(memory))
        self._texts.setdefault(same_text(memory.claim.what), set()).add(row)
        return row

    def _leave(self, row: int, before: Memory) -> None:
        self.postings.remove(row, indexed_words(before))
        self.names.subtract(_names(before))
        self._texts[same_text(before.claim.what)].discard(row)
        for each in before.claim.entities:
            self._entities[same_text(each.name)].discard(row)
        for matrix in self.matrices.values():
            matrix.clear(row)
        for rows in self._lacking.values():
            rows.discard(row)


def indexed_words(memory: Memory) -> Sequence[str]:
    """The words a memory is found by."""
    claim = memory.claim
    parts = (
        claim.what,
        claim.why,
        claim.how,
        claim.who,
        claim.where,
        claim.when,
        *(each.name for each in claim.entities),
        claim.subject,
        claim.field,
    )
    return [word for part in parts if part for word in words(part) if word not in STOP_WORDS]


def _names(memory: Memory) -> Iterable[str]:
    claim = memory.claim
    text = fold(" ".join((claim.what, claim.why, claim.how)))
    written = (match[0] for match in _NAME.finditer(text))
    declared = (each.name for each in claim.entities)
    return [word for part in (*written, *declared) for word in words(part) if word not in STOP_WORDS]
