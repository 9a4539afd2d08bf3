"""Times at the door: what a person or model writes becomes a canonical instant, or a clear refusal.

Decided once, here: a bare date, month or year begins at its first moment in the speaker's zone; periods are
half-open, so a bare date as an end leaves that day out; a local time that a clock change skips or repeats is
read with the offset before the change; a date without a year is the nearest one that has begun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mnemo_mcp.errors import Refused, SettingsError
from mnemo_mcp.memory import Instant, instant

Clock = Callable[[], datetime]
"""Gives the present as an aware datetime."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def zone_named(name: str) -> tzinfo:
    """The zone with this IANA name; "" is the zone of this machine. Raises `SettingsError`."""
    if not name:
        return _machine_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(f"There is no time zone {name!r}.", "Use a name like Europe/Madrid.") from None


def _machine_zone() -> tzinfo:
    """The machine's zone with all its changes over the year, else its offset of today."""
    name = _zone_name()
    try:
        if name:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # a zone given as a rule (TZ="CET-1CEST"): its present offset must do
    return datetime.now().astimezone().tzinfo or UTC


def _zone_name() -> str:
    if name := os.environ.get("TZ", "").lstrip(":"):
        return name
    link = Path("/etc/localtime")
    target = str(link.resolve()) if link.is_symlink() else ""
    return target.partition("zoneinfo/")[2]


def offset_of(text: str) -> tzinfo | None:
    """The offset a date-time is written with: the zone of whoever wrote it."""
    try:
        return datetime.fromisoformat(text).tzinfo
    except ValueError:
        return None


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan enero",
            "february feb febrero",
            "march mar marzo",
            "april apr abril",
            "may mayo",
            "june jun junio",
            "july jul julio",
            "august aug agosto",
            "september sep sept septiembre",
            "october oct octubre",
            "november nov noviembre",
            "december dec diciembre",
        ),
        1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon lunes",
            "tuesday tue martes",
            "wednesday wed miércoles miercoles",
            "thursday thu jueves",
            "friday fri viernes",
            "saturday sat sábado sabado",
            "sunday sun domingo",
        )
    )
    for name in names.split()
}
_DAYS = {
    "today": 0, "hoy": 0, "yesterday": -1, "ayer": -1, "tomorrow": 1, "mañana": 1,
    "day before yesterday": -2, "anteayer": -2, "day after tomorrow": 2, "pasado mañana": 2,
}  # fmt: skip
_UNITS = {"day": 1, "week": 7, "día": 1, "dia": 1, "semana": 7}
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "un": 1,
    "una": 1,
}

_ISO_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_AGO = re.compile(r"(\w+) (day|week|month|year)s? ago|hace (\w+) (día|dia|semana)s?")
_AHEAD = re.compile(r"in (\w+) (day|week|month|year)s?")
_NEAR = re.compile(r"(last|past|next|this) (\w+)")
_WEEKDAY_ES = re.compile(r"(?:el )?(\w+) (pasado|próximo|proximo)|(?:el )?(próximo|proximo) (\w+)")
_NAMED = re.compile(r"(?:(\d{1,2})(?:st|nd|rd|th)?(?: of| de)? (\w+)|(\w+) (\d{1,2})(?:st|nd|rd|th)?)"
                    r"(?:,? (?:de )?(\d{4}))?")  # fmt: skip
_MONTH_NAMED = re.compile(r"(\w+)(?: (?:de )?(\d{4}))?")
_AMBIGUOUS = re.compile(r"\d{1,2}[/.-]\d{1,2}([/.-]\d{2,4})?")


def parse_instant(text: str, zone: tzinfo, now: datetime) -> Instant:
    """The instant that `text` names, told at `now` by somebody in `zone`.

    Takes ISO dates, months, years and date-times (with or without an offset), dates with a month's name with
    or without a year, and relative words (yesterday, last Tuesday, next month, 3 weeks ago; English and
    Spanish). Raises `Refused` for anything else, and for dates like 03/04 that mean different days.
    """
    wanted = " ".join(text.strip().split())
    if _AMBIGUOUS.fullmatch(wanted):
        raise Refused(f"{wanted!r} can mean two different days.", "Write it as 2026-03-04 (year-month-day).")
    local = now.astimezone(zone)
    try:
        found = _moment(wanted, zone, local)
    except (ValueError, OverflowError) as error:
        raise Refused(f"{wanted[:60]!r} is not a date that exists ({error}).", _ADVICE) from None
    if found is None:
        raise Refused(f"{wanted[:60]!r} is not a date mnemo can read.", _ADVICE)
    return instant(found)


