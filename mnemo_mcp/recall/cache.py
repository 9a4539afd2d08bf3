"""Caches of recall: vectors of questions, and answers as long as nothing that bears on them has changed.

An answer is kept under everything that decides it, the state of the store among it, so that whatever is
written makes every older answer unreachable. Several who ask the same at once wait for one of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from mnemo_mcp.guard import may_be_same
from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.memory import Instant
from mnemo_mcp.recall.answer import Answer

_VECTORS = 512  # 2 KB each
_ANSWERS = 256
_LONGEST = 250_000  # characters of an answer's texts that are kept
_PATIENCE_SECONDS = 30.0


class QuestionVectors:
    """The latest questions' vectors, by encoder and text: reading a question is most of an answer's time."""

    def __init__(self, most: int = _VECTORS) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], Floats] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, encoder: str, text: str, embed: Callable[[], Floats]) -> Floats:
        """The vector of a question, made by `embed` where it is not at hand. Raises what `embed` raises."""
        key = encoder, text
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        vector = embed()
        with self._lock:
            self._kept[key] = vector
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return vector


@dataclass(frozen=True, slots=True)
class Asking:
    """A question with what decides its answer: `scope` is everything but its words."""

    text: str
    scope: Hashable
    now: Instant


@dataclass(slots=True)
class _Entry:
    """An answer that is being made, or was; it holds until an instant."""

    text: str
    made: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None
    since: Instant = ""
    until: Instant = ""
    vector: Floats | None = None

    def serves(self, now: Instant) -> bool:
        return self.answer is not None and self.since <= now < self.until


class Answers:
    """Answers by question and scope.

    `likeness` is the least cosine at which the answer to another question serves, and only where the guard
    sees no difference between the two; above 1 none ever does.
    """

    def __init__(self, likeness: float, most: int = _ANSWERS, patience: float = _PATIENCE_SECONDS) -> None:
        self._likeness = likeness
        self._most = most
        self._patience = patience
        self._entries: OrderedDict[tuple[Hashable, str], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asking: Asking, build: Callable[[], tuple[Answer, Instant]]) -> Answer:
        """The answer at hand, or the one `build` gives with the instant until which it holds.

        One caller builds, the others wait for it; where it fails, or takes too long, each builds its own.
        """
        key = asking.scope, asking.text
        while True:
            with self._lock:
                entry = self._entries.get(key)
                if entry is not None and entry.made.is_set() and not entry.serves(asking.now):
                    del self._entries[key]
                    entry = None
                if entry is None:
                    mine = self._entries[key] = _Entry(asking.text)
                    break
                self._entries.move_to_end(key)
            if not entry.made.wait(self._patience):
                return build()[0]
            if entry.serves(asking.now) and entry.answer is not None:
                return entry.answer
        return self._built(key, mine, asking, build)

    def near(self, asking: Asking, vector: Floats) -> Answer | None:
        """The answer to a question that means the same, in the same scope."""
        if self._likeness > 1:
            return None
        for entry in self._of(asking.scope):
            if (
                entry.vector is not None
                and entry.serves(asking.now)
                and float(entry.vector @ vector) >= self._likeness
                and may_be_same(entry.text, asking.text)
            ):
                return entry.answer
        return None

    def remember_vector(self, asking: Asking, vector: Floats) -> None:
        """Let the answer of a question be found by questions that mean the same."""
        with self._lock:
            entry = self._entries.get((asking.scope, asking.text))
            if entry is not None:
                entry.vector = vector

    def _of(self, scope: Hashable) -> Sequence[_Entry]:
        with self._lock:
            return [entry for (of, _), entry in self._entries.items() if of == scope]

    def _built(
        self,
        key: tuple[Hashable, str],
        entry: _Entry,
        asking: Asking,
        build: Callable[[], tuple[Answer, Instant]],
    ) -> Answer:
        try:
            answer, until = build()
            if _worth_keeping(answer):
                entry.since, entry.until, entry.answer = asking.now, until, answer
            return answer
        finally:
            with self._lock:
                if entry.answer is None and self._entries.get(key) is entry:
                    del self._entries[key]
                while len(self._entries) > self._most:
                    self._entries.popitem(last=False)
            entry.made.set()


def _worth_keeping(answer: Answer) -> bool:
    """Empty answers, huge ones and those a channel is missing from are not kept."""
    if answer.failed:
        return False
    if not answer.memories and all(each.weak for each in answer.episodes):
        return False
    texts = (each.memory.claim.text() for each in answer.memories)
    return sum(map(len, texts)) + sum(len(each.passage) for each in answer.episodes) <= _LONGEST
