"""Reading one text for the guard: its figures, dates, identifiers, turns of meaning, and what it is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from mnemo_mcp.guard.calendar import Clock, Day, clock_of, day_of, eastern, numeric
from mnemo_mcp.guard.figures import Figure, decimal, measured, number
from mnemo_mcp.guard.lexicon import Meaning, Table, language_of, lexicon, script_of, simple
from mnemo_mcp.guard.lexing import Token, tokens
from mnemo_mcp.guard.stems import bare_korean, stem

DENIABLE = frozenset({"enable", "allow", "need", "strong", "public", "mutable"})
"""Lines whose marked end denies the plain one: disabled is not enabled."""

_MONEY = {"$": "money-usd:1", "€": "money-eur:1", "£": "money-gbp:1", "¥": "money-jpy:1", "₽": "money-rub:1"}
_ORDINAL_ENDINGS = frozenset({"st", "nd", "rd", "th", "e", "er", "eme", "o", "a", "го", "й"})
_OPERATORS = {"<": "below", ">": "above", "<=": "max", "≤": "max", ">=": "min", "≥": "min", "≈": "about"}
JOINED = "and"
"""The part of a word that is joined to the one before it, in any language."""
_ENGLISH_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_SCALES = {"k": 1000, "K": 1000, "M": 1_000_000, "B": 1_000_000_000, "G": 1_000_000_000}
_SPACED_THOUSANDS = frozenset({"fr", "ru", "es", "pt", "it", "de"})
_DETERMINERS = frozenset(
    """the a an this that these those its our their el la los las un una lo su le les l une der die das den dem
    des ein eine einen einem einer o os as um uma il gli i 的 了""".split()
)
_NOON = 12 * 60 * 60  # seconds
_RATE_REACH = 3  # tokens between a count and its "per minute"
_CHOICE_REACH = 6  # tokens between "chose" and "over"
_SHORTEST_PLURAL = 4  # letters
_SHORT_NAMES = (2, 3)  # letters
_UNKNOWN_RUN = 3  # characters of a script without spaces that pass for one word
_UNSPACED_LANGUAGES = frozenset({"ja", "zh", "ko"})
_KATAKANA = re.compile("[\u30a1-\u30ff]+")
_HIRAGANA = re.compile("[\u3041-\u309f]+")
_HANGUL = re.compile("[\uac00-\ud7af]+")
_MEASURE_WORDS = re.compile("^(?:개|명|대|건|회|번|個|件|台|人|つ|名|本|次|条|位|倍|号|版)")


@dataclass(frozen=True, slots=True)
class Item:
    """A word that says what a text is about. `key` is what is compared."""

    key: str
    text: str
    kind: str
    place: int
    clause: int
    role: str = ""
    strong: bool = False
    weak: bool = False
    glued: bool = False
    form: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A negation, and the word it falls on."""

    text: str
    place: int
    clause: int
    focus: str = ""
    contrast: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of a closed list: a bound, a scope, an end of a line, an environment, an ordinal, a rhythm."""

    kind: str
    value: str
    text: str
    place: int


@dataclass(slots=True)
class Reading:
    """What was seen in one text. Places are those of its tokens."""

    language: str
    figures: list[Figure] = field(default_factory=list)
    days: list[Day] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    identifiers: list[Item] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    joined: list[Item] = field(default_factory=list)
    reasons: list[tuple[int, int]] = field(default_factory=list)
    every_word: Counter[str] = field(default_factory=Counter)

    def of(self, kind: str) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == kind]

    def without_reasons(self) -> Reading:
        """What is claimed, without what it is said to follow from."""
        if not self.reasons:
            return self
        return replace(
            self,
            figures=self._outside(self.figures),
            days=self._outside(self.days),
            clocks=self._outside(self.clocks),
            identifiers=self._outside(self.identifiers),
            turns=self._outside(self.turns),
            marks=self._outside(self.marks),
            items=self._outside(self.items),
            joined=self._outside(self.joined),
            reasons=[],
        )

    def _outside(self, seen: Iterable[_Placed]) -> list[_Placed]:
        return [each for each in seen if not any(start <= each.place < end for start, end in self.reasons)]


_Placed = TypeVar("_Placed", Figure, Day, Clock, Item, Turn, Mark)


def read(text: str) -> Reading:
    """Read any text."""
    return _Reader(text).reading


class _Reader:
    """One pass over the tokens of a text."""

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
        place = 0
        while place < len(self._tokens):
            place = self._take(place)
        self._end_reason(len(self._tokens))
        self.reading.turns = _focused(self.reading, self._language)

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
            self._date(place, token)
        elif token.kind in ("identifier", "path", "url", "flag"):
            self._identifier(place, token)
        return place + 1

    def _pause(self, place: int, *, ends: bool) -> None:
        self._clause += 1
        self._role, self._glued = "", False
        if ends:
            self._end_reason(place)

    def _end_reason(self, place: int) -> None:
        if self._reason is not None:
            self.reading.reasons.append((self._reason, place))
            self._reason = None

    # words

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

    def _meaning(self, word: str) -> Meaning | None:
        if word not in self._memo:
            found = self._general.word(word) or self._common.word(word)
            if found is None and word.endswith("s") and len(word) > _SHORTEST_PLURAL:
                found = self._common.word(word[:-1]) or self._common.word(word.removesuffix("es"))
            self._memo[word] = found
        return self._memo[word]

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

    def _named_time(self, place: int, kind: str, value: str, text: str) -> None:
        if kind == "weekday":
            self.reading.days.append(Day(text, place, weekday=int(value)))
        else:
            self.reading.clocks.append(Clock(_NOON if value == "noon" else 0, text, place))
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

    # identifiers

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

    # scripts without spaces

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
                self._item(f"w:{run}", run, "word", place, strong=self._language not in _UNSPACED_LANGUAGES)
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

    # figures

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

    def _is_suffix(self, suffix: str) -> bool:
        lowered = suffix.casefold()
        return (
            suffix in _SCALES
            or lowered in _ORDINAL_ENDINGS
            or self._unit(lowered) is not None
            or (lowered in ("am", "pm", "h", "x", "mm"))
        )

    def _spaced(self, text: str, place: int) -> tuple[str, int]:
        """`5 000` as it is written in many languages."""
        while (
            place + 1 < len(self._tokens)
            and self._tokens[place + 1].kind == "number"
            and len(self._tokens[place + 1].text) == 3
            and not self._tokens[place + 1].suffix
        ):
            place += 1
            text += self._tokens[place].text
        return text, place

    def _unit(self, word: str) -> str | None:
        for table in (self._figures, self._english_figures):
            meaning = table.word(word)
            if meaning is not None and meaning.kind == "unit":
                return meaning.value
        return None

    def _figure(self, start: int, text: str, suffix: str, after: int, currency: str) -> int:
        """A figure with all that follows it: scale, unit, currency, rhythm."""
        values = number(text, self._language)
        if suffix in _SCALES and values is None:
            values = decimal(text)
        factor, unit, after, written = self._scale(suffix, after)
        if values is None and (unit or currency or factor != 1):
            values = decimal(text)
        if values is None:
            key = text.casefold()
            self.reading.identifiers.append(self._made(f"v:{key}", text, "version", start))
            self._glued = False
            return after
        if start and self._tokens[start - 1].kind == "sign":
            factor, text = -factor, f"-{text}"
        dimension, values = measured(
            frozenset(value * factor for value in values), currency or unit or "count:1"
        )
        self.reading.figures.append(
            Figure(dimension, values, f"{text}{suffix}{' ' if written else ''}{written}", start)
        )
        self._rate_before(start)
        self._glued = False
        return after

    def _rate_before(self, place: int) -> None:
        """`每分钟100`: in scripts without spaces the rhythm comes before its count."""
        marks = self.reading.marks
        if self._language in _UNSPACED_LANGUAGES and marks and marks[-1].kind == "rhythm":
            if place - marks[-1].place <= 1:
                rhythm = marks.pop()
                self.reading.items.pop()
                self._rhythm(place, rhythm.value, rhythm.text)

    def _scale(self, suffix: str, after: int) -> tuple[Fraction, str, int, str]:
        factor, unit, written = Fraction(1), "", ""
        if suffix in _SCALES and suffix != "G":
            return Fraction(_SCALES[suffix]), unit, after, written
        if suffix and (known := self._unit_of(suffix)):
            return factor, known, after, written
        if suffix:
            return factor, unit, after, written
        while after < len(self._tokens):
            token = self._tokens[after]
            if token.kind == "percent":
                return factor, ("ratio:0.01" if token.text == "%" else "degree:1"), after + 1, token.text
            if token.kind == "money":
                return factor, _MONEY[token.text], after + 1, token.text
            if token.kind == "unspaced":
                return self._unspaced_scale(factor, after)
            if token.kind not in ("word", "identifier"):
                break
            if token.text in _SCALES and written == "":
                factor, written, after = factor * _SCALES[token.text], token.text, after + 1
                continue
            meaning = self._figures.word(token.folded) or self._english_figures.word(token.folded)
            if meaning is not None and meaning.kind == "multiplier":
                factor, written, after = factor * Fraction(meaning.value), token.text, after + 1
                continue
            known = self._unit_of(token.text)
            return (factor, known, after + 1, token.text) if known else (factor, unit, after, written)
        return factor, unit, after, written

    def _unit_of(self, word: str) -> str | None:
        """A unit as it is written after a figure; `Mb` is a megabit where `MB` is a megabyte."""
        if word in ("Kb", "kb", "Mb", "Gb") and word != "kb":
            return {"Kb": "bit:1000", "Mb": "bit:1000000", "Gb": "bit:1000000000"}[word]
        if word == "G":
            return "byte:g"
        return self._unit(word.casefold())

    def _unspaced_scale(self, factor: Fraction, place: int) -> tuple[Fraction, str, int, str]:
        """Scale and unit at the head of a run without spaces; what is left of the run is read on."""
        text = self._tokens[place].folded
        unit, at = "", 0
        while found := self._figures.starting(text, at):
            meaning, length = found
            at += length
            if meaning.kind == "multiplier":
                factor *= Fraction(meaning.value)
                continue
            if meaning.kind == "unit":
                unit = meaning.value
            else:
                at -= length
            break
        if not at and (counter := _MEASURE_WORDS.match(text)):
            at = counter.end()
        rest = text[at:]
        if rest and not (_HANGUL.fullmatch(rest) and len(rest) <= 2 and at):
            self._tokens[place] = replace(self._tokens[place], text=rest, folded=rest)
            self._folded[place] = rest
            return factor, unit, place, text[:at]
        return factor, unit, place + 1, text[:at]

    def _spelled(self, place: int, value: str, text: str) -> None:
        """A number in words, with the unit that follows it, which says nothing more."""
        unit, dimension = "", ""
        values = frozenset({Fraction(value)})
        following = self._tokens[place + 1] if place + 1 < len(self._tokens) else None
        if following is not None and following.kind in ("word", "unspaced"):
            meaning = self._figures.word(following.folded) or self._english_figures.word(following.folded)
            if meaning is None and following.kind == "unspaced":
                meaning = (self._figures.starting(following.folded, 0) or (None,))[0]
            if meaning is not None and meaning.kind == "multiplier":
                values = frozenset(each * Fraction(meaning.value) for each in values)
            elif meaning is not None and meaning.kind == "unit":
                unit = meaning.value
        for part in (text[1:], text[-1:]):
            if not unit and self._language in ("ja", "zh") and len(text) > 1:
                starting = self._figures.starting(part, 0)
                unit = starting[0].value if starting and starting[0].kind == "unit" else unit
        if unit:
            dimension, values = measured(values, unit)
            if following is not None and following.kind == "word":
                self._measured = place + 1
        self.reading.figures.append(Figure(dimension, values, text, place))
        self._glued = False

    def _money(self, place: int, token: Token) -> int:
        if place + 1 < len(self._tokens) and self._tokens[place + 1].kind == "number":
            amount = self._tokens[place + 1]
            return self._figure(place + 1, amount.text, amount.suffix, place + 2, _MONEY[token.text])
        return place + 1

    def _rhythm(self, place: int, value: str, text: str) -> None:
        """`per minute` belongs to the count before it; alone it says how often something happens."""
        figures = self.reading.figures
        near = figures and place - figures[-1].place <= _RATE_REACH + 1
        if near and (
            figures[-1].dimension == "" or figures[-1].dimension.startswith(("money", "byte", "bit"))
        ):
            last = figures.pop()
            unit, _, length = value.partition(":")
            rate = frozenset(each / Fraction(length) for each in last.values)
            figures.append(Figure(f"{last.dimension}/{unit}", rate, f"{last.text} {text}", last.place))
        else:
            self._mark("rhythm", value, text, place)
            self._item(f"r:{value}", text, "repeat", place)
        self._glued = False

    # dates and times

    def _date(self, place: int, token: Token) -> None:
        make = {"iso": Day.iso, "numeric": numeric, "eastern": eastern}[token.kind]
        day = make(token.text, place)
        if day is None:
            self._identifier(place, token)
        else:
            self.reading.days.append(day)
        self._glued = False

    def _clock(self, place: int, token: Token) -> int:
        half = self._half(place + 1)
        self.reading.clocks.append(clock_of(token.text, half, place))
        self._glued = False
        return place + (2 if half else 1)

    def _half(self, place: int) -> str:
        """`am` or `pm`, however it is written."""
        if place >= len(self._tokens):
            return ""
        word = self._folded[place].replace(".", "")
        return word if word in ("am", "pm") else ""

    def _hour(self, place: int, token: Token) -> int | None:
        """`4 pm`, `16 Uhr`, `16h`, `16時`."""
        if not token.text.isdigit() or int(token.text[:4]) > 24:
            return None
        half = token.suffix.casefold() if token.suffix.casefold() in ("am", "pm") else self._half(place + 1)
        if not half and place + 1 < len(self._tokens):
            following = self._tokens[place + 1]
            meaning = self._figures.word(following.folded)
            if following.kind == "unspaced":
                meaning = (
                    self._figures.word(following.folded[:1]) if self._language in ("ja", "zh", "ko") else None
                )
                if following.folded[:2] in ("時間", "小时", "시간") or following.folded[:1] == "시":
                    meaning = None if following.folded[:2] in ("時間", "小时", "시간") else meaning
            if meaning is None or meaning.kind != "clock" or meaning.value != "o":
                return None
            self.reading.clocks.append(clock_of(token.text, "", place))
            return self._without_head(place + 1)
        if not half:
            return None
        self.reading.clocks.append(clock_of(token.text, half, place))
        return place + (1 if token.suffix else 2)

    def _without_head(self, place: int) -> int:
        token = self._tokens[place]
        if token.kind != "unspaced" or len(token.folded) == 1:
            return place + 1
        self._tokens[place] = replace(token, text=token.text[1:], folded=token.folded[1:])
        self._folded[place] = token.folded[1:]
        return place

    def _month(self, place: int) -> int | None:
        if place >= len(self._tokens) or self._tokens[place].kind != "word":
            return None
        meaning = self._figures.word(self._folded[place])
        return int(meaning.value) if meaning is not None and meaning.kind == "month" else None

    def _year(self, place: int) -> tuple[int | None, int]:
        """A year at `place`, past a comma or a preposition."""
        at = place
        while (
            at < len(self._tokens)
            and at < place + 2
            and (self._folded[at] in ("de", "of", "года", "del") or self._tokens[at].text == ",")
        ):
            at += 1
        if at < len(self._tokens) and self._tokens[at].kind == "number":
            text = self._tokens[at].text
            if len(text) == 4 and text[:2] in ("19", "20") and not self._tokens[at].suffix:
                return int(text), at + 1
        return None, place

    def _day_first(self, place: int, token: Token) -> int | None:
        """`3 March`, `3rd of March 2026`, `3 de marzo`, `3. März`."""
        if not token.text.isdigit() or len(token.text) > 2:
            return None
        at = place + 1
        while at < min(place + 3, len(self._tokens)) and (
            self._folded[at] in ("of", "de") or (self._language == "de" and self._tokens[at].kind == "stop")
        ):
            at += 1
        month = self._month(at)
        if month is None or not 1 <= int(token.text) <= 31:
            return None
        year, after = self._year(at + 1)
        written = f"{token.text} {self._tokens[at].text}"
        self.reading.days.append(day_of(written, place, year, month, int(token.text)))
        self._glued = False
        return after

    def _month_first(self, place: int, token: Token) -> int | None:
        """`March 3rd, 2026`, `March 2026`, `in March`."""
        month = self._month(place)
        if month is None or (token.text.islower() and self._language in ("en", "de")):
            return None
        following = self._tokens[place + 1] if place + 1 < len(self._tokens) else None
        if following is not None and following.kind == "number" and len(following.text) <= 2:
            year, after = self._year(place + 2)
            written = f"{token.text} {following.text}"
            self.reading.days.append(day_of(written, place, year, month, int(following.text)))
            return after
        if (token.initial and token.folded in ("may", "march")) or not self._figures.spells(token.text):
            return None
        year, after = self._year(place + 1)
        self.reading.days.append(day_of(token.text, place, year, month, None))
        self._glued = False
        return after

    # what is noted

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