_ADVICE = "Give it as 2026-03-02, 2026-03-02T09:30:00+01:00, or words like yesterday or last Tuesday."


def _moment(text: str, zone: tzinfo, now: datetime) -> datetime | None:
    words = text.lower()
    if words in ("now", "ahora"):
        return now
    if iso := _ISO_DATE.fullmatch(text):
        return _start(date(int(iso[1]), int(iso[2] or 1), int(iso[3] or 1)), zone)
    if (day := _relative(words, now.date())) or (day := _named(words, now.date())):
        return _start(day, zone)
    if not text[:1].isdigit():
        return None
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)


def _relative(words: str, today: date) -> date | None:
    words = words.removeprefix("the ")
    if words in _DAYS:
        return today + timedelta(days=_DAYS[words])
    if ago := _AGO.fullmatch(words):
        return _shifted(today, ago[1] or ago[3], ago[2] or ago[4], -1)
    if ahead := _AHEAD.fullmatch(words):
        return _shifted(today, ahead[1], ahead[2], 1)
    if near := _NEAR.fullmatch(words):
        return _near(near[1], near[2], today)
    if spanish := _WEEKDAY_ES.fullmatch(words):
        which = "last" if spanish[2] == "pasado" else "next"
        return _near(which, spanish[1] or spanish[4], today)
    return None


def _shifted(today: date, number: str, unit: str, sign: int) -> date | None:
    count = _NUMBERS.get(number, int(number) if number.isdecimal() else None)
    if count is None:
        return None
    if unit in _UNITS:
        return today + timedelta(days=sign * count * _UNITS[unit])
    months = today.year * 12 + today.month - 1 + sign * count * (12 if unit == "year" else 1)
    return _clipped(months // 12, months % 12 + 1, today.day)


def _clipped(year: int, month: int, day: int) -> date:
    """That day of a month, or its last one: a month after 31 January is the end of February."""
    following = date(year + month // 12, month % 12 + 1, 1)
    return min(
        date(year, month, min(day, 28)) + timedelta(days=max(0, day - 28)), following - timedelta(days=1)
    )


def _near(which: str, what: str, today: date) -> date | None:
    sign = {"last": -1, "past": -1, "this": 0, "next": 1}[which]
    if what in _WEEKDAYS:
        ahead = (_WEEKDAYS[what] - today.weekday()) % 7
        return today + timedelta(days={-1: ahead - 7, 0: ahead, 1: ahead or 7}[sign])
    if what == "week":
        return today + timedelta(days=7 * sign - today.weekday())
    if what == "month":
        months = today.year * 12 + today.month - 1 + sign
        return date(months // 12, months % 12 + 1, 1)
    return date(today.year + sign, 1, 1) if what == "year" else None


def _named(words: str, today: date) -> date | None:
    words = words.removeprefix("on ").removeprefix("since ").removeprefix("in ").removeprefix("el ")
    if (found := _NAMED.fullmatch(words)) and (month := _MONTHS.get(found[2] or found[3])):
        return _in_year(found[5], month, int(found[1] or found[4]), today)
    if (found := _MONTH_NAMED.fullmatch(words)) and (month := _MONTHS.get(found[1])):
        return _in_year(found[2], month, 1, today)
    return None


def _in_year(year: str | None, month: int, day: int, today: date) -> date:
    if year:
        return date(int(year), month, day)
    return _this_or_last(month, day, today)


def _this_or_last(month: int, day: int, today: date) -> date:
    """The nearest such day that is not in the future; 29 February goes back to a leap year."""
    for year in range(today.year, today.year - 8, -1):
        if (month, day) == (2, 29) and not _is_leap(year):
            continue
        found = date(year, month, day)
        if found <= today:
            return found
    raise ValueError("no such day in the last eight years")


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _start(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)
