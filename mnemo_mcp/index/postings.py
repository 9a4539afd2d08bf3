"""Words: BM25 over postings that grow with each memory, so that nothing is ever rebuilt in a request's way.

bm25s, which the scores are checked against in the tests, cannot add a document to an index.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

K1 = 1.2
B = 0.4  # memories are short: full length normalisation (0.75) found less on the question sets
BACKGROUND = 50  # as if so many other memories existed: a store of three weighs words like a store of fifty


class Postings:
    """Term -> documents with counts; a document is a row number of the index.

    Words are weighed as if `background` further documents held none of them.
    """

    def __init__(self, background: int = BACKGROUND) -> None:
        self._background = background
        self._docs: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = array("I")
        self._total = 0
        self._filled = 0

    def add(self, doc: int, words: Iterable[str]) -> None:
        """Enter a document; rows must come in rising order."""
        counts = Counter(words)
        while len(self._lengths) <= doc:
            self._lengths.append(0)
        self._lengths[doc] = sum(counts.values())
        self._total += self._lengths[doc]
        self._filled += 1
        for word, count in counts.items():
            if word not in self._docs:
                self._docs[word], self._counts[word] = array("I"), array("H")
            self._docs[word].append(doc)
            self._counts[word].append(min(count, 65_535))

    def remove(self, doc: int, words: Iterable[str]) -> None:
        """Take a document out again, and every word that only it held."""
        for word in set(words):
            place = self._docs[word].index(doc)
            self._docs[word].pop(place)
            self._counts[word].pop(place)
            if not self._docs[word]:
                del self._docs[word], self._counts[word]
        self._total -= self._lengths[doc]
        self._lengths[doc] = 0
        self._filled -= 1

    def frequency(self, word: str) -> int:
        """In how many documents the word occurs."""
        return len(self._docs.get(word, ()))

    def weight(self, word: str) -> float:
        """How much a word tells (idf): the rarer the more."""
        known = self.frequency(word)
        return math.log(1 + (self._filled + self._background - known + 0.5) / (known + 0.5))

    def scores(self, words: Sequence[str], size: int) -> tuple[Floats, Floats]:
        """BM25 of every row, and which share of the question's weight each row's words cover (0..1)."""
        scores = np.zeros(size, np.float32)
        covered = np.zeros(size, np.float32)
        weights = {word: self.weight(word) for word in words}
        average = self._total / self._filled if self._filled else 1.0
        lengths = np.frombuffer(self._lengths, np.uint32) if self._lengths else np.zeros(0, np.uint32)
        for word, weight in weights.items():
            if word in self._docs:
                docs = np.frombuffer(self._docs[word], np.uint32)
                counts = np.frombuffer(self._counts[word], np.uint16).astype(np.float32)
                norm = K1 * (1 - B + B * lengths[docs] / average)
                scores[docs] += weight * counts * (K1 + 1) / (counts + norm)
                covered[docs] += weight
        return scores, covered / (sum(weights.values()) or 1.0)

    def holds(self, word: str, doc: int) -> bool:
        """Whether a row holds a word."""
        docs = self._docs.get(word, ())
        place = bisect_left(docs, doc)
        return place < len(docs) and docs[place] == doc
