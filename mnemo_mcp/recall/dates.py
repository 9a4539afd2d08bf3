"""Dates in a question: which time it asks about, in the zone of whoever asks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from mnemo_mcp.errors import Refused
from mnemo_mcp.memory import Instant, Period, instant, moment
from mnemo_mcp.times import parse_instant
from mnemo_mcp.words import words

_DAY, _WEEK, _MONTH, _YEAR = "day", "week", "month", "year"
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
_WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
# What to look for, and how long the time is that it names. Longer forms come before the ones they contain.
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"\b(?:on |in |during |el |en )?({form})\b", re.IGNORECASE), length)
    for form, length in (
        (r"\d{4}-\d{2}-\d{2}", _DAY),
        (rf"\d{{1,2}}(?:st|nd|rd|th)?(?: of| de)? (?:{_MONTHS})(?:,? (?:de )?\d{{4}})?", _DAY),
        (rf"(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?(?:, \d{{4}})?", _DAY),
        (r"day before yesterday|yesterday|today|anteayer|ayer|hoy", _DAY),
        (rf"last (?:{_WEEKDAYS})", _DAY),
        (r"\d+ days? ago|hace \d+ días?", _DAY),
        (r"(?:last|this) week", _WEEK),
        (r"(?:last|this) month", _MONTH),
        (rf"(?:{_MONTHS}) (?:de )?\d{{4}}", _MONTH),
        (r"\d{4}-\d{2}", _MONTH),
        (r"(?:last|this) year", _YEAR),
    )
)
_GENERIC = frozenset(
    words(
        """happen happened happening do did done doing change changed decide decided decision learn learned
        new news event work worked say said pasó ocurrió hicimos hacer cambió decidimos"""
    )
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The time a question names, and whether it asks for whatever lies in it or for something else at it."""

    period: Period
    words: str
    anything: bool

    def shown(self) -> dict[str, Any]:
        """The reading as plain values, for people."""
        return {
            "words": self.words,
            "from": self.period.start,
            "to": self.period.end,
            "anything": self.anything,
        }


def asked_time(text: str, telling: tuple[str, ...], zone: tzinfo, now: Instant) -> Asked | None:
    """The first time that `text` names; `telling` are the words of the question that tell something."""
    for pattern, length in _FORMS:
        if found := pattern.search(text):
            try:
                start = moment(parse_instant(found[1], zone, moment(now))).astimezone(zone)
            except Refused:
                continue
            named = set(found[0].casefold().replace(",", " ").split())
            rest = [word for word in telling if word not in named and not _of_date(word, found[1])]
            return Asked(_period(start, length), found[1], all(word in _GENERIC for word in rest))
    return None


def _of_date(word: str, named: str) -> bool:
    return word in named.casefold()


def _period(start: datetime, length: str) -> Period:
    day = start.date()
    ends = {
        _DAY: day + timedelta(days=1),
        _WEEK: day + timedelta(days=7),
        _MONTH: date(day.year + day.month // 12, day.month % 12 + 1, 1),
        _YEAR: date(day.year + 1, 1, 1),
    }
    end = datetime(ends[length].year, ends[length].month, ends[length].day, tzinfo=start.tzinfo)
    return Period(instant(start), instant(end))
