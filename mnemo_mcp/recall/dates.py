"""Dates in a question: which time it asks about, in the zone of whoever asks."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from mnemo_mcp.memory import Instant, Period, instant, moment
from mnemo_mcp.recall.eastern import eastern_time
from mnemo_mcp.recall.span import Grain, Present
from mnemo_mcp.recall.spoken import spoken_time
from mnemo_mcp.words import fold, words

_EASTERN = re.compile("[\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
# What happened, what did we do: words of a question that asks for whatever lies in a time.
_GENERIC = frozenset(
    words(
        """
        happen happened happening do did done doing change changed decide decided decision learn
        learned new news event work worked say said pasó ocurrió hicimos hacer cambió decidimos
        hecho cambiado decidido passé passe fait avons quavons-nous quavons faisait geschah passiert
        passierte gemacht geändert entschieden haben wurde wurden gelernt aconteceu fizemos mudou
        feito fez successo fatto abbiamo cambiato deciso accaduto gebeurd gebeurde gedaan hebben
        veranderd besloten wydarzyło stało zrobiliśmy zmieniło zdecydowaliśmy что произошло
        случилось сделали делали изменилось решили мы было co się wat deden we wij robiliśmy działo
        """
    )
)
_GENERIC_EASTERN = re.compile(
    "发生|發生|做|决定|決定|改变|改變|变化|變化|变更|学到|我们|我們|什么|什麼|哪些|事情|事|了|的|过|在|有|吗|呢"
    "|何|なに|起き|起こ|しまし|しました|しています|ました|やった|変わ|変更|決め|学び|私たち|我々|あった|あり|でした|です"
    "|した|か|を|が|は|に|の|て|と|り|っ|こと|무슨|무엇|뭐|뭘|어떤|일|했|하|한|결정|변경|바뀌|바뀐|배운|우리|있|었|났|나"
    "|요|어|니|까|은|는|이|가|을|를|에|게|것|습|지|된|되"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The time a question names, and whether it asks for whatever lies in it or for something else at it.

    `grain` tells how exactly the time is named.
    """

    period: Period
    words: str
    anything: bool
    grain: Grain = Grain.DAY

    def shown(self) -> dict[str, Any]:
        """The reading as plain values, for people."""
        return {
            "words": self.words,
            "from": self.period.start,
            "to": self.period.end,
            "grain": self.grain.value,
            "anything": self.anything,
        }


def asked_time(text: str, telling: tuple[str, ...], zone: tzinfo, now: Instant) -> Asked | None:
    """The first time that `text` names; `telling` are the words of the question that tell something."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    present = Present(moment(now).astimezone(zone), zone)
    eastern = bool(_EASTERN.search(text))
    found = (eastern_time(text, present) if eastern else None) or spoken_time(text, present)
    if found is None:
        return None
    named, rest = text[found.start : found.end], f"{text[: found.start]} {text[found.end :]}"
    if eastern:
        anything = not re.search(r"\w", _GENERIC_EASTERN.sub("", rest))
    else:
        dated = set(words(named))
        anything = all(word in _GENERIC or word in dated or _of_date(word, named) for word in telling)
    end = found.span.end
    period = Period(instant(found.span.start), None if end is None else instant(end))
    return Asked(period, named, anything, found.span.grain)


def _of_date(word: str, named: str) -> bool:
    return word in fold(named).casefold()
