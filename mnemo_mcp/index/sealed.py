"""Postings that do not change any more: all words' documents in two arrays, one after the other."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.uint32]
Codes = npt.NDArray[np.uint16]

FIELDS = 4
MOST = 15
"""How often a word is counted in one field: four bits each. BM25 hardly tells more from more."""


class Growing:
    """Postings of the newest documents, word by word."""

    def __init__(self) -> None:
        self.docs: dict[str, array[int]] = {}
        self.codes: dict[str, array[int]] = {}

    def add(self, word: str, doc: int, code: int) -> None:
        if word not in self.docs:
            self.docs[word], self.codes[word] = array("I"), array("H")
        self.docs[word].append(doc)
        self.codes[word].append(code)

    def take(self, newer: Growing) -> None:
        """Take in the postings of newer documents."""
        for word, docs in newer.docs.items():
            self.docs.setdefault(word, array("I")).extend(docs)
            self.codes.setdefault(word, array("H")).extend(newer.codes[word])

    def of(self, word: str) -> tuple[Docs, Codes]:
        if word not in self.docs:
            return _NONE
        return np.array(self.docs[word], np.uint32), np.array(self.codes[word], np.uint16)

    def frequency(self, word: str) -> int:
        return len(self.docs.get(word, ()))


class Sealed:
    """Documents of each word in rising order, with how often it stands in each of their fields."""

    def __init__(
        self, words: Mapping[str, int], starts: npt.NDArray[np.int64], docs: Docs, codes: Codes
    ) -> None:
        self.words = words
        self.starts = starts
        self.docs = docs
        self.codes = codes

    @classmethod
    def empty(cls) -> Sealed:
        return cls({}, np.zeros(1, np.int64), *_NONE)

    def of(self, word: str) -> tuple[Docs, Codes]:
        number = self.words.get(word)
        if number is None:
            return _NONE
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        return self.docs[part], self.codes[part]

    def frequency(self, word: str) -> int:
        number = self.words.get(word)
        return 0 if number is None else int(self.starts[number + 1] - self.starts[number])

    def with_newer(self, newer: Growing) -> Sealed:
        """These and the postings of newer documents, all of which have higher numbers."""
        words = dict(self.words)
        numbers = np.array([words.setdefault(word, len(words)) for word in newer.docs], np.int64)
        order = np.argsort(numbers)
        names = list(newer.docs)
        lists: Sequence[str] = [names[place] for place in order]
        added = np.zeros(len(words), np.int64)
        added[numbers[order]] = [len(newer.docs[word]) for word in lists]
        ends = np.append(self.starts[1:], np.full(len(words) - len(self.words), self.starts[-1]))
        places = np.repeat(ends, added)
        docs = np.insert(self.docs, places, _joined([newer.docs[word] for word in lists], np.uint32))
        codes = np.insert(self.codes, places, _joined([newer.codes[word] for word in lists], np.uint16))
        return Sealed(words, np.append(0, ends + np.cumsum(added)), docs, codes)

    def without(self, dead: npt.NDArray[np.int64]) -> Sealed:
        """These less some documents, and less every word that only they held."""
        kept = ~np.isin(self.docs, dead)
        counts = np.diff(np.append(0, np.cumsum(kept))[self.starts])
        names = sorted(self.words, key=self.words.__getitem__)
        words = {name: number for number, name in enumerate(np.array(names, object)[counts > 0])}
        return Sealed(words, np.append(0, np.cumsum(counts[counts > 0])), self.docs[kept], self.codes[kept])


def code(counts: Sequence[int]) -> int:
    """The counts of a word in the fields, four bits each."""
    return sum(min(count, MOST) << 4 * field for field, count in enumerate(counts))


def decoded(boosts: Sequence[float]) -> npt.NDArray[np.float32]:
    """For every code, the sum of its counts times the boosts of their fields."""
    codes = np.arange(1 << 4 * FIELDS)
    parts = [boost * (codes >> 4 * field & MOST) for field, boost in enumerate(boosts)]
    return np.asarray(sum(parts), np.float32)


def _joined(parts: Sequence[array[int]], kind: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    return np.frombuffer(b"".join(part.tobytes() for part in parts), kind)


_NONE: tuple[Docs, Codes] = (np.zeros(0, np.uint32), np.zeros(0, np.uint16))
