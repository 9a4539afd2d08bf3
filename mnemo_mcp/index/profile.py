"""All memories of one profile in RAM: rows, their words and vectors, and masks over them."""

from __future__ import annotations

import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mnemo_mcp.index.arrays import Mask, grown
from mnemo_mcp.index.entities import Entities, named_in
from mnemo_mcp.index.frozen import (
    Frozen,
    Sealed,
    entities_of,
    matrices_of,
    memories_of,
    postings_of,
    states_of,
)
from mnemo_mcp.index.keys import KeyColumn, id_key, text_key
from mnemo_mcp.index.links import Links
from mnemo_mcp.index.memories import Memories
from mnemo_mcp.index.names import Names
from mnemo_mcp.index.postings import Postings
from mnemo_mcp.index.snapshot import Saved
from mnemo_mcp.index.states import States
from mnemo_mcp.index.successions import Successions
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import Memory, same_text
from mnemo_mcp.words import STOP_WORDS, fold, words

_NAME = re.compile(r"(?<!\w)(?:[^\WA-Z]+[A-Z]\w*|(?<=[^.!?:\s] )[A-Z]\w*|[A-Z]\w*[A-Z]\w*)")
_WORDS_KEPT = 512  # rows whose words are kept as they were read


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
        self.states = States()
        self.ids = KeyColumn()
        self.postings = Postings(ties=self.ids.of)
        self.entities = Entities()
        self.links = Links()
        self.names = Names()
        self.matrices: dict[str, VectorMatrix] = {}
        self._memories = Memories()
        self._texts = KeyColumn()
        self._named: Counter[tuple[str, str]] = Counter()
        self._written: Counter[str] = Counter()
        self._erased = np.zeros(0, np.bool_)
        self._living = 0
        self._successions = Successions()
        self._awaited: dict[str, list[int]] = {}
        self._words: OrderedDict[int, Sequence[str]] = OrderedDict()
        self._tidied = 0

    @classmethod
    def restored(cls, saved: Saved) -> ProfileIndex:
        """The index that a snapshot holds."""
        index = cls()
        index.states = States(states_of(saved))
        index.ids, index._texts = KeyColumn(saved.arrays["ids"]), KeyColumn(saved.arrays["texts"])
        index.postings = Postings(ties=index.ids.of, saved=postings_of(saved))
        index.entities = Entities(entities_of(saved))
        index._memories = Memories(memories_of(saved))
        index._written = Counter(saved.value("written"))
        for name, key, count in saved.value("named"):
            index._named[name, key] = count
            index.names.add(name, key)
        index._erased = saved.arrays["erased"]
        index._living = len(index) - int(np.count_nonzero(index._erased))
        for old, new in saved.arrays["successions"].tolist():
            index._successions.add(old, new)
        index._awaited = saved.value("awaited")
        for encoder, scales, values in matrices_of(saved):
            index.matrix(encoder, values.shape[1]).fill(0, scales, values)
        index._tidied = len(index)
        return index

    def __len__(self) -> int:
        return len(self._memories)

    def row(self, memory_id: str) -> int | None:
        """The row of a memory."""
        rows = self.ids.find(id_key(memory_id))
        return next((row for row in rows if self._memories.id(row) == memory_id), None)

    def id(self, row: int) -> str:
        """The id of the memory in a row."""
        return self._memories.id(row)

    def memory(self, row: int) -> Memory:
        """The memory in a row."""
        return self._memories.get(row)

    def apply(self, memory: Memory) -> int | None:
        """Enter a memory or its newer state; its row, or None where it was erased before it got one."""
        row = self.row(memory.id)
        if row is None:
            return None if memory.erased else self._enter(memory)
        before = self._memories.get(row)
        self._memories.put(row, memory)
        self.states.set(row, memory)
        if not memory.erased:
            self._succeed(row, memory.replaced_by)
            for name in set(before.replaced_by) - set(memory.replaced_by):
                self._successions.part(row, self.row(name))  # it was taken back
        elif not before.erased:
            self._leave(row, before)
        return row

    def successions(self) -> Successions:
        """Which rows were replaced by which."""
        return self._successions

    def _succeed(self, row: int, successors: Iterable[str]) -> None:
        """Enter what replaced a row, now or as soon as it is known itself."""
        for name in successors:
            new = self.row(name)
            if new is not None:
                self._successions.add(row, new)
            elif row not in self._awaited.setdefault(name, []):
                self._awaited[name].append(row)

    def same(self, text: str) -> list[Memory]:
        """The memories whose `what` is the same text, case, spacing and closing points aside."""
        wanted = same_text(text)
        found = (self._memories.get(row) for row in self._texts.find(text_key(wanted)))
        return [each for each in found if not each.erased and same_text(each.claim.what) == wanted]

    def inside(self, scope: Scope) -> Mask:
        """The rows inside a scope; not to be changed."""
        parts = []
        if scope.projects is not None:
            parts.append(self.states.in_projects(scope.projects))
        if scope.kinds:
            parts.append(self.states.of_kinds(scope.kinds))
        if scope.entities:
            parts.append(self._about(scope.entities))
        if not parts:
            return self.states.everything()
        return np.logical_and.reduce(parts) if len(parts) > 1 else parts[0]

    def lacking(self, encoder: str, most: int) -> list[int]:
        """Rows without a vector of this encoder, newest first: what was just said is asked soonest."""
        if not self.lacks(encoder):
            return []
        lacking = ~self._erased[: len(self)]
        if encoder in self.matrices:
            lacking &= ~self.matrices[encoder].there(len(self))
        return [int(row) for row in np.flatnonzero(lacking)[::-1][:most]]

    def lacks(self, encoder: str) -> int:
        """How many rows have no vector of this encoder."""
        with self.lock:
            return self._living - (self.matrices[encoder].filled if encoder in self.matrices else 0)

    def attach(self, encoder: str, dims: int, vectors: Mapping[str, tuple[float, bytes]]) -> None:
        """Give memories (by id) their int8 vectors."""
        matrix = self.matrix(encoder, dims)
        for memory_id, (scale, values) in vectors.items():
            row = self.row(memory_id)
            if row is not None and not self._erased[row]:
                matrix.set(row, scale, values)

    def matrix(self, encoder: str, dims: int) -> VectorMatrix:
        """The vectors of an encoder."""
        if encoder not in self.matrices:
            self.matrices[encoder] = VectorMatrix(dims, self.ids.of)
        return self.matrices[encoder]

    @property
    def untidy(self) -> int:
        """How many of the newest rows are not sealed with the others yet."""
        return len(self) - self._tidied

    def tidy(self) -> None:
        """Seal the newest rows with the others, for the background. Only one caller may do so at a time."""
        with self.lock:
            frozen = self.freeze()
        sealed = frozen.sealed()
        with self.lock:
            self.adopt(frozen, sealed)

    def freeze(self) -> Frozen:
        """All parts by now; its caller holds `lock` and is the only one to freeze until it adopts."""
        return Frozen(
            self.states.freeze(),
            self.postings.freeze(),
            self.entities.freeze(),
            self._memories.freeze(),
            self.ids.freeze(),
            self._texts.freeze(),
            self._erased[: len(self)].copy(),
            self._successions.pairs(),
            {name: list(rows) for name, rows in self._awaited.items()},
            +self._written,
            dict(self._named),
            dict(self.matrices),
        )

    def adopt(self, frozen: Frozen, sealed: Sealed) -> None:
        """Answer from what was sealed meanwhile; its caller holds `lock`."""
        self.postings.adopt(frozen.postings, sealed.postings)
        self.entities.adopt(sealed.entities)
        self._memories.adopt(sealed.memories)
        self.ids.adopt(frozen.ids, sealed.ids)
        self._texts.adopt(frozen.texts, sealed.texts)
        self._tidied = len(frozen.ids)

    def is_name(self, word: str) -> bool:
        """Whether a folded word is written like a name somewhere, or is an entity's."""
        return self._written.get(word, 0) > 0

    def words_of(self, row: int) -> Sequence[str]:
        """The words a row is found by."""
        found = self._words.get(row)
        if found is None:
            found = self._words[row] = indexed_words(self._memories.get(row))
            if len(self._words) > _WORDS_KEPT:
                self._words.popitem(last=False)
        return found

    def _about(self, entities: frozenset[str]) -> Mask:
        found = np.zeros(len(self), np.bool_)
        for name in entities:
            found[self.entities.rows_of(same_text(name), most=None)] = True
        return found

    def _enter(self, memory: Memory) -> int:
        row = len(self)
        self._memories.put(row, memory)
        self.ids.append(id_key(memory.id))
        self._texts.append(text_key(same_text(memory.claim.what)))
        self._erased = grown(self._erased, row + 1)
        self._living += 1
        self.states.set(row, memory)
        self.entities.add(row, named_in(memory.claim))
        self.postings.add(row, fields_of(memory))
        self._written.update(_names(memory))
        for each in named_in(memory.claim):
            self._name(each.name, 1)
        for old in self._awaited.pop(memory.id, ()):
            self._successions.add(old, row)
        self._succeed(row, memory.replaced_by)
        return row

    def _leave(self, row: int, before: Memory) -> None:
        self._erased[row] = True
        self._living -= 1
        self._words.pop(row, None)
        self.postings.remove(row, fields_of(before))
        self._written.subtract(_names(before))
        for each in named_in(before.claim):
            self._name(each.name, -1)
        self.entities.remove(row)
        self._texts.blank(row)
        self._successions.drop(row)
        for name in before.replaced_by:
            if row in self._awaited.get(name, ()):
                self._awaited[name].remove(row)
        self.links.remove(row)
        for matrix in self.matrices.values():
            matrix.clear(row)

    def _name(self, name: str, more: int) -> None:
        """Count a name of an entity in or out; `names` holds it as long as any memory does."""
        pair = name, same_text(name)
        before, after = self._named[pair], self._named[pair] + more
        self._named[pair] = after
        if not after:
            del self._named[pair]
            self.names.remove(*pair)
        elif not before:
            self.names.add(*pair)


def fields_of(memory: Memory) -> tuple[list[str], list[str], list[str], list[str]]:
    """The words a memory is found by: of what, of why, of how, and of all the rest."""
    claim = memory.claim
    names = (each.name for each in claim.entities)
    rest = (claim.who, claim.where, claim.when, *names, claim.subject, claim.field)
    return (
        _telling((claim.what,)),
        _telling((claim.why,)),
        _telling((claim.how,)),
        _telling(rest),
    )


def indexed_words(memory: Memory) -> Sequence[str]:
    """The words a memory is found by."""
    return [word for field in fields_of(memory) for word in field]


def _telling(parts: Iterable[str]) -> list[str]:
    return [word for part in parts if part for word in words(part) if word not in STOP_WORDS]


def _names(memory: Memory) -> Iterable[str]:
    claim = memory.claim
    text = fold(" ".join((claim.what, claim.why, claim.how)))
    written = (match[0] for match in _NAME.finditer(text))
    declared = (each.name for each in claim.entities)
    return _telling((*written, *declared))
