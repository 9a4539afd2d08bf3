"""Likeness of a claim to what was said: by words, and by meaning where the languages differ."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mnemo_mcp.errors import ModelError
from mnemo_mcp.guard.reader import read
from mnemo_mcp.guard.stems import stem
from mnemo_mcp.ledger.vectors import Vectors
from mnemo_mcp.models.language import is_english
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.settings import Distilling
from mnemo_mcp.words import ACKNOWLEDGEMENTS, is_identifier, telling

_log = logging.getLogger("mnemo")

_MOST_EMBEDDED = 16  # clauses of one line; a vector takes 2 to 4 ms


class Likeness:
    """Compares English claims with clauses in any language."""

    def __init__(self, encoders: EncoderPair, vectors: Vectors, constants: Distilling) -> None:
        self._encoders = encoders
        self._embedding = CachedEmbedding(vectors)
        self._constants = constants

    def alike(self, claim: str, clauses: Sequence[str], *, by_meaning: bool = True) -> list[bool]:
        """Of each clause whether it speaks of what the claim does."""
        mine = content(claim)
        found = [self._by_words(mine, content(clause)) for clause in clauses]
        foreign = [place for place, clause in enumerate(clauses) if not found[place] and _foreign(clause)]
        if foreign:
            anchors = _anchors(claim)
            for place in foreign:
                found[place] = not anchors.isdisjoint(_anchors(clauses[place]))
            rest = [place for place in foreign if by_meaning and not found[place]]
            for place, near in zip(rest, self._by_meaning(claim, [clauses[at] for at in rest]), strict=True):
                found[place] = near
        return found

    def supports(self, part: str, texts: Sequence[str]) -> bool:
        """Whether texts hold what a part of a claim says: half of its words, or its meaning."""
        mine = content(part)
        theirs = {word for text in texts for word in content(text)}
        if len(mine & theirs) >= self._constants.words_supporting * len(mine):
            return True
        foreign = [text for text in texts if _foreign(text)]
        return bool(foreign) and any(self.alike(part, foreign))

    def _by_words(self, mine: frozenset[str], theirs: frozenset[str]) -> bool:
        fewer = min(len(mine), len(theirs))
        return fewer > 0 and len(mine & theirs) >= self._constants.words_alike * fewer

    def _by_meaning(self, claim: str, clauses: Sequence[str]) -> list[bool]:
        """By the encoder that reads other languages; without one the model's word for it must do."""
        encoder = self._encoders.for_question(clauses[0]) if clauses else None
        if encoder is None or len(clauses) > _MOST_EMBEDDED:
            return [encoder is None] * len(clauses)
        try:
            vectors = self._embedding.get(encoder, [claim, *clauses])
        except ModelError as error:
            _log.warning("claims are compared by words alone: %s", error)
            return [True] * len(clauses)
        return [float(each @ vectors[0]) >= self._constants.meaning_alike for each in vectors[1:]]


def content(text: str) -> frozenset[str]:
    """The stems of the words that say what a text is about."""
    return frozenset(stem(word, "en") for word in telling(text) if word not in ACKNOWLEDGEMENTS)


def _foreign(text: str) -> bool:
    """Whether a text is in another language than a claim; of a few bare words nothing shows it."""
    return not text.isascii() or not (is_english(text) or len(text.split()) < 4)


def _anchors(text: str) -> frozenset[str]:
    """What is written alike in every language: names, identifiers, figures."""
    reading = read(text)
    named = {item.key for item in reading.items if item.kind == "name"}
    exact = {word for word in telling(text) if is_identifier(word)}
    capital = {word.strip(".,;:()'\"").casefold() for word in text.split()[1:] if word[:1].isupper()}
    return frozenset(named | exact | {word for word in capital if len(word) > 2})
