"""One pass over the tokens of a text: where it stands, and noting down what it sees."""

from __future__ import annotations

from mnemo_mcp.guard.lexicon import Meaning, Table, language_of, lexicon, simple
from mnemo_mcp.guard.lexing import tokens
from mnemo_mcp.guard.reading import Item, Mark, Reading

_SHORTEST_PLURAL = 4  # letters


class Scan:
    """The state of the pass; what is done at each token is for the classes above it."""

    def __init__(self, text: str) -> None:
        self._language = language_of(text)
        known = lexicon()
        self._tables = known.general
        self._general: Table = known.general[self._language]
        self._figures: Table = known.figures[self._language]
        self._english_figures: Table = known.figures["en"]
        self._common: Table = known.common
        self._tokens = tokens(text)
        self._folded = [token.folded for token in self._tokens]
        self._memo: dict[str, Meaning | None] = {}
        self._clause = 0
        self._role = ""
        self._glued = False
        self._reason: int | None = None
        self._measured = -1  # the place of a unit that its number in words has taken
        self.reading = Reading(self._language)

    def _pause(self, place: int, *, ends: bool) -> None:
        self._clause += 1
        self._role, self._glued = "", False
        if ends:
            self._end_reason(place)

    def _end_reason(self, place: int) -> None:
        if self._reason is not None:
            self.reading.reasons.append((self._reason, place))
            self._reason = None

    def _meaning(self, word: str) -> Meaning | None:
        if word not in self._memo:
            found = self._general.word(word) or self._common.word(word)
            if found is None and word.endswith("s") and len(word) > _SHORTEST_PLURAL:
                found = self._common.word(word[:-1]) or self._common.word(word.removesuffix("es"))
            self._memo[word] = found
        return self._memo[word]

    def _unit(self, word: str) -> str | None:
        for table in (self._figures, self._english_figures):
            meaning = table.word(word)
            if meaning is not None and meaning.kind == "unit":
                return meaning.value
        return None

    def _mark(self, kind: str, value: str, text: str, place: int) -> None:
        self.reading.marks.append(Mark(kind, value, text, place))

    def _made(self, key: str, text: str, kind: str, place: int) -> Item:
        return Item(key, text, kind, place, self._clause, self._role, glued=self._glued)

    def _item(
        self, key: str, text: str, kind: str, place: int, *, strong: bool = False, weak: bool = False
    ) -> None:
        if self._glued and not self._role and self.reading.items:
            self._role = self.reading.items[-1].role
        self.reading.items.append(
            Item(key, text, kind, place, self._clause, self._role, strong, weak, self._glued, simple(text))
        )
        self._role, self._glued = "", True
