"""Whether a question is about how it was before, as against how it is now.

Phrases of several words are looked for before single words, and "before" in front of something still to be
done ("before deploying, run the tests") is no past.
"""

from __future__ import annotations

import re

_NEEDED = re.compile(
    r"\b(?:should|must|needs? to|have to|has to|will|shall|going to|make sure|ensure|always|every"
    r"|tomorrow|debo|debemos|hay que|tengo que|tenemos que|debería\w*|il faut|faut-il|dois|doit|devons"
    r"|doivent"
    r"|muss|müssen|soll|sollen|sollte\w*|devo|dobbiamo|bisogna|deve|devem|devemos|temos que|preciso|moet"
    r"|moeten"
    r"|trzeba|muszę|musimy|należy|нужно|надо|должен|должны|следует|необходимо)\b"
    r"|(?<!主)要|应该|應該|必须|必須|需要|すべき|必要|いけない|해야"
)
_USUAL = re.compile(r"\b(?:do|does|is|are|runs|happens|comes|goes)\b")
_DONE = re.compile(r"\b(?:was|were|did|had|used)\b")
_OLD = r"(?:old|older|former|previous|prior|earlier|original|initial)"
_WENT = (
    r"(?:\w+ed|was|were|had|went|got|left|made|began|chose|took|ran|broke|built|came|cut|put|set|split"
    r"|wrote|bought"
    r"|brought|became|gave|lost|sold|stopped)"
)

