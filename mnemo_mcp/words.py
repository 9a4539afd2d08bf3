"""Words of any language: the one way texts are taken apart for matching.

Composed, decomposed and unaccented spellings meet; identifiers, paths, versions and error codes are
kept whole beside their parts; scripts without spaces are read as overlapping pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# What may be left out in writing: accents, the points of Hebrew, the vowel signs of Arabic.
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"
)
_APOSTROPHES = re.compile(r"(?<=\w)['’ʼ](?=\w)")
_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED = re.compile(f"[{_CJK}]")
_VOWELS = "\u0900-\u0dff\u0e00-\u0eff"  # Indic and Thai vowels are marks, not letters, to Python
# A compound: letters, digits and signs written together.
_COMPOUND = re.compile(
    rf"[{_CJK}]+|[$€£]?(?:(?![{_CJK}])[\w{_VOWELS}])"
    rf"(?:(?:(?![{_CJK}])[\w{_VOWELS}])|[-./:@~\\](?=\w))*(?:\+{{1,2}}|[#%])?"
)
_PARTS = re.compile(rf"(?:(?!_)[\w{_VOWELS}])+")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+[a-z]*")
_HUMPED = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_NUMBER = re.compile(r"[$€£]?\d[\d.,:]*%?")

_FUNCTION_WORDS = """
    a about after all also am an and any are as at be been before being but by can could did do does doing
    done dont for from get had has have he her here him his how i if in into is it its just let like may
    me more most my no not now of off on one or our out over please should so some such than that the
    their them then there these they this those to too under until up us use used very was we were what
    when where which while who whom whose why will with would yes you your al ante aqui asi aun como con
    contra cual cuales cuando cuanta cuanto cuantos de del desde donde dos el ella ellos en entre era eran
    es esa ese eso esta este esto fue ha hace hacia han hasta hay la las le les lo los mas mi muy ni nos
    nosotros o os otra otro para pero por porque que quien se sea segun ser si sin sobre son su sus tal te
    tiene tu tus un una unas uno unos y ya au aux avec ce ces cette dans des du elle est et eux il ils je
    leur lui ma mais mes moi mon ne notre nous ou par pas pour qu quand quel quelle quelles quels qui quoi
    sa sans ses sont sur ta tes toi ton une vos votre vous pourquoi aber als auch auf aus bei bin bis da
    das dass dem den der die dies diese dieser dir durch ein eine einem einen einer er fur hat hatte ich
    ihm ihn ihr im ist ja kann kein keine man mit nach nein nicht noch nur ob oder sich sie sind uber um
    und uns vom von vor war warum weil welche welcher wenn wer wie wir wird wo zu zum zur ao aos com e ele
    em essa esse foi isso na nas nem num onde pela pelo qual quem seu sua tem uma alla che chi ci cosa dal
    dalla dei della di gli nel nella non per perche piu quale sono sul tra
    """

_REPLIES = """
    y yes yep yeah ok okay k sure fine good great nice perfect cool thanks thank thx ty please continue go
    ahead next proceed again done right correct agreed exactly lgtm hello hi hey start begin stop wait no
    nope sounds looks look well sure help keep going carry more now
    si sí vale claro bien bueno perfecto gracias adelante sigue siga continua continúa dale hola siguiente
    listo correcto exacto por favor
    oui merci bien parfait continue continuez vas-y allez suivant salut bonjour
    ja nein danke bitte weiter gut genau passt klar hallo los super
    sim obrigado obrigada certo continue segue próximo olá
    sì grazie avanti va bene perfetto ciao prossimo
    да нет спасибо хорошо дальше продолжай ладно привет
    はい いいえ ありがとう 続けて 続けてください 次 お願いします 了解 わかりました おk
    好 好的 是 是的 对 不 继续 請繼續 请继续 繼續 下一个 谢谢 謝謝 可以 行 嗯 你好
    네 예 아니요 계속 계속해 다음 감사합니다 고마워 좋아 안녕
"""


def fold(text: str) -> str:
    """`text` in the form in which spellings meet: compatible forms, unaccented, apostrophes dropped."""
    plain = _MARKS.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text)))
    return _APOSTROPHES.sub("", unicodedata.normalize("NFC", plain))


def words(text: str) -> list[str]:
    """All words of `text` in order, wholes before their parts, repeats kept."""
    if not text.isascii():
        text = fold(text)
    elif "'" in text:
        text = _APOSTROPHES.sub("", text)
    found: list[str] = []
    for match in _COMPOUND.finditer(text):
        found += _split(match[0])
    return found


def telling(text: str) -> list[str]:
    """The distinct words of a text that can tell one memory from another, in order."""
    return telling_among(words(text))


def telling_among(found: Iterable[str]) -> list[str]:
    """The distinct ones of these words that can tell one memory from another, in order."""
    return [word for word in dict.fromkeys(found) if word not in STOP_WORDS]


def is_identifier(word: str) -> bool:
    """Whether a folded word names one exact thing: it holds a digit, or signs inside it."""
    if word.isalpha():
        return False
    return any(letter.isdigit() for letter in word) or any(sign in word for sign in "_/.:@\\")


def _split(compound: str) -> list[str]:
    if _UNSPACED.match(compound):
        return _pairs(compound)
    whole = compound.casefold()
    if compound.islower() and compound.isalpha():
        return [_singular(whole)]
    if _NUMBER.fullmatch(compound):
        bare = whole.strip("$€£%")
        return [whole] if bare == whole else [whole, bare]
    parts = [
        _singular(hump.casefold())
        for part in _PARTS.findall(compound)
        for hump in (_HUMPS.findall(part) if part.isascii() and _HUMPED.search(part) else (part,))
    ]
    if parts == [_singular(whole)]:
        return parts
    joined = [part.casefold() for part in _PARTS.findall(compound)]
    middle = joined if len(joined) > 1 else []
    return list(dict.fromkeys([whole, *middle, *parts]))


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[place : place + 2] for place in range(len(run) - 1)]


def _singular(word: str) -> str:
    """Fold the commonest plurals of European languages; both sides of a match pass through here."""
    if len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    return word


STOP_WORDS = frozenset(words(_FUNCTION_WORDS))
"""Function words of six languages, as texts are read: they match everything and tell nothing."""

ACKNOWLEDGEMENTS = frozenset(words(_REPLIES))
"""Words of replies that only say yes, no, thanks, hello or go on, as texts are read."""
