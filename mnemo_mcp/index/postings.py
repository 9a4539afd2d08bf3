"""Words: BM25 over four fields, touching only documents that hold a word of the question.

bm25s, which the scores are checked against in the tests, cannot add a document to an index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Keys, Mask, Rows, best, grown
from mnemo_mcp.index.sealed import FIELDS, Codes, Docs, Growing, Sealed, code, decoded

WHAT, WHY, HOW, REST = range(FIELDS)
Boosts = tuple[float, float, float, float]
EVEN: Boosts = (1.0, 1.0, 1.0, 1.0)

K1 = 1.2
B = 0.4  # memories are short: full length normalisation (0.75) found less on the question sets
BACKGROUND = 50  # as if so many other memories existed: a store of three weighs words like a store of fifty

_LONG = 2_048  # documents; with so many to come it pays to look whether they can matter
_BIG = 20_000  # documents; in a store beyond, a word in a fifth of them finds none by itself
_COMMON = 5
_TABLES = 16


@dataclass(frozen=True, slots=True)
class Frozen:
    """Postings as they were: sealed ones, newer ones, documents taken out, and the lengths of all."""

    base: Sealed
    newer: Growing
    dead: Sequence[int]
    lengths: Floats

    def sealed(self) -> Sealed:
        merged = self.base.with_newer(self.newer)
        return merged.without(np.array(self.dead, np.int64)) if self.dead else merged


class Postings:
    """Term -> documents with counts by field; a document is a row number of the index.

    Words are weighed as if `background` further documents held none of them. `ties` gives documents the
    keys by which equal scores are ordered.
    """

    def __init__(
        self,
        background: int = BACKGROUND,
        ties: Callable[[Rows], Keys | Rows] | None = None,
        saved: tuple[Sealed, Floats] | None = None,
    ) -> None:
        self._background = background
        self._ties = ties or (lambda rows: rows)
        self._sealed, self._lengths = saved or (Sealed.empty(), np.zeros(0, np.float32))
        self._sealing = Growing()
        self._growing = Growing()
        self._sums = np.zeros(0, np.float32)
        self._size = len(self._lengths)
        living = np.isfinite(self._lengths)
        self._total = int(self._lengths[living].sum(dtype=np.float64))
        self._filled = int(np.count_nonzero(living))
        self._gone: Counter[str] = Counter()
        self._dead: dict[int, frozenset[str]] = {}
        self._tables: dict[Boosts, Floats] = {}

    def add(self, doc: int, fields: Sequence[Iterable[str]]) -> None:
        """Enter a document; documents come in rising order."""
        counts: dict[str, list[int]] = {}
        length = 0
        for field, words in enumerate(fields):
            for word in words:
                counts.setdefault(word, [0] * FIELDS)[field] += 1
                length += 1
        for word, each in counts.items():
            self._growing.add(word, doc, code(each))
        self._lengths = grown(self._lengths, doc + 1)
        self._lengths[doc] = length
        self._size = doc + 1
        self._total += length
        self._filled += 1

    def remove(self, doc: int, fields: Sequence[Iterable[str]]) -> None:
        """Take a document out again."""
        self._dead[doc] = frozenset(word for words in fields for word in words)
        self._gone.update(self._dead[doc])
        self._total -= int(self._lengths[doc])
        self._lengths[doc] = np.inf  # so long a document scores nothing
        self._filled -= 1

    def frequency(self, word: str) -> int:
        """In how many documents the word occurs."""
        return sum(part.frequency(word) for part in self._parts()) - self._gone.get(word, 0)

    def weight(self, word: str) -> float:
        """How much a word tells (idf): the rarer the more."""
        known = self.frequency(word)
        return math.log(1 + (self._filled + self._background - known + 0.5) / (known + 0.5))

    def holds(self, word: str, doc: int) -> bool:
        """Whether a document holds a word."""
        return bool(self.held([word], np.array([doc]))[0, 0])

    def held(self, words: Sequence[str], rows: Rows) -> Mask:
        """Which of some documents hold which word: a line for each word."""
        found = np.zeros((len(words), len(rows)), np.bool_)
        living = ~np.isin(rows, list(self._dead)) if self._dead else True
        for line, word in enumerate(words):
            found[line] = (self._codes(word, rows) > 0) & living
        return found

    def scores(self, words: Sequence[str], boosts: Any, rows: Any = None) -> Any:
        """The score of some documents."""
        if rows is None:
            return self._everywhere(words, boosts)
        found = np.zeros(len(rows), np.float32)
        for word in dict.fromkeys(words):
            codes = self._codes(word, rows)
            found += self._impact(word, rows, codes, boosts)
        return found

    def search(self, words: Sequence[str], boosts: Boosts, allowed: Mask, depth: int) -> tuple[Rows, Floats]:
        """The `depth` best of the allowed documents that hold any of the words, best first."""
        known = sorted((word for word in dict.fromkeys(words) if self.frequency(word)), key=self.frequency)
        self._sums = grown(self._sums, self._size)
        touched: list[Rows] = []
        try:
            rows, left = self._gathered(known, boosts, allowed, depth, touched)
            values = self._sums[rows]
            for word in left:
                values += self._impact(word, rows, self._codes(word, rows), boosts)
        finally:
            for part in touched:
                self._sums[part] = 0.0
        places = best(values, self._ties(rows), depth)
        return rows[places], values[places]

    def freeze(self) -> Frozen:
        """All of it by now, for sealing and saving outside of anybody's way."""
        self._sealing.take(self._growing)
        self._growing = Growing()
        return Frozen(self._sealed, self._sealing, tuple(self._dead), self._lengths[: self._size].copy())

    def adopt(self, frozen: Frozen, sealed: Sealed) -> None:
        """Answer from what `frozen` was sealed to meanwhile."""
        self._sealed, self._sealing = sealed, Growing()
        for doc in frozen.dead:
            self._gone.subtract(self._dead.pop(doc))
        self._gone = +self._gone

    def _everywhere(self, words: Sequence[str], size: int) -> tuple[Floats, Floats]:
        rows = np.arange(size)
        weights = np.array([self.weight(word) for word in words], np.float32)
        covered = weights @ self.held(words, rows).astype(np.float32)
        return self.scores(words, EVEN, rows), np.asarray(covered / (weights.sum() or 1.0), np.float32)

    def _gathered(
        self, words: Sequence[str], boosts: Boosts, allowed: Mask, depth: int, touched: list[Rows]
    ) -> tuple[Rows, Sequence[str]]:
        """Documents that may be among the best with their scores so far in `_sums`, and the words left.

        The rarest words come first. Once so many documents score more than all words left could give
        together, no further document can be among the best, and long lists need not be gone through.
        """
        bounds = [*np.cumsum([(K1 + 1) * self.weight(word) for word in reversed(words)])[::-1].tolist(), 0.0]
        for place, word in enumerate(words):
            many = self.frequency(word)
            if many > _LONG and touched:
                rows = np.concatenate(touched)
                sums = self._sums[rows]
                least = float(np.partition(sums, -depth)[-depth]) if len(rows) >= depth else -1.0
                common = self._filled > _BIG and many > self._filled // _COMMON
                if common or least > bounds[place]:
                    return rows[sums + bounds[place] >= least], words[place:]
            for part in self._parts():
                docs, codes = part.of(word)
                inside = allowed[docs]
                docs, codes = docs[inside], codes[inside]
                impact = self._impact(word, docs, codes, boosts)
                docs, impact = docs[impact > 0], impact[impact > 0]
                touched.append(docs[self._sums[docs] == 0].astype(np.int64))
                self._sums[docs] += impact
        return (np.concatenate(touched) if touched else NO_ROWS), ()

    def _impact(self, word: str, docs: Docs | Rows, codes: Codes, boosts: Boosts) -> Floats:
        counts = self._table(boosts)[codes]
        average = self._total / self._filled if self._filled else 1.0
        norm = self._lengths[docs] * np.float32(K1 * B / (average or 1.0)) + np.float32(K1 * (1 - B))
        gain = counts / (counts + norm)
        return np.asarray(gain * ((K1 + 1) * self.weight(word)), np.float32)

    def _codes(self, word: str, rows: Rows) -> Codes:
        """The code of a word in some documents, 0 where they do not hold it."""
        found = np.zeros(len(rows), np.uint16)
        for part in self._parts():
            docs, codes = part.of(word)
            if len(docs):
                places = np.minimum(docs.searchsorted(rows), len(docs) - 1)
                np.copyto(found, codes[places], where=docs[places] == rows)
        return found

    def _table(self, boosts: Boosts) -> Floats:
        if boosts not in self._tables:
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            self._tables[boosts] = decoded(boosts)
        return self._tables[boosts]

    def _parts(self) -> tuple[Sealed, Growing, Growing]:
        return self._sealed, self._sealing, self._growing