# A time that "before" or its like names; what must still be done beforehand does not lie in the past.
_BEFORE = re.compile(
    rf"\bbefore(?= (?:we|you|i|they|it|he|she|that|this|the \w+(?: \w+)?|our \w+|\w+) {_WENT}\b)"
    r"|\b(?:before|prior to) (?:the|our|that|this|its|their|his|her|then|19\d\d|20\d\d)\b|\bbefore(?=\W*$)"
    r"|\bantes(?! (?:de |que )(?:\w+[aei]r(?:se|lo|la)?|que|posible)\b)(?! que\b)"
    r"|\bavant(?! (?:de |d['’]|que\b|tout\b|chaque\b|hier\b))(?!-hier)"
    r"|\bvor (?:de[mrn]|unserem|unserer)\b(?! \d)|\b(?:vorher|zuvor)\b"
    r"|(?<!la )(?<!una )(?<!alla )(?<!della )(?<!nella )(?<!sulla )\bprima(?! (?:di (?!quest)|che|possibile"
    r"|volta|riga)\b)"
    r"|\bvóór\b|\bvoor (?:de|het) (?:migratie|overstap|verhuizing|omschakeling|overgang)\b"
    r"|\bprzed (?!wdroż|chwil)\w+(?:em|ą|mi)\b|\bдо (?:миграции|перехода|переезда|обновления|смены"
    r"|того как)\b"
    r"|(?<![天周週月年时時分])(?:之前|以前)|(?<=[\u4e00-\u9fff])(?<![日週月年時分秒])前(?=は|に|の|、)"
    r"|(?<![일주월년간분]) 전에(?=는|도|$|\W)"
)
_PHRASES = re.compile(
    rf"(?P<past>\b(?:we|i|you|they|he|she|it|who|that|which|there|what|people|everyone) used to\b"
    r"|\bused to (?:be|have|live|work|use|look|say|mean|belong|own|point|listen|depend|like|know|sit)\b"
    r"|\bdid(?:n['’]t)?(?: \w+){1,4} used? to\b|\bin the past\b|\bback then\b|\bat (?:that|the) time\b"
    r"|\bat first\b"
    r"|\bin the (?:old|early) days\b|\b(?:history|evolution|timeline) of\b|\bover time\b|\buntil recently\b"
    rf"|\b(?:the|our|its|their|his|her|an?|which|what) {_OLD}\b|\blong ago\b"
    r"|\ben el pasado\b|\bal principio\b|\b(?:historial|historia|evolución) de\b|\bel antiguo\b"
    r"|\bla antigua\b"
    r"|\bà l['’](?:origine|époque)\b|\bpar le passé\b|\bau début\b|\bhistorique d|\bl['’]ancien(?:ne)?\b"
    r"|\bin der vergangenheit\b|\b(?:geschichte|historie|verlauf) (?:von|der|des)\b|\bder alte\b|\b(?:die"
    r"|das) alte\b"
    r"|\bno passado\b|\b(?:histórico|história) d|\bo antigo\b|\ba antiga\b|\bin passato\b|\bun tempo\b"
    r"|\bin origine\b"
    r"|\bin precedenza\b|\b(?:storia|cronologia) d|\bin het verleden\b|\b(?:geschiedenis|historie) van\b"
    r"|\bw przeszłości\b|\bhistoria \w+|\bв прошлом\b(?! (?:году|месяце|квартале))|\bистори[яию] )"
    r"|(?P<present>\bright now\b|\bworking on\b|\bat (?:the moment|present)\b|\b(?:these|nowa) ?days\b"
    r"|\bfor now\b"
    r"|\bas of (?:now|today)\b|\bahora mismo\b|\bhoy en día\b|\ben este momento\b|\ben ce moment\b"
    r"|\bà l['’]heure actuelle\b|\bim moment\b|\bzur ?zeit\b|\bneste momento\b|\bhoje em dia\b"
    r"|\bin questo momento\b"
    r"|\bal momento\b|\bop dit moment\b|\bw tej chwili\b|\b(?:в|на) данный момент\b)"
)
_SINGLE = re.compile(
    r"(?P<past>\b(?:previously|formerly|originally|historically|initially|beforehand|anteriormente"
    r"|previamente"
    r"|originalmente|antiguamente|solía\w*|inicialmente|auparavant|autrefois|jadis|anciennement|précédemment"
    r"|initialement|originellement|früher(?:e[rsnm]?)?|damals|ursprünglich\w*|ehemal\w+|einst|anfangs"
    r"|antigamente|costumava\w*|outrora|originariamente|precedentemente|inizialmente|vroeger|voorheen|eerder"
    r"|oorspronkelijk\w*|destijds|wcześniej|przedtem|dawniej|kiedyś|pierwotnie|poprzednio|раньше|прежде|ранее"
    r"|изначально|первоначально|прежн\w+|раніше|колись)\b"
    r"|从前|從前|过去(?![一二三四五六七八九十几\d])|過去(?![一二三四五六七八九十\d])|原来|原來|原先|起初|最初|曾经|曾經|先前"
    r"|当时|當時|当時|历史|歷史|履歴|歴史|昔|かつて|元々|もともと|当初|従来|旧|예전|이전|과거|옛날|원래|처음에|당시|이력)"
    r"|(?P<present>\b(?:now|currently|presently|nowadays|today|still|ahora|actualmente|todavía|hoy|maintenant"
    r"|actuellement|aujourd['’]hui|jetzt|derzeit|aktuell\w*|momentan|heute|agora|atualmente|hoje|adesso"
    r"|attualmente"
    r"|oggi|nu|momenteel|tegenwoordig|teraz|obecnie|aktualnie|сейчас|теперь|ныне|зараз)\b"
    r"|现在|現在|目前|当前|當前|如今|眼下|今は|今の|いま(?!し|す|せ)|지금|현재|요즘)"
)


def asks_past(sentence: str, asks_from: int | None) -> bool:
    """Whether a lower-cased sentence asks how it was; what follows `asks_from`, where it asks, goes first."""
    asks = asks_from is not None or "?" in sentence
    for part in (sentence[asks_from or 0 :], sentence):
        if found := _PHRASES.search(part):
            return found.lastgroup == "past"
        if _BEFORE.search(part) and not _lies_ahead(part) and (asks or _DONE.search(part)):
            return True
        if found := _SINGLE.search(part):
            return found.lastgroup == "past"
    return False


def _lies_ahead(part: str) -> bool:
    return bool(_NEEDED.search(part)) or bool(_USUAL.search(part) and not _DONE.search(part))
