"""Days and times of day in the many ways people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_EASTERN = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월](?:\s?(\d{1,2}))?")
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Day:
    """A date as far as it was said; `other` is its second reading where day and month may be exchanged."""

    text: str
    place: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    other: tuple[int, int] | None = None

    @classmethod
    def iso(cls, text: str, place: int) -> Day | None:
        year, month, day = map(int, text.split("-"))
        return day_of(text, place, year, month, day) if _exists(month, day) else None

    def agrees(self, other: Day) -> bool:
        """Whether both may be the same day: nothing that both say differs, and they say something alike."""
        if not _alike(self.year, other.year):
            return False
        mine = [(self.month, self.day), *([self.other] if self.other else [])]
        theirs = [(other.month, other.day), *([other.other] if other.other else [])]
        return self.weekday == other.weekday and any(pair in theirs for pair in mine)


def _alike(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _exists(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def day_of(text: str, place: int, year: int | None, month: int | None, day: int | None) -> Day:
    return Day(text, place, year=year, month=month, day=day)


def numeric(text: str, place: int) -> Day | None:
    """`03.04.2026` has the day first; `03/04/2026` may be read both ways."""
    first, second, year = map(int, re.split(r"[./]", text))
    day_first = day_of(text, place, year, second, first) if _exists(second, first) else None
    if "." in text or not _exists(first, second):
        return day_first
    if day_first is None:
        return day_of(text, place, year, first, second)
    return Day(text, place, year=year, month=second, day=first, other=(first, second))


def eastern(text: str, place: int) -> Day | None:
    """`2026年3月3日`, `3월 3일`."""
    found = _EASTERN.match(text)
    if found is None:
        return None
    year, month, day = (int(part) if part else None for part in found.groups())
    return day_of(text, place, year, month, day) if month and _exists(month, day or 1) else None


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day, in seconds since midnight."""

    second: int
    text: str
    place: int


def clock_of(text: str, half: str, place: int) -> Clock:
    """`16:15`, `4:15` with `pm`, `16h15`, `16`."""
    hours, *rest = (int(part) for part in re.split(r"[:h]", text) if part)
    if half == "pm" and hours < 12:
        hours += 12
    if half == "am" and hours == 12:
        hours = 0
    minutes, seconds = (*rest, 0, 0)[:2]
    return Clock((hours * 3600 + minutes * 60 + seconds) % _DAY, f"{text} {half}".strip(), place)
