"""Figures among the tokens of a text, with their scale, unit, currency and rhythm."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from mnemo_mcp.guard.figures import Figure, decimal, measured, number
from mnemo_mcp.guard.lexing import Token
from mnemo_mcp.guard.scan import Scan

_MONEY = {"$": "money-usd:1", "€": "money-eur:1", "£": "money-gbp:1", "¥": "money-jpy:1", "₽": "money-rub:1"}
_ORDINAL_ENDINGS = frozenset({"st", "nd", "rd", "th", "e", "er", "eme", "o", "a", "го", "й"})
_SCALES = {"k": 1000, "K": 1000, "M": 1_000_000, "B": 1_000_000_000, "G": 1_000_000_000}
_RATE_REACH = 3  # tokens between a count and its "per minute"
UNSPACED = frozenset({"ja", "zh", "ko"})
"""Languages written without spaces, or with particles where others have words."""

_HANGUL = re.compile("[\uac00-\ud7af]+")
_MEASURE_WORDS = re.compile("^(?:개|명|대|건|회|번|個|件|台|人|つ|名|本|次|条|位|倍|号|版)")


class Quantities(Scan):
    """Notes figures; a version or a number with leading zeros is an identifier."""

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

    def _is_suffix(self, suffix: str) -> bool:
        lowered = suffix.casefold()
        return (
            suffix in _SCALES
            or lowered in _ORDINAL_ENDINGS
            or self._unit(lowered) is not None
            or (lowered in ("am", "pm", "h", "x", "mm"))
        )

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

    def _rate_before(self, place: int) -> None:
        """`每分钟100`: in scripts without spaces the rhythm comes before its count."""
        marks = self.reading.marks
        if self._language not in UNSPACED or not marks or marks[-1].kind != "rhythm":
            return
        if place - marks[-1].place <= 1:
            rhythm = marks.pop()
            self.reading.items.pop()
            self._rhythm(place, rhythm.value, rhythm.text)
