"""Times in Chinese, Japanese and Korean, where words are not parted: one pattern a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from mnemo_mcp.recall.span import EARLIEST, Grain, Present, Span
from mnemo_mcp.recall.spoken import Found

_COUNT = r"[0-9]{1,5}|[一二两兩三四五六七八九]?十[一二三四五六七八九]?|[一二两兩三四五六七八九]"
_DATE = (
    r"(?P<year>(?:19[7-9]"
    r"|20\d)\d)\s?[年년](?:\s?(?P<month>\d{1,2})\s?[月월](?:\s?(?P<day>\d{1,2})\s?[日号號일])?)?"
    r"(?:\s?第?(?P<quarter>[1-4一二三四])\s?(?:季度|四半期|분기))?"
    r"|(?P<near_year>去年|今年|明年|昨年|来年|前年|작년|올해"
    r"|내년)[のに]?\s?(?P<near_month>\d{1,2})[月월](?![間个個額])"
    r"|(?P<bare_month>\d{1,2})\s?[月월]\s?(?P<bare_day>\d{1,2})\s?[日号號일]"
    r"|(?P<lone_month>\d{1,2})\s?[月월](?=份|に|の|は|中|以来|から|まで|到|之前|에|부터|까지)"
)
_HAN = re.compile(
    rf"{_DATE}"
    r"|(?P<week>大?上上|上|这|這|本|下下|下|先々|先|今|来|再来)(?:一?[个個])?(?:周|週|星期|礼拜|禮拜)"
    r"(?:の?(?P<weekday>[一二三四五六天]|日(?!本)|[月火水木金土日]曜日?))?"
    rf"|(?P<ago>{_COUNT})\s?(?P<ago_unit>[个個]?小[时時]|時間|分钟|分鐘|分|天|日"
    rf"|[个個]?(?:周|週|星期)|週間"
    r"|[个個か]月|[ヶカヵケ]月|年)(?:之?前|以前)"
    rf"|(?:最近|过去|過去|近"
    rf"|ここ)[的の]?(?P<recent>{_COUNT})\s?(?P<recent_unit>[个個]?小[时時]|時間|天|日"
    r"|[个個]?(?:周|週|星期)|[个個か]月|[ヶカヵケ]月|年)[间間]?"
    r"|(?P<word>大前天|前天|昨天|昨晚|今天|今早|今晚|明天|后天|後天|一昨日|おととい|昨日|きのう|今日|きょう"
    r"|本日|明日|明後日"
    r"|上[个個]?季度|这[个個]季度|本季度|先四半期|今四半期|上[个個]?月|这[个個]月|這個月|本月|下[个個]月"
    r"|先々月|先月|今月|来月"
    r"|去年|一昨年|前年|今年|本年|明年|昨年|来年)"
)
_HANGUL = re.compile(
    rf"{_DATE}"
    r"|(?P<week>지지난|지난|이번|다음)\s?주(?!년)\s?(?P<weekday>[월화수목금토일]요일)?"
    r"|(?P<alone>지난|이번|다음)\s(?P<alone_day>[월화수목금토일])요일"
    r"|(?P<ago>\d{1,5}|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)\s?(?P<ago_unit>분|시간|일|주일?|개월|달"
    r"|년)\s?전"
    r"|(?:지난|최근)\s?(?P<recent>\d{1,5}|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)\s?(?P<recent_unit>시간"
    r"|일|주|개월|달|년)"
    r"|(?P<word>엊그제|그저께|그제|어제|오늘|내일|모레|지지난\s?달|지난\s?달|이번\s?달|다음\s?달"
    r"|지난\s?분기|이번\s?분기"
    r"|재작년|작년|지난\s?해|올해|금년|내년)"
)
_WORDS: dict[str, tuple[int, Grain]] = {
    word: (number, grain)
    for grain, number, words in (
        (Grain.DAY, -3, "大前天"),
        (Grain.DAY, -2, "前天 一昨日 おととい 그저께 그제 엊그제"),
        (Grain.DAY, -1, "昨天 昨晚 昨日 きのう 어제"),
        (Grain.DAY, 0, "今天 今早 今晚 今日 きょう 本日 오늘"),
        (Grain.DAY, 1, "明天 明日 내일"),
        (Grain.DAY, 2, "后天 後天 明後日 모레"),
        (Grain.QUARTER, -1, "上季度 上个季度 上個季度 先四半期 지난분기"),
        (Grain.QUARTER, 0, "这个季度 這個季度 本季度 今四半期 이번분기"),
        (Grain.MONTH, -2, "先々月 지지난달"),
        (Grain.MONTH, -1, "上月 上个月 上個月 先月 지난달"),
        (Grain.MONTH, 0, "这个月 這個月 这個月 這个月 本月 今月 이번달"),
        (Grain.MONTH, 1, "下个月 下個月 来月 다음달"),
        (Grain.YEAR, -2, "前年 一昨年 재작년"),
        (Grain.YEAR, -1, "去年 昨年 작년 지난해"),
        (Grain.YEAR, 0, "今年 本年 올해 금년"),
        (Grain.YEAR, 1, "明年 来年 내년"),
    )
    for word in words.split()
}
_WEEKS = {
    "大上上": -3, "上上": -2, "上": -1, "先々": -2, "先": -1, "下下": 2, "下": 1, "来": 1, "再来": 2,
    "지지난": -2, "지난": -1, "다음": 1,
}  # fmt: skip
_DAYS_OF_WEEK = ("一月월", "二火화", "三水수", "四木목", "五金금", "六土토", "日天일")
_WEEKDAYS = {letter: number for number, letters in enumerate(_DAYS_OF_WEEK) for letter in letters}
_DIGITS = {
    "一": 1, "二": 2, "两": 2, "兩": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
    "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10,
}  # fmt: skip
_UNITS = {
    Grain.MINUTE: "分 分钟 分鐘 분",
    Grain.HOUR: "小时 小時 時間 시간",
    Grain.DAY: "天 日 일",
    Grain.WEEK: "周 週 星期 週間 주 주일",
    Grain.MONTH: "月 か月 ヶ月 カ月 ヵ月 ケ月 개월 달",
    Grain.YEAR: "年 년",
}
_GRAINS = {word: grain for grain, words in _UNITS.items() for word in words.split()}

_SINCE = re.compile(r"\s?(?:以来|以來|以后|以後|以降|之后|之後|から|起|부터|이후|이래)")
_BEFORE = re.compile(r"\s?(?:之前|以前|より前|이전|전에)")
_UNTIL = re.compile(r"\s?(?:为止|為止|まで|까지)")
_JOIN = re.compile(r"\s?(?:到|至|から|和|与|與|と|부터|에서|와|과|~|～)\s?")
_FROM = re.compile(r"[从從自]$")


def eastern_time(text: str, present: Present) -> Found | None:
    """The first time named in `text`, with what makes it a beginning, an end or a range."""
    for pattern in (_HAN, _HANGUL):
        for match in pattern.finditer(text):
            if span := _read(match, present):
                return _bounded(text, Found(span, match.start(), match.end()), pattern, present)
    return None


def _read(match: re.Match[str], present: Present) -> Span | None:
    for part, rule in _RULES.items():
        if match[part]:
            try:
                return rule(match, present)
            except (ValueError, OverflowError):
                return None  # a date that does not exist, or lies beyond the calendar
    return _alone(match, present)


def _bounded(text: str, found: Found, pattern: re.Pattern[str], present: Present) -> Found:
    """A time with the words around it that open or close it."""
    span, start, end = found.span, found.start, found.end
    if join := _JOIN.match(text, end):
        later = pattern.match(text, join.end())
        second = _read(later, present) if later else None
        if later and second and second.end and second.end > span.start:
            return Found(Span(span.start, second.end, Grain.SPAN), start, later.end())
    if closing := _SINCE.match(text, end):
        return Found(Span(span.start, None, Grain.SPAN), start, closing.end())
    early = EARLIEST.astimezone(present.zone)
    if closing := _BEFORE.match(text, end):
        return Found(Span(early, span.start, Grain.SPAN), start, closing.end())
    if closing := _UNTIL.match(text, end):
        return Found(Span(early, span.end, Grain.SPAN), start, closing.end())
    if opening := _FROM.search(text, 0, start):
        return Found(Span(span.start, None, Grain.SPAN), opening.start(), end)
    return found


def _dated(match: re.Match[str], present: Present) -> Span:
    year = int(match["year"])
    if match["quarter"]:
        return present.quarter(_number(match["quarter"]), year)
    if match["month"]:
        return present.dated(year, int(match["month"]), int(match["day"]) if match["day"] else None)
    return present.whole(date(year, 1, 1), Grain.YEAR)


def _near_dated(match: re.Match[str], present: Present) -> Span:
    year = present.today.year + _WORDS[match["near_year"]][0]
    return present.dated(year, int(match["near_month"]), None)


def _bare_dated(match: re.Match[str], present: Present) -> Span:
    return present.dated(None, int(match["bare_month"]), int(match["bare_day"]))


def _week(match: re.Match[str], present: Present) -> Span:
    week = present.shifted(_WEEKS.get(match["week"], 0), Grain.WEEK)
    if not match["weekday"]:
        return week
    monday = week.start.date()
    return present.whole(monday + timedelta(days=_WEEKDAYS[match["weekday"][0]]), Grain.DAY)


def _ago(match: re.Match[str], present: Present) -> Span:
    return present.shifted(-_number(match["ago"]), _grain(match["ago_unit"]))


def _recent(match: re.Match[str], present: Present) -> Span:
    return present.recent(_number(match["recent"]), _grain(match["recent_unit"]))


def _word(match: re.Match[str], present: Present) -> Span:
    return present.shifted(*_WORDS["".join(match["word"].split())])


def _alone(match: re.Match[str], present: Present) -> Span:
    """Last Tuesday."""
    return present.weekday(_WEEKDAYS[match["alone_day"]], _WEEKS.get(match["alone"], 0))


_RULES: dict[str, Callable[[re.Match[str], Present], Span]] = {
    "year": _dated,
    "near_year": _near_dated,
    "bare_month": _bare_dated,
    "lone_month": lambda match, present: present.dated(None, int(match["lone_month"]), None),
    "week": _week,
    "ago": _ago,
    "recent": _recent,
    "word": _word,
}


def _grain(unit: str) -> Grain:
    return _GRAINS[unit.lstrip("个個")]


def _number(text: str) -> int:
    """A number in figures or Chinese signs up to 99."""
    if text.isdecimal():
        return int(text)
    if text in _DIGITS:
        return _DIGITS[text]
    tens, ten, ones = text.partition("十")
    if not ten:
        raise ValueError(f"{text} is no number")
    return (_DIGITS[tens] if tens else 1) * 10 + (_DIGITS[ones] if ones else 0)
