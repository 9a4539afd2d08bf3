"""How people talk: which words agree, refuse, ask, propose, tell of the moment or give orders to a reader.

Closed lists of the languages that are common in conversations with coding assistants. Where none of them is
spoken nothing is recognised, and what needs recognising is not taken for a person's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum


class Act(StrEnum):
    """What a clause does with what it says."""

    STATES = "states"
    ASKS = "asks"
    PROPOSES = "proposes"
    REFUSES = "refuses"


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_AGREES = re.compile(
    r"\W*(?:(?:yes|yep|yeah|yup|ok|okay|sure|agreed|approved|exactly|correct|right(?! now)|perfect|great"
    r"|fine|good"
    r"|lgtm|sounds good|makes sense|go ahead|go for it|go with|do (?:it|that|so|this)|ship it|let'?s (?:do"
    r"|go)"
    r"|si|sí|vale|claro|dale|adelante|perfecto|hazlo|de acuerdo|me parece bien"
    r"|oui|d['’]accord|parfait|vas-y|entendu|ja|genau|einverstanden|passt|mach das|so machen wir"
    r"|sim|certo|pode ser|combinado|faz isso|faça isso|sì|va bene|d['’]accordo|perfetto|facciamo così"
    r"|да|хорошо|давай|согласен|согласна|ладно)\b"
    r"|はい|ええ|うん|そうしよう|そうしましょう|それで|お願いします|了解|賛成"
    r"|好|可以|行|同意|是的|就这样|没问题|就這樣|沒問題|네|예|좋아|그래|그렇게|동의)",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\W*(?:(?:no(?!\s+(?:problem|worries|doubt|idea))|nope|nah|rather not|better not|not (?:now|yet|that"
    r"|like)"
    r"|don['’]?t|do not|stop|too \w+|mejor no|para nada|non|nein|lieber nicht|não|нет|не надо)\b"
    r"|いいえ|いや(?!す)|だめ|ダメ|やめ|不(?!过|過)|别|別|아니|안\s?돼)",
    re.IGNORECASE,
)
_REFUSES = _any(
    r"\b(?:reject(?:ed|s|ing)?|decided against|turned down|ruled out|discarded|abandon(?:ed|s)?|scrapped"
    r"|dropped"
    r"|won['’]t (?:use|do|adopt)|will not (?:use|do|adopt)|not going (?:to|with)|decided not to)\b",
    r"\b(?:descart\w+|rechaz\w+|en contra de|no (?:vamos a )?us\w+|rejet\w+|écart\w+|pas retenu"
    r"|verworf\w+|abgelehnt|dagegen entschieden|rejeit\w+|scartat\w+|rifiutat\w+|отказал\w+|отверг\w+)\b",
    r"却下|不採用|見送|やめた|やめる|やめよ|やめましょ|やめて|否决|否決|放弃|放棄|不采用|不採用|不用了|기각|채택하지",
)
_ASKS = _any(
    r"[?？]\s*$",
    r"^\W*(?:what if|how about|should (?:we|i)|shall (?:we|i)|could (?:we|you|i)|can (?:we|you|i)|would it"
    r"|(?:what|which|why|how|when|where|who)(?:['’]s|\s+(?:should|do|does|did|is|are|can|could|would|will"
    r"|was))"
    r"|is it|are there|do (?:we|you)|does it|did (?:we|you)"
    r"|qué tal si|y si|por qué no|deberíamos|podríamos|et si|pourquoi pas|devrait-on|was wäre wenn"
    r"|wie wäre es"
    r"|sollen wir|sollten wir|e se|que tal|а что если|может быть)\b",
    r"(?:ですか|ますか|でしょうか|かな|吗|呢|么|嗎|까|나요|을까|는지)\s*[?？。.]?\s*$",
)
_MAYBE = _any(
    r"\b(?:maybe|perhaps|might|considered|considering|thinking (?:of|about)|thought (?:of|about)"
    r"|wonder(?:ing)?"
    r"|not sure|evaluat(?:ed|ing)|looked (?:at|into)|toying|quizás?|tal vez|a lo mejor|podríamos|consider\w+"
    r"|estamos pensando|peut-être|envisag\w+|on pourrait|vielleicht|überleg\w+|könnten wir|talvez|forse"
    r"|возможно|подумыва\w+)\b",
    r"かもしれ|検討|考えて|也许|可能会|考虑|考慮|或许|아마|검토",
)
_PROPOSES = _any(
    r"\b(?:recommend(?:ed|s|ing)?|suggest(?:ed|s|ing)?|propos(?:e|es|ed|al|ing)|let['’]?s|let us|should|shall"
    r"|could|would|might|option(?:s)?|alternativ\w+|we can|you can|i['’]d|i would|consider(?:ing)?|ideally"
    r"|recomiendo|sugiero|propongo|podríamos|deberíamos|vamos a|je (?:recommande|suggère|propose)|on pourrait"
    r"|ich (?:empfehle|schlage)|schlage vor|wir könnten|sollten|recomendo|sugiro|proponho|poderíamos"
    r"|consiglio|suggerisco|propongo|potremmo|рекомендую|предлагаю|можно)\b",
    r"おすすめ|お勧め|提案|しましょう|どうでしょう|建议|建議|推荐|推薦|可以考虑|추천|제안|하는 게 어떨",
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CLAUSES = re.compile(
    r"\s*[;；]\s*|,?\s+(?:but|and|so|pero|mais|aber|und|e|y|et|mas|ma|но|и)\s+|(?<=[、，])|,\s+",
    re.IGNORECASE,
)
_DENIES = _any(
    r"\b(?:not|no|never|no longer|n['’]t|\w+n['’]t|without|instead of|against|avoid(?:s|ed)?|reject(?:ed|s)?"
    r"|dropped|abandoned|discarded|stopped|ruled out|declined|too (?:heavy|slow|complex|expensive))\b"
)
_TELLS_OF_PROPOSING = _any(r"\b(?:propos\w+|suggest\w+|recommend\w+|considered|offered|asked|wonder\w*)\b")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, lines apart."""
    return (" ".join(part.split()) for part in _SENTENCES.split(text) if part.strip())


