"""Times in texts that write spaces: words are looked up, and a few rules say what they mean together.

The rules are the same for every language; only the words differ. Whatever is part of a path, a version or an
identifier is one word here, and no time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mnemo_mcp.recall import datewords as table
from mnemo_mcp.recall.parted import Word, parted
from mnemo_mcp.recall.span import EARLIEST, Grain, Present, Span
from mnemo_mcp.words import STOP_WORDS, fold

_ISO = re.compile(r"((?:19[7-9]|20\d)\d)(?:-(\d\d)(?:-(\d\d))?|/(\d\d)/(\d\d))")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\dt\d\d:\d\d.*")
_DOTTED = re.compile(r"(\d{1,2})([./])(\d{1,2})\2((?:19|20)\d\d)")
_DAYS = re.compile(r"(\d{1,2})[-–](\d{1,2})")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|e|º|ª|го|-го|de|ste)?")
_YEAR = re.compile(r"(?:19[7-9]|20\d)\d")
_QUARTER = re.compile(r"[qt]([1-4])(?:[-/]?((?:19|20)\d\d))?|((?:19|20)\d\d)[-/]?q([1-4])")
_GERMAN = frozenset(
    ["was", "ist", "wir", "wie", "wo", "warum", "haben", "sind", "wird", "kann", "ich", "und", "nicht", "hat"]
)  # in a sentence with one of these "hier" is here, not yesterday
_BETWEEN_COUNT = frozenset([*table.NEAR, "of"])  # the 3 last days, a couple of days
_YEARS_AHEAD = 5
_FIGURES = 6  # of a number of days or years that makes sense
_GAP = 3  # words between two ends of a range, or between a time and what opens it


@dataclass(frozen=True, slots=True)
class Found:
    """A time and where it is named."""

    span: Span
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A time and the words that name it, from one to before another."""

    span: Span
    first: int
    after: int


def spoken_time(text: str, present: Present) -> Found | None:
    """The first time named in `text`, with what makes it a beginning, an end or a range."""
    words = parted(text)
    found = next(_places(words, present), None)
    if found is None:
        return None
    whole = _range(words, found, present) or _days_of_month(words, found) or _opened(words, found, present)
    return Found(whole.span, words[whole.first].start, words[whole.after - 1].end)


def _places(words: Sequence[Word], present: Present, start: int = 0) -> Iterator[_Place]:
    for at in range(start, len(words)):
        word = words[at].text
        if not (word in _HEADS or word[0].isdigit() or _QUARTER.fullmatch(word)):
            continue
        for rule in _rules(word):
            try:
                if place := rule(words, at, present):
                    yield place
                    break
            except (ValueError, OverflowError):
                continue  # a date that does not exist, or lies beyond the calendar


_HEADS = frozenset([*table.DAYS, *table.UNITS, *table.WEEKDAYS, *table.MONTHS])
_Rule = Callable[[Sequence[Word], int, Present], _Place | None]


def _rules(word: str) -> Iterator[_Rule]:
    if word[0].isdigit():
        yield from (_iso, _dotted, _year)
    if word in table.DAYS:
        yield _day
    if word in table.UNITS:
        yield from (_ordinal_quarter, _unit)
    if word in table.WEEKDAYS:
        yield _weekday
    if word in table.MONTHS:
        yield _month
    if _QUARTER.fullmatch(word):
        yield _quarter


