"""Dating: words about time in a claim become days, told from when and where its lines were said.

A day must be named in the lines themselves, or be the day they were said on; any other is dropped. Without
one a claim holds from when it was said, which is assumed and marked so; so is a day without its year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mnemo_mcp.distil.lines import Line
from mnemo_mcp.errors import Refused
from mnemo_mcp.memory import Instant, instant, moment
from mnemo_mcp.recall.datewords import MONTHS
from mnemo_mcp.recall.eastern import eastern_time
from mnemo_mcp.recall.span import Grain, Present, Span
from mnemo_mcp.recall.spoken import Found, spoken_time
from mnemo_mcp.times import parse_instant
from mnemo_mcp.words import fold

_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MOST_TIMES = 12  # in one text; more are a log
_LONGEST = 6_000  # characters of a line in which times are looked for
_YEAR = re.compile(r"(?:19|20)\d\d")
_SLASHED = re.compile(r"(?<![\d/.-])(\d{1,2})[/.-](\d{1,2})(?:[/.-]\d{2,4})?(?![\d/.-])")
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
# Words that mean another day on another day.
_RELATIVE = re.compile(
    r"(?:\b(?:on|since|from|by|until)\s+)?\b(?:the\s+)?(?:day before yesterday|day after tomorrow|yesterday"
    r"|today"
    r"|tomorrow|tonight|last night|this (?:morning|afternoon|evening)"
    rf"|(?:last|next|this|past|coming) (?:week|month|year|{_WEEKDAY})"
    r"|(?:a|an|one|two|three|four|five|six|\d{1,3}) (?:day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
_OPENED = re.compile(r"(on|since|from|by|until)\s+(?:the\s+)?", re.IGNORECASE)
_HALF_DAYS = re.compile(r"tonight|last night|this (?:morning|afternoon|evening)", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:currently|right now|at the moment|for now|as of now)\b,?\s*", re.IGNORECASE)
# A date written out, with the word that leads to it.
_WRITTEN = re.compile(
    r"(?:,?\s*\b(?:on|since|from|in|by|until|as of|effective)\s+)?(?:\(\s*)?"
    rf"(?:\b(?:19|20)\d\d-\d\d-\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH},? (?:19|20)\d\d\b"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d\d\b)(?:\s*\))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Dated:
    """When a claim holds. `start` is that of the lines where nothing dates it, and `assumed` then."""

    start: Instant
    end: Instant | None
    assumed: bool
    what: str
    dropped: tuple[str, ...] = ()


def dated(what: str, when: str, until: str, cited: Sequence[Line]) -> Dated:
    """When a claim about `cited` lines holds, its `what` told in days, and which dates had no support."""
    said = max(line.episode.occurred_at for line in cited)
    lines = [line for line in cited if line.spoken] or list(cited)
    plain, dropped = _in_days(what, lines)
    start = _supported(when, lines) or (None if when.strip() else _only_day(what, lines))
    end = _supported(until, lines)
    if when.strip() and start is None and not _says_now(when):
        dropped.append(when)
    if until.strip() and end is None:
        dropped.append(until)
    begin = start.at if start else said
    last = end.at if end and end.at > begin else None
    if end and last is None:
        dropped.append(until)
    return Dated(begin, last, start is None or start.assumed, plain, tuple(dict.fromkeys(dropped)))


@dataclass(frozen=True, slots=True)
class _Day:
    at: Instant
    assumed: bool


def _supported(told: str, lines: Sequence[Line]) -> _Day | None:
    """The time that `told` names, where the lines support it: in these words or as a day they name."""
    told = told.strip()
    if not told:
        return None
    for line in lines:
        verbatim = fold(told).casefold() in fold(line.text).casefold()
        found = _resolved(told, line)
        if found is None:
            continue
        day, sure = found
        if verbatim or any(_within(day, span) for each in lines for span in _spans(each)):
            return _Day(instant(day), not sure)
        if day.date() == line.at.date():
            return _Day(instant(day) if sure else line.episode.occurred_at, False)
    return None


def _resolved(told: str, line: Line) -> tuple[datetime, bool] | None:
    """A time in words as told with a line, and whether it can only mean this one."""
    if (slashed := _SLASHED.search(told)) and int(slashed[1]) <= 12 and int(slashed[2]) <= 12:
        return None
    if not _YEAR.search(told) and (near := _nearest(told, line)):
        return near, False
    zone = line.at.tzinfo
    assert zone is not None
    try:
        return moment(parse_instant(told, zone, line.at)).astimezone(zone), True
    except Refused:
        found = next(_times(told, line), None)
    return (found.span.start, True) if found and found.span.start.year > 1970 else None


def _nearest(told: str, line: Line) -> datetime | None:
    """A day and month without a year: the nearest such day, before or after."""
    words = re.findall(r"[^\W\d_]+", told.casefold())
    month = next((MONTHS[word] for word in words if word in MONTHS), None)
    days = re.findall(r"(?<!\d)(\d{1,2})(?!\d)", told)
    if month is None or len(days) != 1 or set(words) & {"last", "next", "this", "pasado", "próximo"}:
        return None
    found = []
    for year in (line.at.year - 1, line.at.year, line.at.year + 1):
        try:
            found.append(datetime(year, month, int(days[0]), tzinfo=line.at.tzinfo))
        except ValueError:  # 29 February, or no day at all
            continue
    return min(found, key=lambda each: abs(each - line.at), default=None)


def _only_day(what: str, lines: Sequence[Line]) -> _Day | None:
    """The one relative day a claim itself names."""
    named = {match[0] for match in _RELATIVE.finditer(what)}
    if len(named) != 1:
        return None
    return _supported(_bare(named.pop()), lines)


def _says_now(when: str) -> bool:
    return bool(re.fullmatch(r"(?:now|right now|today|currently|ahora|hoy|今|现在)\W*", when.strip(), re.I))


def _times(text: str, line: Line) -> Iterator[Found]:
    """The times a text names, told when and where a line was."""
    zone = line.at.tzinfo
    assert zone is not None
    present = Present(line.at, zone)
    rest, at = text[:_LONGEST], 0
    for _ in range(_MOST_TIMES):
        eastern = eastern_time(rest, present) if _UNSPACED.search(rest) else None
        found = eastern or spoken_time(rest, present)
        if found is None:
            return
        yield Found(found.span, at + found.start, at + found.end)
        rest, at = rest[found.end :], at + found.end


def _spans(line: Line) -> Iterator[Span]:
    """Every time a line names, and those that a day without a year may mean."""
    for found in _times(line.text, line):
        yield found.span
        named = line.text[found.start : found.end]
        if not _YEAR.search(named) and (near := _nearest(named, line)):
            yield Span(near, near + timedelta(days=1), Grain.DAY)
    for slashed in _SLASHED.finditer(line.text[:_LONGEST]):
        for month, day in ((slashed[1], slashed[2]), (slashed[2], slashed[1])):
            try:
                start = datetime(line.at.year, int(month), int(day), tzinfo=line.at.tzinfo)
            except ValueError:
                continue
            yield Span(start, start + timedelta(days=1), Grain.DAY)


def _within(day: datetime, span: Span) -> bool:
    end = span.end or span.start + timedelta(days=1)
    return span.start <= day < end or day.date() in (span.start.date(), end.date())


def _in_days(what: str, lines: Sequence[Line]) -> tuple[str, list[str]]:
    """A claim with days in the place of words that will mean others, and without dates nobody named."""
    dropped: list[str] = []
    supported = [span for line in lines for span in _spans(line)]
    own = {line.at.date() for line in lines}

    def told(match: re.Match[str]) -> str:
        opened = _OPENED.match(match[0])
        lead = opened[1] if opened else ""
        expression = _bare(match[0])
        found = next((day for line in lines if (day := _named_day(expression, line))), None)
        if found is None:
            return match[0]
        if re.search(r"month", expression, re.IGNORECASE) and "ago" not in expression:
            return f"{lead or 'in'} {found:%Y-%m}"
        if re.search(r"year", expression, re.IGNORECASE) and "ago" not in expression:
            return f"{lead or 'in'} {found:%Y}"
        week = "the week of " if re.search(r"(?:last|next|this) week", expression, re.IGNORECASE) else ""
        return f"{lead or ('in' if week else 'on')} {week}{found:%Y-%m-%d}"

    def kept(match: re.Match[str]) -> str:
        day = _written_day(match[0], lines[0])
        if day is None or day.date() in own or any(_within(day, span) for span in supported):
            return match[0]
        dropped.append(match[0].strip(" ,()"))
        return ""

    plain = _WRITTEN.sub(kept, what)
    plain = _RELATIVE.sub(told, _PRESENT.sub("", plain))
    return _tidy(plain), dropped


def _named_day(expression: str, line: Line) -> date | None:
    zone = line.at.tzinfo
    assert zone is not None
    plain = {"tonight": "today", "last night": "yesterday"}.get(expression.casefold(), expression)
    plain = "today" if _HALF_DAYS.fullmatch(plain) else re.sub("^coming", "next", plain, flags=re.I)
    try:
        return moment(parse_instant(plain, zone, line.at)).astimezone(zone).date()
    except Refused:
        return None


def _bare(match: str) -> str:
    return _OPENED.sub("", match, count=1).strip().removeprefix("the ").removeprefix("The ")


def _written_day(text: str, line: Line) -> datetime | None:
    found = next(_times(text, line), None)
    return found.span.start if found else None


def _tidy(text: str) -> str:
    return re.sub(r"\s+([.,;:])", r"\1", " ".join(text.split())).strip(" ,;")