def clauses(sentence: str) -> list[str]:
    """The parts of a sentence that say something each."""
    return [part.strip() for part in _CLAUSES.split(sentence) if part and part.strip()] or [sentence]


def acts(text: str, *, of_person: bool) -> Iterator[tuple[str, Act]]:
    """Every clause of a text with what it does. "Let's" and "should" decide where a person says them."""
    for sentence in sentences(text):
        asks = bool(_ASKS.search(sentence))
        for clause in clauses(sentence):
            yield clause, _act(clause, asks, of_person)


def _act(clause: str, asks: bool, of_person: bool) -> Act:
    if _REFUSES.search(clause):
        return Act.REFUSES
    if asks or _ASKS.search(clause):
        return Act.ASKS
    if _MAYBE.search(clause) or (not of_person and _PROPOSES.search(clause)):
        return Act.PROPOSES
    return Act.STATES


def agrees(text: str) -> bool:
    """Whether a reply begins by saying yes."""
    return bool(_AGREES.match(text)) and not _NO.match(text)


def refuses(text: str) -> bool:
    """Whether a reply begins by saying no, or says that something was turned down."""
    return bool(_NO.match(text)) or bool(_REFUSES.search(text))


def offers(text: str) -> bool:
    """Whether a text asks or proposes something that a short reply may decide."""
    return any(act in (Act.ASKS, Act.PROPOSES) for _, act in acts(text, of_person=False))


def denies(claim: str) -> bool:
    """Whether a claim, in English, says that something is not so."""
    return bool(_DENIES.search(claim))


def tells_of_proposing(claim: str) -> bool:
    """Whether a claim says itself that something was only proposed."""
    return bool(_TELLS_OF_PROPOSING.search(claim))