def _iso(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    word = words[at].text
    if _CLOCK.fullmatch(word):
        moment = datetime.fromisoformat(word.upper())
        local = moment.astimezone(present.zone) if moment.tzinfo else moment.replace(tzinfo=present.zone)
        return _Place(present.whole(local.date(), Grain.DAY), at, at + 1)
    found = _ISO.fullmatch(word)
    if found is None or _names_a_version(words, at):
        return None
    day = found[3] or found[5]
    span = present.dated(int(found[1]), int(found[2] or found[4]), int(day) if day else None)
    return _Place(span, at, at + 1)


def _names_a_version(words: Sequence[Word], at: int) -> bool:
    return at > 0 and words[at - 1].text in table.NUMBERED


def _dotted(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """14.3.2025, and 14/3/2025 where it can mean one day only."""
    found = _DOTTED.fullmatch(words[at].text)
    if found is None:
        return None
    day, month = int(found[1]), int(found[3])
    if found[2] == "/" and day <= 12:
        if month <= 12:
            return None
        day, month = month, day
    return _Place(present.dated(int(found[4]), month, day), at, at + 1)


def _year(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """A year is one where "in", "since" or the word year stands before it, and no thing that is counted"
    " after."""
    word = words[at].text
    if at == 0 or not _YEAR.fullmatch(word) or int(word) > present.today.year + _YEARS_AHEAD:
        return None
    before, after = words[at - 1].text, words[at + 1].text if at + 1 < len(words) else ""
    called = [table.UNITS.get(each) is Grain.YEAR for each in (before, after)]
    opened = before in table.INSIDE or before in _OPENING or _ends_range(words, at)
    if not any(called) and not (opened and _counts_nothing(after)):
        return None
    return _Place(present.whole(date(int(word), 1, 1), Grain.YEAR), at - called[0], at + 1 + called[1])


def _ends_range(words: Sequence[Word], at: int) -> bool:
    """Whether a word before it joins it to a beginning."""
    near = [word.text for word in words[max(0, at - 2 * _GAP) : at]]
    return bool(near) and near[-1] in table.JOINING and any(_begins(word) for word in near)


def _begins(word: str) -> bool:
    return word in table.BETWEEN or word in table.FROM


def _counts_nothing(after: str) -> bool:
    return not after or fold(after) in STOP_WORDS or after in table.JOINING or after in table.INSIDE


def _day(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    word = words[at].text
    if word == "hier" and any(each.text in _GERMAN for each in words):
        return None
    return _Place(present.shifted(table.DAYS[word], Grain.DAY), at, at + 1)


def _unit(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """Three weeks ago, the last three weeks, last week, hace tres semanas, la semana pasada."""
    grain = table.UNITS[words[at].text]
    counted = at - 2 if at > 1 and words[at - 1].text in _BETWEEN_COUNT else at - 1
    if counted >= 0 and (number := _number(words[counted].text)):
        return _counted(words, at, counted, number, present)
    if at + 1 < len(words) and words[at + 1].text in table.AGO:
        return _Place(present.shifted(-1, grain), at, at + 2)
    near = _near(words, at)
    if near is None or grain in (Grain.MINUTE, Grain.HOUR, Grain.DAY):
        return None
    return _Place(present.shifted(table.NEAR[words[near].text], grain), min(near, at), max(near, at) + 1)


def _counted(words: Sequence[Word], at: int, counted: int, number: int, present: Present) -> _Place | None:
    grain = table.UNITS[words[at].text]
    if counted and words[counted - 1].text in table.HALF:
        return None
    if at + 1 < len(words) and words[at + 1].text in table.AGO:
        return _Place(present.shifted(-number, grain), counted, at + 2)
    if counted and words[counted - 1].text in table.AGO_BEFORE:
        return _Place(present.shifted(-number, grain), counted - 1, at + 1)
    for near in (counted - 1, counted + 1):
        if near >= 0 and number > 1 and table.NEAR.get(words[near].text) == -1:
            return _Place(present.recent(number, grain), min(near, counted), max(near, at) + 1)
    return None


def _weekday(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """Last Tuesday, Tuesday last week; on Tuesday, where something is said to have been done."""
    near = _near(words, at)
    if near is None:
        told = at > 0 and words[at - 1].text in table.ON and any(word.text in table.DONE for word in words)
        return _Place(present.weekday(table.WEEKDAYS[words[at].text], -1), at, at + 1) if told else None
    number, which = table.WEEKDAYS[words[at].text], table.NEAR[words[near].text]
    beyond = near + 1
    if near > at and beyond < len(words) and table.UNITS.get(words[beyond].text) is Grain.WEEK:
        week = present.shifted(which, Grain.WEEK).start.date()
        return _Place(present.whole(week + timedelta(days=number), Grain.DAY), at, beyond + 1)
    return _Place(present.weekday(number, which), min(near, at), max(near, at) + 1)


def _month(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """5 October 2026, October 5th, October 2026, in October, last October."""
    word, number = words[at], table.MONTHS[words[at].text]
    after, year = _year_after(words, at + 1)
    sure = word.capital or year is not None or word.text not in table.DOUBTFUL
    left = _back(words, at - 1)
    for place in (left, at + 1):
        if sure and place is not None and (days := _from_day_to_day(words, at, place, present)):
            return days
    if left is not None and (day := _day_number(words[left].text)) and (sure or after == len(words)):
        return _Place(present.dated(year, number, day), left, after)
    if year is not None:
        return _Place(present.dated(year, number, None), at, after)
    if at + 1 < len(words) and (day := _day_number(words[at + 1].text)):
        after, year = _year_after(words, at + 2)
        return _Place(present.dated(year, number, day), at, after) if sure or year else None
    near = _near(words, at)
    before = words[at - 1].text if at else ""
    if near is not None and (sure or before in ("last", "next")):
        return _Place(present.month(number, table.NEAR[words[near].text]), min(near, at), max(near, at) + 1)
    opened = before in table.INSIDE or (before in _OPENING and word.text not in table.DOUBTFUL)
    if opened or before in table.SINCE or before in table.UNTIL or _ends_range(words, at):
        return _Place(present.dated(None, number, None), at, at + 1)
    if before in table.BETWEEN or (before in table.FROM and _joined_to(words, at)):
        return _Place(present.dated(None, number, None), at, at + 1)
    return None


def _from_day_to_day(words: Sequence[Word], at: int, place: int, present: Present) -> _Place | None:
    """5-10 March, where the days stand at `place` and the month at `at`."""
    days = _DAYS.fullmatch(words[place].text) if place < len(words) else None
    if days is None or int(days[1]) >= int(days[2]):
        return None
    after, year = _year_after(words, max(at, place) + 1)
    last = present.dated(year, table.MONTHS[words[at].text], int(days[2])).end
    start = last - timedelta(days=int(days[2]) - int(days[1]) + 1) if last else None
    return _Place(Span(start, last, Grain.SPAN), min(place, at), after) if start else None


def _joined_to(words: Sequence[Word], at: int) -> bool:
    return any(word.text in table.JOINING for word in words[at + 1 : at + 1 + _GAP])


def _quarter(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    found = _QUARTER.fullmatch(words[at].text)
    if found is None:
        return None
    number = int(found[1] or found[4])
    if found[2] or found[3]:
        return _Place(present.quarter(number, int(found[2] or found[3])), at, at + 1)
    after, year = _year_after(words, at + 1)
    before = words[at - 1].text if at else ""
    if year is None and _YEAR.fullmatch(before):
        return _Place(present.quarter(number, int(before)), at - 1, at + 1)
    if year is None and not (before in table.INSIDE or before in _OPENING or _ends_range(words, at)):
        return None
    return _Place(present.quarter(number, year), at, after)


def _ordinal_quarter(words: Sequence[Word], at: int, present: Present) -> _Place | None:
    """The third quarter of 2025."""
    if table.UNITS[words[at].text] is not Grain.QUARTER or not at:
        return None
    before = words[at - 1].text
    number = table.ORDINALS.get(before) or _day_number(before)
    beside = [words[place].text for place in (at - 2, at + 1) if 0 <= place < len(words)]
    if not number or number > 4 or any(_counts_back(word) for word in beside):
        return None
    after, year = _year_after(words, at + 1)
    return _Place(present.quarter(number, year), at - 1, after)


def _counts_back(word: str) -> bool:
    return word in table.NEAR or word in table.AGO or word in table.AGO_BEFORE


def _back(words: Sequence[Word], at: int) -> int | None:
    """The word at `at`, or the one before it where that is an "of"."""
    at -= at > 0 and words[at].text in table.OF
    return at if at >= 0 else None


def _number(word: str) -> int | None:
    return int(word) if word.isdecimal() and len(word) < _FIGURES else table.NUMBERS.get(word)


def _near(words: Sequence[Word], at: int) -> int | None:
    """Where "last", "this" or "next" stands beside a word."""
    if at and words[at - 1].text in table.NEAR:
        return at - 1
    after = at + 1
    if after < len(words) and words[after].text in ("de", "da", "des", "der") and after + 1 < len(words):
        after += 1
    return after if after < len(words) and words[after].text in _POSTPOSED else None


_POSTPOSED = frozenset(
    word for word in table.NEAR if word not in ("this", "current", "coming", "past", "previous")
)


def _day_number(word: str) -> int | None:
    found = _DAY.fullmatch(word)
    return int(found[1]) if found and 1 <= int(found[1]) <= 31 else None


def _year_after(words: Sequence[Word], at: int) -> tuple[int, int | None]:
    """The year that stands at `at`, "de" and the like left out, and the place after it."""
    place = at + 1 if at < len(words) and words[at].text in ("de", "del", "of", "di", "do") else at
    if place < len(words) and _YEAR.fullmatch(words[place].text):
        called = place + 1 < len(words) and words[place + 1].text in ("года", "году", "roku", "год")
        return place + 1 + called, int(words[place].text)
    return at, None


def _range(words: Sequence[Word], first: _Place, present: Present) -> _Place | None:
    """From one time to another, both among it."""
    opening = _before(words, first, _begins)
    if opening is None:
        return None
    second = next(_places(words, present, first.after), None)
    if second is None or not 0 < second.first - first.after <= _GAP or second.span.end is None:
        return None
    joined = any(word.text in table.JOINING for word in words[first.after : second.first])
    if not joined or second.span.end <= first.span.start:
        return None
    return _Place(Span(first.span.start, second.span.end, Grain.SPAN), opening, second.after)


def _days_of_month(words: Sequence[Word], last: _Place) -> _Place | None:
    """From the 5th to the 10th of March."""
    joining = _before(words, last, table.JOINING.__contains__)
    if last.span.grain is not Grain.DAY or not joining:
        return None
    day = _day_number(words[joining - 1].text)
    if day is None or day >= last.span.start.day:
        return None
    at = _Place(Span(last.span.start.replace(day=day), last.span.end, Grain.SPAN), joining - 1, last.after)
    opening = _before(words, at, _begins)
    return at if opening is None else _Place(at.span, opening, at.after)


def _opened(words: Sequence[Word], found: _Place, present: Present) -> _Place:
    """Since a time, until its end, before it, or after it."""
    opening = _before(words, found, _OPENING.__contains__)
    if opening is None:
        return found
    word, span = words[opening].text, found.span
    start: datetime | None = EARLIEST.astimezone(present.zone)
    end = span.end
    if word in table.SINCE:
        start, end = span.start, None
    elif word in table.BEFORE:
        end = span.start
    elif word in table.AFTER:
        start, end = span.end, None
    elif word not in table.UNTIL:
        return found
    return _Place(Span(start, end, Grain.SPAN), opening, found.after) if start else found


def _before(words: Sequence[Word], found: _Place, wanted: Callable[[str], bool]) -> int | None:
    """The wanted word before a time, the ones that only fill left out."""
    for at in range(found.first - 1, max(-1, found.first - 2 - _GAP), -1):
        if wanted(words[at].text):
            return at
        if words[at].text not in table.FILLING:
            return None
    return None


_OPENING = table.SINCE | table.UNTIL | table.BEFORE | table.AFTER | table.BETWEEN
