"""Endings set aside, so that forms of one word meet: deletes, deleted and deletion; jueves stays jueves."""

from __future__ import annotations

_ENDINGS = {
    "en": """ational ations ation ating ators ator ated ates ions ion ings ing edly ed ers er ies ied es s
        ments ment ance ence able ible ly al ness ity ive ous y e""",
    "es": """aciones ación acion amiento imiento adores ador ados adas ado ada idos idas ido ida ando iendo
        aron ieron amos imos emos mente ar er ir an en as os es a o e""",
    "fr": """issements issement ements ement ations ation euses euse eurs eur ées ée és é ions ons ent ant
        er ir es s e""",
    "de": """ierungen ierung ungen ung ierten iert ieren lich isch heit keit sten ten test tet est ern en er
        es em st te t e n s""",
    "pt": """ações acao ação amento imento adores ador ados adas ado ada idos idas ido ida ando endo indo
        aram eram amos emos imos mente ar er ir am em as os es a o e""",
    "it": """azioni azione amento imento atori atore ati ate ato ata iti ite ito ita ando endo arono iamo
        mente are ere ire ano ono i e a o""",
    "ru": """ированиями ирования ирование ования ование ениями ения ение ений ами ями ого его ому ему ыми ими
        ает яет ают яют ует уют ится ятся ется ются ала яла али яли ить ать ять еть ой ый ий ая яя ое ее ые ие
        ов ев ах ях ам ям ом ем ет ют ут ит ят ан ен на но ны а я о е ы и у ю ь л""",
}
_SHORTEST = 4  # letters that must be left
_BY_LENGTH = {
    language: tuple(sorted(set(endings.split()), key=len, reverse=True))
    for language, endings in _ENDINGS.items()
}
_KOREAN = """
    은 는 이 가 을 를 에 에서 의 로 으로 와 과 도 만 까지 부터 마다 에게 한테 께서
    이다 입니다 이며 하고 라고 이라고
    들 들은 들이 들을 한다 합니다 했다 하는 된다 됩니다 되었다 됐다
"""
_PARTICLES = tuple(sorted(_KOREAN.split(), key=len, reverse=True))


def stem(word: str, language: str) -> str:
    """`word` without its ending; of identifiers and short words nothing is cut."""
    if not word.isalpha():
        return word
    if language == "en":
        word = _one(word)
    for ending in _BY_LENGTH.get(language, ()):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


def _one(word: str) -> str:
    """An English word without its plural s; the endings of verbs in -s go the same way."""
    if len(word) < _SHORTEST or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > _SHORTEST else word[:-1]


def bare_korean(word: str) -> str:
    """A Korean word without the particle that says what part it plays."""
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) > len(particle) + 1:
            return word[: -len(particle)]
    return word