_ALWAYS = _any(
    r"\b(?:from now on|always|never|every (?:time|day|week|commit|release|pr)|each time|in general|generally"
    r"|de ahora en adelante|siempre|nunca|toujours|jamais|désormais|immer|nie|niemals|ab sofort|sempre"
    r"|d['’]ora in poi|a partir de agora|всегда|никогда|впредь)\b",
    r"今後|これから|いつも|必ず|绝不|以后|以後|总是|從現在|从现在|항상|앞으로|절대",
)
_FOR_NOW = _any(
    r"\b(?:today|right now|at the moment|for now|this time|just this once|for this (?:task|one|pr|session)"
    r"|just for|currently|temporarily|until i|tonight|this (?:morning|afternoon|evening)"
    r"|hoy|ahora mismo|por ahora|de momento|esta vez|aujourd['’]hui|pour l['’]instant|cette fois"
    r"|heute|gerade|im moment|vorerst|diesmal|hoje|agora|por enquanto|oggi|per ora|adesso|сегодня|сейчас"
    r"|пока)\b",
    r"今日は|今回|とりあえず|今は|今だけ|暂时|暫時|目前|这次|這次|今天|지금은|이번만|오늘은|일단",
)
_PASSING = _any(
    r"\b(?:test|tests|suite|check|checks|build|builds|lint|linter|ci|pipeline|workflow|job"
    r"|jobs)\b[^.]{0,60}\b"
    r"(?:pass|passes|passed|passing|green|succeed\w*|succeeds|running|queued|pending|in progress|finished"
    r"|completed|red|fail|fails|failed|failing)\b",
    r"\b(?:all|\d+)(?: of)?(?: the)? (?:\d+ )?tests?\b[^.]{0,30}\b(?:pass|green|ok|fail|run)\w*",
    r"\b(?:pass(?:ed|es)?|green|running|failed)\b[^.]{0,30}\b(?:tests|ci|build|pipeline)\b\s*\.?$",
    r"\b(?:i|we)['’]?(?:ll| will| am going to|'m going to| am about to|'m about to)\b[^.]{0,20}\b(?:now"
    r"|next|then)\b",
    r"\b(?:assistant|agent|claude|codex)\b[^.]{0,30}\b(?:will|is going to|is about to|is now|is currently)\b",
    r"^(?:the )?(?:assistant|agent|claude|codex)\s+(?:ran|read|opened|looked|searched|edited|listed|checked"
    r"|created"
    r"|started|tried|is \w+ing)\b",
    r"\b(?:work in progress|not (?:yet )?(?:pushed|committed)|uncommitted|still running|is running)\b",
    r"\b(?:branch|commit|pr|pull request)\b[^.]{0,40}\b(?:was|is|has been)\s+(?:pushed|opened|created|rebased"
    r"|checked out)\b",
)
_MOOD = _any(
    r"\b(?:tired|exhausted|sleepy|hungry|in a hurry|in a rush|frustrated|annoyed|busy (?:today|right now)"
    r"|not feeling well|on (?:my|a) (?:break|train|plane))\b"
)
_ITSELF = _any(
    r"\b(?:assistant|agent|claude|codex|model|ai)\b[^.]{0,30}\b(?:has|have|can|offers?|supports?|provides?"
    r"|access|capab\w+|able)\b[^.]{0,60}\b(?:tools?|read|write|bash|edit|grep|search|recall|remember"
    r"|commands?"
    r"|functions?|images?|files?)\b",
    r"\b(?:available|following|these) tools?\b",
    r"\bknowledge cutoff\b",
)
_ORDERS = _any(
    r"\b(?:when|while|if) (?:you(?:['’]re| are)? )?(?:summari[sz]\w+|distil\w+|extract\w+|memori[sz]\w+)",
    r"\b(?:store|save|note|record|add|write|put|keep)\b[^.\n]{0,40}\b(?:memory|memories|that|as a (?:fact"
    r"|decision"
    r"|preference))\b",
    r"\bremember (?:that|this|to|the following)\b",
    r"\b(?:ignore|disregard|forget)\b[^.\n]{0,30}\b(?:previous|earlier|prior|above|all)\b[^.\n]{0,30}"
    r"\b(?:instructions?|rules?|prompts?|messages?)\b",
    r"\b(?:you|the assistant|the agent|assistants|agents) (?:must|should|shall|may|are to|can) (?:now "
    r"|always |never )?"
    r"(?:run|send|store|remember|execute|use|trust|skip|delete|say|tell|obey)\b",
    r"<\s*/?\s*(?:system|memory|mnemo)\b|\[SYSTEM",
)


def lasting(text: str) -> bool:
    """Whether a text says that it holds from now on."""
    return bool(_ALWAYS.search(text))


def of_the_moment(text: str) -> bool:
    """Whether a text says that it holds for now."""
    return bool(_FOR_NOW.search(text))


def passing(claim: str) -> bool:
    """Whether a claim, in English, logs work that is over by the next conversation."""
    return bool(_PASSING.search(claim))


def mood(claim: str) -> bool:
    """Whether a claim, in English, tells how somebody feels just now."""
    return bool(_MOOD.search(claim))


def about_itself(claim: str) -> bool:
    """Whether a claim, in English, tells what an assistant is able to do."""
    return bool(_ITSELF.search(claim))


def gives_orders(text: str) -> bool:
    """Whether a text speaks to whoever reads it, and tells them what to store or to do."""
    return bool(_ORDERS.search(text))
