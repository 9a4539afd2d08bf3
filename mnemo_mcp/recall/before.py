"""Whether a question is about how it was before, as against how it is now.

Phrases of several words are looked for before single words, and "before" in front of something still to be
done ("before deploying, run the tests") is no past.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mnemo_mcp.recall.datewords import UNITS

_OLD = r"(?:old|older|former|previous|prior|earlier|original|initial)"
_WENT = (
    r"(?:\w+ed|was|were|had|went|got|left|made|began|chose|took|ran|broke|built|came|cut|put|set|split|wrote"
    r"|bought|brought|became|gave|lost|sold|stopped)"
)


@dataclass(frozen=True, slots=True)
class _Signs:
    """What tells of the past and of the present in the languages of one script.

    `before` opens or closes a time that may lie ahead as well: then something says that it is `needed`.
    """

    script: re.Pattern[str]
    phrases: re.Pattern[str]
    before: re.Pattern[str]
    needed: re.Pattern[str]
    single: re.Pattern[str]


def _signs(
    script: str,
    phrases: tuple[str, str],
    before: str,
    needed: str,
    single: tuple[str, str],
    spaced: bool = True,
) -> _Signs:
    edge = r"\b" if spaced else ""
    return _Signs(
        re.compile(script),
        re.compile(rf"{edge}(?:(?P<past>{phrases[0]})|(?P<present>{phrases[1]})){edge}"),
        re.compile(rf"{edge}(?:{before})"),
        re.compile(rf"{edge}(?:{needed}){edge}"),
        re.compile(rf"{edge}(?:(?P<past>{single[0]})|(?P<present>{single[1]})){edge}"),
    )


_LATIN = _signs(
    "[a-z]",
    phrases=(
        r"(?:we|i|you|they|he|she|it|who|that|which|there|what|people|everyone) used to"
        r"|used to (?:be|have|live|work|use|look|say|mean|belong|own|point|listen|depend|like|know|sit)"
        r"|did(?:n['’]t)?(?: \w+){1,4} used? to|in the past(?! (?:\d|few|couple|two|three|four|five|six"
        r"|seven|ten|day|week|month|quarter|year|hour))|back then|at (?:that|the) time|at first"
        r"|in the (?:old|early) days|(?:history|evolution|timeline) of|over time|until recently"
        rf"|(?:the|our|its|their|his|her|an?|which|what) {_OLD}|long ago"
        r"|en el pasado|al principio|(?:historial|historia|evolución) de|el antiguo|la antigua"
        r"|à l['’](?:origine|époque)|par le passé|au début|historique d\w+|l['’]ancien(?:ne)?"
        r"|in der vergangenheit|(?:geschichte|historie|verlauf) (?:von|der|des)|(?:der|die|das) alte"
        r"|no passado|(?:histórico|história) d\w+|o antigo|a antiga"
        r"|in passato|un tempo|in origine|in precedenza|(?:storia|cronologia) d\w+"
        r"|in het verleden|(?:geschiedenis|historie) van|w przeszłości|historia \w+",
        r"right now|working on|at (?:the moment|present)|(?:these|nowa) ?days|for now|as of (?:now|today)"
        r"|ahora mismo|hoy en día|en este momento|en ce moment|à l['’]heure actuelle|im moment|zur ?zeit"
        r"|neste momento|hoje em dia|in questo momento|al momento|op dit moment|w tej chwili",
    ),
    before=(
        rf"before(?= (?:we|you|i|they|it|he|she|that|this|the \w+(?: \w+)?|our \w+|\w+) {_WENT}\b)"
        r"|(?:before|prior to) (?:the|our|that|this|its|their|his|her|then|19\d\d|20\d\d)\b|before(?=\W*$)"
        r"|antes\b(?! (?:de |que )(?:\w+[aei]r(?:se|lo|la)?|que|posible)\b)(?! que\b)"
        r"|avant\b(?! (?:de |d['’]|que\b|tout\b|chaque\b|hier\b))(?!-hier)"
        r"|vor (?:de[mrn]|unserem|unserer)\b(?! \d)|(?:vorher|zuvor)\b"
        r"|(?<!la )(?<!una )(?<!alla )(?<!della )(?<!nella )(?<!sulla )prima\b"
        r"(?! (?:di (?!quest)|che|possibile|volta|riga)\b)"
        r"|vóór\b|voor (?:de|het) (?:migratie|overstap|verhuizing|omschakeling|overgang)\b"
        r"|przed (?!wdroż|chwil)\w+(?:em|ą|mi)\b"
    ),
    needed=(
        r"should|must|needs? to|have to|has to|will|shall|going to|make sure|ensure|always|every|tomorrow"
        r"|debo|debemos|hay que|tengo que|tenemos que|debería\w*|il faut|faut-il|dois|doit|devons|doivent"
        r"|muss|müssen|soll|sollen|sollte\w*|devo|dobbiamo|bisogna|deve|devem|devemos|temos que|preciso"
        r"|moet|moeten|trzeba|muszę|musimy|należy"
    ),
    single=(
        r"previously|formerly|originally|historically|initially|beforehand|anteriormente|previamente"
        r"|originalmente|antiguamente|solía\w*|inicialmente|auparavant|autrefois|jadis|anciennement"
        r"|précédemment|initialement|originellement|früher(?:e[rsnm]?)?|damals|ursprünglich\w*|ehemal\w+"
        r"|einst|anfangs|antigamente|costumava\w*|outrora|originariamente|precedentemente|inizialmente"
        r"|vroeger|voorheen|eerder|oorspronkelijk\w*|destijds|wcześniej|przedtem|dawniej|kiedyś|pierwotnie"
        r"|poprzednio",
        r"now|currently|presently|nowadays|today|still|ahora|actualmente|todavía|hoy|maintenant|actuellement"
        r"|aujourd['’]hui|jetzt|derzeit|aktuell\w*|momentan|heute|agora|atualmente|hoje|adesso|attualmente"
        r"|oggi|nu|momenteel|tegenwoordig|teraz|obecnie|aktualnie",
    ),
)
_CYRILLIC = _signs(
    "[\u0400-\u04ff]",
    phrases=(
        r"в прошлом(?! (?:году|месяце|квартале)\b)|истори[яию] \w+|до сих пор был\w*|в то время",
        r"(?:в|на) данный момент|на сегодня",
    ),
    before=r"до (?:миграции|перехода|переезда|обновления|смены|того как)\b",
    needed=r"нужно|надо|должен|должны|следует|необходимо|треба|потрібно",
    single=(
        r"раньше|прежде|ранее|изначально|первоначально|прежн\w+|когда-то|раніше|колись",
        r"сейчас|теперь|ныне|сегодня|зараз",
    ),
)
_EASTERN = _signs(
    "[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]",
    phrases=(r"在那之前|その当時|当时的|그 당시", r"现在正在|今のところ|现阶段|지금까지"),
    before=(
        r"(?<![天周週月年时時分日])(?:之前|以前)|(?<=[\u4e00-\u9fff])(?<![日週月年時分秒])前(?=は|に|の|、)"
        r"|(?<![일주월년간분]) 전에(?=는|도|$|\W)"
    ),
    needed=r"(?<!主)要|应该|應該|必须|必須|需要|すべき|必要|いけない|해야",
    single=(
        r"从前|從前|[过過]去(?![一二三四五六七八九十几\d])|原来|原來|原先|起初|最初(?!の)|曾经|曾經|先前|当时|當時"
        r"|的历史|的歷史|の履歴|の歴史|昔|かつて|元々|もともと|当初|従来|旧|예전|이전|과거|옛날|원래|처음에|당시|이력",
        r"现在|現在|目前|当前|當前|如今|眼下|今は|今の|いま(?!し|す|せ)|지금|현재|요즘",
    ),
    spaced=False,
)
_LONGEST_UNIT = 16
_LAST_WORD = re.compile(r"\w+(?=\W*$)")
_USUAL = re.compile(r"\b(?:do|does|is|are|runs|happens|comes|goes)\b")
_DONE = re.compile(r"\b(?:was|were|did|had|used)\b")


_TO_A_NAME = re.compile(
    r"\b(?:before|prior to|antes d[eao]s?|avant|vor|prima di|voor|przed|до)"
    r"(?: (?:the|de[nmr]|die|das|il|la|lo|o|a|le|el|het))? ?$",
    re.IGNORECASE,
)
_FROM_A_NAME = re.compile(r"\s?(?:の前|以前|之前|前|이전|\s?전)")
_NOTHING_MORE = re.compile(  # or the participle that German and Dutch close with
    r"\s*(?:[?!.,;:)？！。、，]|$)|\s+(?:\w*ge\w+(?:t|en)|benutzt|verwendet|gebruikt)\b"
)


def before_named(text: str, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a text asks what was before one of the things it names (from, to).

    What must be done before something is not asked about the past, nor is what comes before it each time.
    """
    if any(signs.needed.search(text.lower()) for signs in (_LATIN, _CYRILLIC, _EASTERN)):
        return False
    return any(
        _FROM_A_NAME.match(text, end)
        or (_TO_A_NAME.search(text[max(0, start - 20) : start]) and _NOTHING_MORE.match(text, end))
        for start, end in spans
    )


