"""Reading one text for the guard, from its first token to its last."""

from __future__ import annotations

import re
from dataclasses import replace

from mnemo_mcp.guard.lexicon import script_of
from mnemo_mcp.guard.lexing import Token
from mnemo_mcp.guard.meanings import Meanings
from mnemo_mcp.guard.quantities import UNSPACED
from mnemo_mcp.guard.reading import Item, Reading, Turn
from mnemo_mcp.guard.stems import bare_korean

_UNKNOWN_RUN = 3  # characters of a script without spaces that pass for one word
_KATAKANA = re.compile("[\u30a1-\u30ff]+")
_HANGUL = re.compile("[\uac00-\ud7af]+")


def read(text: str) -> Reading:
    """Read any text."""
    return _Reader(text).read()


class _Reader(Meanings):
    """Takes each token by its kind; scripts without spaces are taken apart by the words that are known."""

    def read(self) -> Reading:
        """The whole text."""
        place = 0
        while place < len(self._tokens):
            place = self._take(place)
        self._end_reason(len(self._tokens))
        self.reading.turns = _focused(self.reading, self._language)
        return self.reading

    def _take(self, place: int) -> int:
        token = self._tokens[place]
        if place == self._measured:
            return place + 1
        if token.kind == "word":
            return self._word(place, token)
        if token.kind == "number":
            return self._number(place, token)
        if token.kind == "unspaced":
            return self._unspaced(place, token)
        if token.kind == "joined":
            return self._joined(place, token)
        if token.kind in ("stop", "pause"):
            self._pause(place, ends=token.kind == "stop")
        elif token.kind == "operator":
            self._operator(place, token)
        elif token.kind == "money":
            return self._money(place, token)
        elif token.kind == "time":
            return self._clock(place, token)
        elif token.kind in ("iso", "numeric", "eastern"):
            if not self._date(place, token):
                self._identifier(place, token)
        elif token.kind in ("identifier", "path", "url", "flag"):
            self._identifier(place, token)
        return place + 1

    def _unspaced(self, place: int, token: Token) -> int:
        text = token.folded
        table = self._tables[script_of(text, self._language)]
        at = 0
        if _HANGUL.fullmatch(text):
            self._hangul(place, text)
            return place + 1
        start = 0
        while at < len(text):
            found = table.starting(text, at)
            if found is None or self._inside_word(text, at, start):
                at += 1
                continue
            self._rest(place, text[start:at])
            meaning, length = found
            self._known(place, token, meaning, text[at : at + length])
            at += length
            start = at
        self._rest(place, text[start:])
        return place + 1

    @staticmethod
    def _inside_word(text: str, at: int, start: int) -> bool:
        """Whether a katakana word goes on here: its middle is no word of its own."""
        return at > start and bool(_KATAKANA.fullmatch(text[at - 1 : at + 1]))

    def _rest(self, place: int, text: str) -> None:
        """What no list knows: katakana and Chinese characters are words, hiragana holds them together."""
        for run in re.findall("[\u30a1-\u30ff]+|[\u3005-\u3007\u3400-\u9fff]+|[\uac00-\ud7af]+", text):
            if len(run) <= _UNKNOWN_RUN or _KATAKANA.fullmatch(run):
                self._item(f"w:{run}", run, "word", place, strong=self._language not in UNSPACED)
            else:
                for start in range(len(run) - 1):
                    self._item(f"w:{run[start : start + 2]}", run[start : start + 2], "word", place)

    def _hangul(self, place: int, text: str) -> None:
        table = self._tables["ko"]
        phrase = table.phrase(self._folded, place)
        meaning = phrase[0] if phrase else table.word(text) or table.word(bare_korean(text))
        if meaning is None:
            bare = bare_korean(text)
            if len(bare) > 1:
                self._item(f"w:{bare}", text, "word", place)
        else:
            self._known(place, self._tokens[place], meaning, text)
        if (meaning is None or meaning.kind != "negation") and re.search(
            "지않|지 않|없[이는다었을]|지못", text
        ):
            self.reading.turns.append(Turn(text, place, self._clause))


def _focused(reading: Reading, language: str) -> list[Turn]:
    """Each negation with the word it falls on: the next one, in Japanese and Korean the one before."""
    backwards = language in ("ja", "ko")
    items = list(reversed(reading.items)) if backwards else reading.items
    turns = list(reversed(reading.turns)) if backwards else reading.turns
    found = []
    at = 0
    for turn in turns:
        while at < len(items) and _passed(items[at], turn, backwards):
            at += 1
        near = items[at] if at < len(items) and items[at].clause == turn.clause else None
        if near is not None or not turn.contrast:  # a contrast with nothing is none: "findet statt"
            found.append(turn if turn.focus or near is None else replace(turn, focus=near.key))
    return list(reversed(found)) if backwards else found


def _passed(item: Item, turn: Turn, backwards: bool) -> bool:
    return item.place > turn.place if backwards else item.place < turn.place
