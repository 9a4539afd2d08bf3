"""Times at the door: what a person or model writes becomes a canonical instant, or a clear refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo

from mnemo_mcp.errors import Refused
from mnemo_mcp.memory import Instant, instant

Clock = Callable[[], datetime]
"""Gives the present as an aware datetime."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def local_zone() -> tzinfo:
    """The zone of the person at this machine."""
    return datetime.now().astimezone().tzinfo or UTC


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_YEAR = re.compile(r"\d{4}")


def parse_instant(text: str, zone: tzinfo, now: datetime) -> Instant:
    """The instant of a date, a month, a year, a date-time, or the words now, today, yesterday, tomorrow.

    A bare date is the start of that day in `zone`; a date-time without an offset is read in `zone`.
    Periods are half-open, so a bare date as an end excludes that day. Raises `Refused`.
    """
    wanted = text.strip()
    try:
        return instant(_moment(wanted, zone, now))
    except (ValueError, OverflowError) as error:
        raise Refused(
            f"{wanted[:60]!r} is not a date mnemo can read ({error}).",
            "Give it as 2026-03-02 or 2026-03-02T09:30:00+01:00.",
        ) from None


def _moment(text: str, zone: tzinfo, now: datetime) -> datetime:
    shifts = {"today": 0, "yesterday": -1, "tomorrow": 1}
    if text.lower() == "now":
        return now
    if text.lower() in shifts:
        return _start_of_day(now.astimezone(zone).date() + timedelta(days=shifts[text.lower()]), zone)
    if _DATE.fullmatch(text):
        return _start_of_day(date.fromisoformat(text), zone)
    if month := _MONTH.fullmatch(text):
        return _start_of_day(date(int(month[1]), int(month[2]), 1), zone)
    if _YEAR.fullmatch(text):
        return _start_of_day(date(int(text), 1, 1), zone)
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)


def _start_of_day(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)
