"""Dates and times of day among the tokens of a text."""

from __future__ import annotations

from dataclasses import replace

from mnemo_mcp.guard.calendar import Clock, Day, clock_of, day_of, eastern, numeric
from mnemo_mcp.guard.lexing import Token
from mnemo_mcp.guard.scan import Scan

_NOON = 12 * 60 * 60  # seconds


class Moments(Scan):
    """Notes days and times; each method that takes tokens gives the place after them, or None."""

    def _date(self, place: int, token: Token) -> bool:
        """Whether a written date is one."""
        make = {"iso": Day.iso, "numeric": numeric, "eastern": eastern}[token.kind]
        day = make(token.text, place)
        if day is not None:
            self.reading.days.append(day)
            self._glued = False
        return day is not None

    def _clock(self, place: int, token: Token) -> int:
        half = self._half(place + 1)
        self.reading.clocks.append(clock_of(token.text, half, place))
        self._glued = False
        return place + (2 if half else 1)

    def _named_time(self, place: int, kind: str, value: str, text: str) -> None:
        if kind == "weekday":
            self.reading.days.append(Day(text, place, weekday=int(value)))
        else:
            self.reading.clocks.append(Clock(_NOON if value == "noon" else 0, text, place))
        self._glued = False

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
