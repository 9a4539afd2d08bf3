"""Words: BM25 over four fields, touching only documents that hold a word of the question.

bm25s, which the scores are checked against in the tests, cannot add a document to an index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mnemo_mcp.index.arrays import NO_ROWS, Floats, Keys, Mask, Rows, best, grown
from mnemo_mcp.index.sealed import FIELDS, Codes, Growing, Sealed, code, decoded

WHAT, WHY, HOW, REST = range(FIELDS)
Boosts = tuple[float, float, float, float]
EVEN: Boosts = (1.0, 1.0, 1.0, 1.0)

K1 = 1.2
B = 0.4  # memories are short: full length normalisation (0.75) found less on the question sets
BACKGROUND = 50  # as if so many other memories existed: a store of three weighs words like a store of fifty

_LONG = 2_048  # documents; with so many to come it pays to look whether they can matter
_MOST = 65_536  # documents of all words that are gone through to find others
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
        self._norm: Floats | None = None
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
        self._norm = None
        self._size = doc + 1
        self._total += length
        self._filled += 1

    def remove(self, doc: int, fields: Sequence[Iterable[str]]) -> None:
        """Take a document out again."""
        self._norm = None
        self._dead[doc] = frozenset(word for words in fields for word in words)
        self._gone.update(self._dead[doc])
        self._total -= int(self._lengths[doc])
        self._lengths[doc] = np.inf  # so long a document scores nothing
        self._filled -= 1

    def frequency(self, word: str) -> int:
        """In how many documents the word occurs."""
        known = self._sealed.frequency(word) + self._sealing.frequency(word) + self._growing.frequency(word)
        return known - self._gone[word] if self._gone else known

    def weight(self, word: str) -> float:
        """How much a word tells (idf): the rarer the more."""
        return self.telling(self.frequency(word))

    def telling(self, known: int) -> float:
        """How much a word tells that so many documents hold."""
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

    def scores(self, words: Sequence[str], boosts: Boosts, rows: Rows) -> Floats:
        """The score of some documents."""
        found = np.zeros(len(rows), np.float32)
        for word in dict.fromkeys(words):
            gain = (K1 + 1) * self.weight(word)
            found += self._impact(gain, rows, self._codes(word, rows), boosts)
        return found

    def search(self, words: Sequence[str], boosts: Boosts, allowed: Mask, depth: int) -> tuple[Rows, Floats]:
        """The `depth` best of the allowed documents that hold any of the words, best first.

        In a large store, words of very many documents are only looked at in those that hold a rarer one.
        """
        self._sums = grown(self._sums, self._size)
        counted = ((word, self.frequency(word)) for word in dict.fromkeys(words))
        asked = sorted((many, word) for word, many in counted if many > 0)
        touched: list[Rows] = []
        try:
            self._gather(asked, boosts, allowed, depth, touched)
            rows = np.concatenate(touched) if touched else NO_ROWS
            values = self._sums[rows]
        finally:
            for part in touched:
                self._sums[part] = 0.0
        if 0 in boosts:  # a document that a word told nothing of was taken for an untouched one
            rows, first = np.unique(rows, return_index=True)
            values = values[first]
        if self._dead or 0 in boosts:
            rows, values = rows[values > 0], values[values > 0]
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

    def _gather(
        self, asked: Sequence[tuple[int, str]], boosts: Boosts, allowed: Mask, depth: int, touched: list[Rows]
    ) -> None:
        """Sum up scores in `_sums`, the rarest words first; `touched` are the documents found.

        Once so many documents score more than all words to come could give together, or so long lists have
        been gone through, no further document is taken in.
        """
        gains = [(K1 + 1) * self.telling(many) for many, _ in asked]
        to_come = np.cumsum(gains[::-1])[::-1].tolist()
        everywhere = bool(allowed.all())
        found = gone_through = 0
        least = 0.0
        closed = False
        for place, ((many, word), gain) in enumerate(zip(asked, gains, strict=True)):
            if not closed and many > _LONG and found >= depth:
                much = found >= 4 * depth and gone_through + many > _MOST
                if much or to_come[0] > 2 * to_come[place]:
                    sums = self._sums[np.concatenate(touched)]
                    least = float(np.partition(sums, -depth)[-depth]) - to_come[place]
                    closed = much or least > 0
            gone_through += many
            for part in self._parts():
                docs, codes = part.of(word)
                if not len(docs):
                    continue
                rows = docs.astype(np.int64)
                if closed or not everywhere:
                    inside = self._sums[rows] > max(least, 0.0) if closed else allowed[rows]
                    rows, codes = rows[inside], codes[inside]
                before: Floats = self._sums[rows]
                if not closed:
                    touched.append(rows[before == 0])
                    found += len(touched[-1])
                self._sums[rows] = before + self._impact(gain, rows, codes, boosts)

    def _impact(self, gain: float, docs: Rows, codes: Codes, boosts: Boosts) -> Floats:
        counts = self._table(boosts)[codes]
        return np.asarray(counts / (counts + self._norms()[docs]) * np.float32(gain), np.float32)

    def _norms(self) -> Floats:
        """What the length of each document makes of its counts."""
        if self._norm is None:
            average = (self._total / self._filled if self._filled else 0.0) or 1.0
            self._norm = self._lengths * np.float32(K1 * B / average) + np.float32(K1 * (1 - B))
        return self._norm

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
