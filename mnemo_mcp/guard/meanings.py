"""Words among the tokens of a text: what they turn, bound or name, or what they say it is about."""

from __future__ import annotations

from mnemo_mcp.guard.lexicon import Meaning
from mnemo_mcp.guard.lexing import Token
from mnemo_mcp.guard.moments import Moments
from mnemo_mcp.guard.quantities import Quantities
from mnemo_mcp.guard.reading import DENIABLE, JOINED, Turn
from mnemo_mcp.guard.stems import stem

_OPERATORS = {"<": "below", ">": "above", "<=": "max", "≤": "max", ">=": "min", "≥": "min", "≈": "about"}
_ENGLISH_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_SPACED_THOUSANDS = frozenset({"fr", "ru", "es", "pt", "it", "de"})
_ARTICLES = """
    the a an this that these those its our their el la los las un una lo su le les l une der die das den dem
    des ein eine einen einem einer o os as um uma il gli i 的 了
"""
_DETERMINERS = frozenset(_ARTICLES.split())
_CHOICE_REACH = 6  # tokens between "chose" and "over"
_SHORT_NAMES = (2, 3)  # letters


class Meanings(Moments, Quantities):
    """Notes words, identifiers and numbers."""

    def _word(self, place: int, token: Token) -> int:
        if (day := self._month_first(place, token)) is not None:
            return day
        found = self._general.phrase(self._folded, place) or self._common.phrase(self._folded, place)
        meaning, length = found or (self._meaning(token.folded), 1)
        self.reading.every_word[token.folded] += 1
        if self._is_choice_over(place, token):
            meaning = Meaning("negation", "contrast")
        if meaning is None or self._is_named(token, meaning):
            self._unknown(place, token)
        else:
            self._known(
                place, token, meaning, " ".join(each.text for each in self._tokens[place : place + length])
            )
        return place + length

    def _is_choice_over(self, place: int, token: Token) -> bool:
        if token.folded != "over" or self._language != "en":
            return False
        near = self.reading.items[-_CHOICE_REACH:]
        return any(item.key in ("p:stage+", "c:prefer") and item.clause == self._clause for item in near)

    def _is_named(self, token: Token, meaning: Meaning) -> bool:
        """`IT` and `US`, and within a sentence `Go` and `Max`, are names and no function words."""
        text = token.text
        if meaning.kind not in ("light", "bound") or len(text) not in _SHORT_NAMES or not text.isalpha():
            return False
        return text.isupper() or (text.istitle() and not token.initial and self._language != "de")

    def _known(self, place: int, token: Token, meaning: Meaning, text: str) -> None:
        kind, value = meaning.kind, meaning.value
        if kind == "negation":
            self.reading.turns.append(Turn(text, place, self._clause, contrast=value == "contrast"))
            self._glued = False
        elif kind in ("light", "tense", "idle", "reason", "join"):
            self._function_word(place, token, kind, value, text)
        elif kind == "number":
            self._spelled(place, value, text)
        elif kind in ("weekday", "day"):
            self._named_time(place, kind, value, text)
        elif kind in ("bound", "scope", "ordinal", "relative"):
            self._mark(kind, value, text, place)
            self._glued = False
        elif kind == "pole":
            self._pole(place, value, text)
        elif kind == "repeat":
            self._rhythm(place, value, text)
        elif kind == "environment":
            self._mark(kind, value, text, place)
            self._item(f"e:{value}", text, kind, place)
        else:
            key = f"n:{value}" if kind == "name" else f"c:{value}"
            self._item(key, text, kind, place, strong=kind == "name")

    def _function_word(self, place: int, token: Token, kind: str, value: str, text: str) -> None:
        if kind == "reason" and not token.initial:
            self._end_reason(place)
            self._reason = place
        if kind in ("reason", "join"):
            self._clause += 1
        if kind == "tense":
            self._mark(kind, value, text, place)
            self._role = "is"
        elif kind == "join":
            self._role = JOINED
        elif token.folded not in _DETERMINERS:
            self._role = token.folded
        self._glued = False

    def _pole(self, place: int, value: str, text: str) -> None:
        axis, end = value[:-1], value[-1]
        if axis in DENIABLE and end == "-":
            self._deny(place, text, axis)
            value = f"{axis}+"
        self._mark("pole", value, text, place)
        self._item(f"p:{axis}" if axis in DENIABLE else f"p:{value}", text, "pole", place)

    def _deny(self, place: int, text: str, axis: str) -> None:
        """A word that denies; a negation right before it is taken back by it."""
        turns = self.reading.turns
        between = [item for item in self.reading.items if turns and item.place > turns[-1].place]
        if turns and turns[-1].clause == self._clause and not between:
            turns.pop()
        else:
            turns.append(Turn(text, place, self._clause, f"p:{axis}"))

    def _unknown(self, place: int, token: Token) -> None:
        text = token.text
        capital = text[:1].isupper()
        acronym = len(text) > 1 and text.isupper()
        named = (capital and not token.initial and self._language != "de") or acronym
        weak = capital and not named
        if len(text) == 1 and not (text.isupper() and not token.initial):
            if text.isdigit() or self._role == "":
                self._item(f"w:{token.folded}", text, "word", place)
            return
        if len(text) == 1:
            self.reading.identifiers.append(self._made(f"i:{token.folded}", text, "identifier", place))
            return
        key = f"w:{stem(token.folded, self._language)}"
        self._item(key, text, "word", place, strong=named, weak=weak)

    def _operator(self, place: int, token: Token) -> None:
        if token.text in ("!=", "≠"):
            self.reading.turns.append(Turn(token.text, place, self._clause))
        elif bound := _OPERATORS.get(token.text):
            self._mark("bound", bound, token.text, place)

    def _number(self, place: int, token: Token) -> int:
        text, suffix = token.text, token.suffix
        if suffix and not self._is_suffix(suffix):
            self._identifier(place, Token("identifier", text + suffix, (text + suffix).casefold()))
            return place + 1
        if (after := self._day_first(place, token)) is not None:
            return after
        if (after := self._hour(place, token)) is not None:
            return after
        if suffix.casefold() in _ENGLISH_ORDINALS and text.isdigit():
            self._mark("ordinal", str(int(text)), text + suffix, place)
            return place + 1
        if self._language in _SPACED_THOUSANDS and len(text) <= 3 and text.isdigit():
            text, place = self._spaced(text, place)
        return self._figure(place, text, suffix, place + 1, "")

    def _identifier(self, place: int, token: Token) -> None:
        meaning = self._meaning(token.folded) if token.kind == "identifier" else None
        if meaning is not None and meaning.kind in ("name", "concept"):
            self._known(place, token, meaning, token.text)
        elif token.text.isalpha() and token.text[0].isupper():
            self._item(f"w:{token.folded}", token.text, "word", place, strong=True)
        else:
            self.reading.identifiers.append(self._made(f"i:{token.folded}", token.text, "identifier", place))
            self._item(f"i:{token.folded}", token.text, "identifier", place)

    def _joined(self, place: int, token: Token) -> int:
        """Words with hyphens: a phrase that is known, else a name of its own made of parts."""
        parts = token.folded.split("-")
        found = self._general.phrase(parts, 0) or self._common.phrase(parts, 0)
        if found and found[1] == len(parts):
            self._known(place, token, found[0], token.text)
            return place + 1
        whole = self._meaning(token.folded.replace("-", "")) or self._meaning(token.folded)
        if whole is not None and whole.kind in ("concept", "name", "pole"):
            self._known(place, token, whole, token.text)
            return place + 1
        self.reading.joined.append(self._made(f"k:{token.folded}", token.text, "joined", place))
        for part in token.text.split("-"):
            piece = Token("word", part, part.casefold(), token.initial)
            meaning = self._meaning(piece.folded)
            if meaning is None:
                self._unknown(place, piece)
            elif meaning.kind not in ("reason", "join"):
                self._known(place, piece, meaning, part)
        return place + 1