def asks_past(sentence: str, asks_from: int | None) -> bool:
    """Whether a lower-cased sentence asks how it was; what follows `asks_from`, where it asks, goes first."""
    asks = asks_from is not None or "?" in sentence
    scripts = (_LATIN,) if sentence.isascii() else (_EASTERN, _CYRILLIC, _LATIN)
    found = [signs for signs in scripts if signs.script.search(sentence)]
    for part in dict.fromkeys((sentence[asks_from or 0 :], sentence)):
        for signs in found:
            if (past := _past(part, signs, asks)) is not None:
                return past
    return False


def _past(part: str, signs: _Signs, asks: bool) -> bool | None:
    """Whether that part is of the past or of the present; None where it does not say."""
    if found := signs.phrases.search(part):
        return found.lastgroup == "past"
    done = _DONE.search(part)
    if (asks or done) and any(not _counted(part, each.start()) for each in signs.before.finditer(part)):
        ahead = signs.needed.search(part) or (_USUAL.search(part) and not done)
        if not ahead:
            return True
    single = signs.single.search(part)
    return single.lastgroup == "past" if single else None


def _counted(part: str, at: int) -> bool:
    """Whether it says how long before: thirty days before is a distance, not a time."""
    word = _LAST_WORD.search(part, max(0, at - _LONGEST_UNIT), at)
    return word is not None and word[0] in UNITS
