"""The words the guard knows, in ten languages: what turns a claim round, what counts, what says the same.

The two lists beside this module are plain text, so that a word is added where its neighbours stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from mnemo_mcp.words import fold

LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "ru", "ja", "zh", "ko")
_LATIN = LANGUAGES[:6]
_IN_ANY_LANGUAGE = frozenset({"concept", "pole", "environment", "name", "repeat"})
_BESIDE_FIGURES = frozenset({"unit", "multiplier", "month", "clock"})
_UNMISTAKABLE, _UNMISTAKABLE_ENGLISH = 5, 3  # letters
_SHORTEST_PREFIX, _LONGEST_PHRASE = 1, 5
_ENOUGH_TO_TELL = 400  # words; the language of a text shows in its beginning


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a word is to the guard: the list it stands in and the line it stands on."""

    kind: str
    value: str


class Table:
    """The words and phrases of one language."""

    def __init__(self) -> None:
        self._exact: dict[str, Meaning] = {}
        self._prefix: dict[str, Meaning] = {}
        self._phrases: dict[str, dict[tuple[str, ...], Meaning]] = {}
        self._spelled: set[str] = set()
        self._plain: set[str] = set()
        self.longest = 1

    def add(self, entry: str, meaning: Meaning) -> None:
        parts = tuple(simple(part) for part in entry.split("_"))
        if len(parts) > 1:
            self._phrases.setdefault(parts[0], {}).setdefault(parts, meaning)
            return
        bare = entry.removesuffix("*")
        (self._prefix if bare != entry else self._exact).setdefault(simple(bare), meaning)
        self.longest = max(self.longest, len(bare))
        if meaning.kind != "name":
            self._spelled.add(bare.casefold())
            self._plain.add(simple(bare))

    def word(self, word: str) -> Meaning | None:
        """A word as it is, else by the longest beginning that is known."""
        if found := self._exact.get(word):
            return found
        for length in range(min(len(word), self.longest), _SHORTEST_PREFIX - 1, -1):
            if found := self._prefix.get(word[:length]):
                return found
        return None

    def phrase(self, words: Sequence[str], place: int) -> tuple[Meaning, int] | None:
        """The longest phrase that begins at `place`, and of how many words it is."""
        known = self._phrases.get(words[place])
        if known:
            for length in range(min(_LONGEST_PHRASE, len(words) - place), 1, -1):
                if found := _phrase(known, tuple(words[place : place + length])):
                    return found, length
        return None

    def starting(self, text: str, place: int) -> tuple[Meaning, int] | None:
        """The longest entry with which `text` goes on at `place`: for scripts without spaces."""
        for length in range(min(self.longest, len(text) - place), 0, -1):
            part = text[place : place + length]
            if found := self._exact.get(part) or self._prefix.get(part):
                return found, length
        return None

    def spells(self, word: str) -> bool:
        """Whether a word is written here with these very accents."""
        return word.casefold() in self._spelled

    def share(self, words: Sequence[str]) -> float:
        """How much of some words is of this language: half of one that is written with other accents."""
        return sum(1.0 if word in self._spelled else 0.5 * (simple(word) in self._plain) for word in words)


def _phrase(known: dict[tuple[str, ...], Meaning], words: tuple[str, ...]) -> Meaning | None:
    if found := known.get(words):
        return found
    *first, last = words
    for length in range(len(last), 1, -1):
        if found := known.get((*first, last[:length] + "*")):
            return found
    return None


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Tables by language; what counts only beside a figure is kept apart from what counts anywhere."""

    general: dict[str, Table]
    figures: dict[str, Table]
    common: Table


def simple(word: str) -> str:
    """The form in which words are looked up and compared."""
    return word.lower() if word.isascii() else fold(word).casefold()


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Both lists, read once a process."""
    general = {language: Table() for language in LANGUAGES}
    figures = {language: Table() for language in LANGUAGES}
    common = Table()
    for kind, value, columns in _lines():
        meaning = Meaning(kind, value)
        for language, column in zip(LANGUAGES, columns, strict=False):
            table = figures[language] if kind in _BESIDE_FIGURES else general[language]
            for entry in column.split():
                table.add(entry, meaning)
                if (language == "en" and kind in _IN_ANY_LANGUAGE) or _denies_anywhere(language, kind, entry):
                    common.add(entry, meaning)
    return Lexicon(general, figures, common)


def _denies_anywhere(language: str, kind: str, entry: str) -> bool:
    """Short negations are other words in other languages (`no` is "in the" in Portuguese); these are not."""
    unmistakable = _UNMISTAKABLE_ENGLISH if language == "en" else _UNMISTAKABLE
    return kind == "negation" and len(entry) >= unmistakable and "_" not in entry


def _lines() -> list[tuple[str, str, list[str]]]:
    found = []
    kind = ""
    for name in ("grammar.txt", "concepts.txt"):
        for line in files(__package__).joinpath(name).read_text("utf-8").splitlines():
            if line.startswith("["):
                kind = line.strip("[]")
            elif line and not line.startswith("#"):
                value, _, rest = line.partition(": ")
                found.append((kind, value, rest.split("|")))
    return found


_SCRIPTS = (
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u3400-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_LATIN_LETTERS = re.compile("[A-Za-z\u00c0-\u024f]")
_SHARE_OF_SCRIPT = 0.2  # names, identifiers and commands are written in Latin letters in every language
_ENOUGH_OF_A_TEXT = 4_000  # characters
_LETTERS = re.compile(r"[^\W\d_]+")


def script_of(run: str, language: str) -> str:
    """The language whose words a run without spaces is made of, in a text of `language`."""
    found = _by_script(run) or "zh"
    return language if language == "ja" and found == "zh" else found


def _by_script(text: str) -> str:
    latin = len(_LATIN_LETTERS.findall(text))
    for language, script in _SCRIPTS:
        letters = len(script.findall(text))
        if letters and letters >= _SHARE_OF_SCRIPT * (latin + letters):
            return language
    return ""


def language_of(text: str) -> str:
    """The language a text is written in, by its script, else by its commonest words; English in doubt."""
    if spaced_out := _by_script(text[:_ENOUGH_OF_A_TEXT]):
        return spaced_out
    words = []
    for match in _LETTERS.finditer(text):
        words.append(match[0].casefold())
        if len(words) >= _ENOUGH_TO_TELL:
            break
    known = lexicon()
    scores = [
        known.general[each].share(words) + sum(map(known.figures[each].spells, words)) for each in _LATIN
    ]
    return _LATIN[scores.index(max(scores))]
