"""Stretches of the calendar: a day, its week, its month, counted in the zone of whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
"""Before anything that is remembered: where a time without a beginning begins."""


class Grain(StrEnum):
    """How exactly a time is named."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    SPAN = "span"


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open local time; `end` None is open."""

    start: datetime
    end: datetime | None
    grain: Grain


@dataclass(frozen=True, slots=True)
class Present:
    """Now and here: what words like yesterday are told from."""

    now: datetime
    zone: tzinfo

    @property
    def today(self) -> date:
        return self.now.date()

    def midnight(self, day: date) -> datetime:
        """The first moment of a day, read with the offset before where a clock change repeats or skips it."""
        return datetime(day.year, day.month, day.day, tzinfo=self.zone)

    def whole(self, day: date, grain: Grain) -> Span:
        """The day, week, month, quarter or year that holds a day."""
        first, following = _BOUNDS[grain](day)
        return Span(self.midnight(first), self.midnight(following), grain)

    def shifted(self, number: int, grain: Grain) -> Span:
        """The unit that lies `number` of them ahead; below zero, behind."""
        if grain in _SECONDS:
            at = (self.now.astimezone(UTC) + timedelta(seconds=number * _SECONDS[grain])).astimezone(
                self.zone
            )
            start = at.replace(minute=0 if grain is Grain.HOUR else at.minute, second=0, microsecond=0)
            end = start.astimezone(UTC) + timedelta(seconds=_SECONDS[grain])
            return Span(start, end.astimezone(self.zone), grain)
        if grain in _DAYS:
            return self.whole(self.today + timedelta(days=number * _DAYS[grain]), grain)
        months = self.today.year * 12 + self.today.month - 1 + number * _MONTHS[grain]
        return self.whole(date(months // 12, months % 12 + 1, 1), grain)

    def recent(self, number: int, grain: Grain) -> Span:
        """The last so many days, weeks or months, up to the end of today."""
        end = self.midnight(self.today + timedelta(days=1))
        if grain in _SECONDS:
            past = self.now.astimezone(UTC) - timedelta(seconds=number * _SECONDS[grain])
            return Span(past.astimezone(self.zone), end, Grain.SPAN)
        if grain in _DAYS:
            first = self.today - timedelta(days=number * _DAYS[grain])
        else:
            first = _months_on(self.today, -number * _MONTHS[grain])
        return Span(self.midnight(first), end, Grain.SPAN)

    def weekday(self, number: int, near: int) -> Span:
        """The last (-1) such weekday before today, the next (1) after it, or that of this week (0)."""
        ahead = (number - self.today.weekday()) % 7
        days = {-2: ahead - 14, -1: ahead - 7, 0: number - self.today.weekday(), 1: ahead or 7}[near]
        return self.whole(self.today + timedelta(days=days), Grain.DAY)

    def dated(self, year: int | None, month: int, day: int | None) -> Span:
        """A day or month; without a year the nearest that has begun. Raises `ValueError` where none"
        " exists."""
        grain = Grain.MONTH if day is None else Grain.DAY
        if year is not None:
            return self.whole(date(year, month, day or 1), grain)
        for candidate in range(self.today.year, self.today.year - 9, -1):
            if (month, day) == (2, 29) and (candidate % 4 or (candidate % 100 == 0 and candidate % 400)):
                continue
            found = date(candidate, month, day or 1)
            if found <= self.today:
                return self.whole(found, grain)
        raise ValueError("no such day has begun")

    def month(self, number: int, near: int) -> Span:
        """Such a month of this year (0), the last one that is over (-1) or the next to begin (1)."""
        year = self.today.year
        if near < 0 and number >= self.today.month:
            year -= 1
        elif near > 0 and number <= self.today.month:
            year += 1
        return self.whole(date(year + (near + 1 if near < -1 else 0), number, 1), Grain.MONTH)

    def quarter(self, number: int, year: int | None) -> Span:
        """A quarter; without a year the nearest that has begun."""
        first = number * 3 - 2
        if year is None:
            year = self.today.year - (first > self.today.month)
        return self.whole(date(year, first, 1), Grain.QUARTER)


_SECONDS = {Grain.MINUTE: 60, Grain.HOUR: 3600}
_DAYS = {Grain.DAY: 1, Grain.WEEK: 7}
_MONTHS = {Grain.MONTH: 1, Grain.QUARTER: 3, Grain.YEAR: 12}


def _months_on(day: date, months: int) -> date:
    """That day so many months on, or the last one of that month."""
    count = day.year * 12 + day.month - 1 + months
    following = date((count + 1) // 12, (count + 1) % 12 + 1, 1)
    return min(
        date(count // 12, count % 12 + 1, 1) + timedelta(days=day.day - 1), following - timedelta(days=1)
    )


def _of_months(number: int) -> Callable[[date], tuple[date, date]]:
    def bounds(day: date) -> tuple[date, date]:
        first = date(day.year, (day.month - 1) // number * number + 1, 1)
        return first, _months_on(first, number)

    return bounds


def _week(day: date) -> tuple[date, date]:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=7)


_BOUNDS: dict[Grain, Callable[[date], tuple[date, date]]] = {
    Grain.DAY: lambda day: (day, day + timedelta(days=1)),
    Grain.WEEK: _week,
    Grain.MONTH: _of_months(1),
    Grain.QUARTER: _of_months(3),
    Grain.YEAR: _of_months(12),
}
