"""Names of entities and their aliases, found in a text however many are known.

Automata find them, made in the background of a few thousand names each: nothing else runs while one is made.
Until then new names wait in a small table, so that learning one costs no request anything.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import ahocorasick

from mnemo_mcp.words import STOP_WORDS, fold, words

_SHORTEST, _LONGEST = 2, 200  # letters of a name that can be found
_FIGURE = 4  # digits that make a number a name
_MOST = 10_000  # names in one automaton: made in some 40 ms
_FEW = 256  # names waiting, or gone, that do not make a new automaton worth its time
_SHARE = 50  # one in so many that are gone makes all automata worth theirs
_HEAD = 2  # letters by which waiting names are looked up

# Names that are everyday words as well: only with a capital are they names.
_EVERYDAY = frozenset(words("go ok yes no next done start stop right test run now make"))
_APOSTROPHES = "'’ʼ"
_IRREGULAR = re.compile(r"'|\s\s")
_BLANKS = str.maketrans(dict.fromkeys("\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f", " "))
_JOINTS = "-."  # signs inside names: atlas-2 and app.py are other things than atlas and app
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_NOT = re.compile(r"['’ʼ]t\b", re.IGNORECASE)  # "don't" does not name Don


@dataclass(frozen=True, slots=True)
class Named:
    """A name as it stands in a text, and the key of the entity it means."""

    key: str
    name: str
    start: int
    end: int


class Names:
    """Names and what they mean. A name may mean several entities; a pair counts as often as it was added."""

    def __init__(self) -> None:
        self._keys: dict[str, Counter[str]] = {}
        self._automata: list[ahocorasick.Automaton] = []
        self._fresh: set[str] = set()  # in no automaton yet
        self._waiting: dict[str, set[int]] = {}  # lengths of the fresh ones by their first letters
        self._gone: set[str] = set()  # still in an automaton
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, name: str, key: str) -> None:
        """Let `name` mean the entity `key`. A name too short or too common to tell anything is left out."""
        form = _form(name)
        if form not in self._keys and not _tells(name, form):
            return
        with self._lock:
            if form not in self._keys:
                self._keys[form] = Counter()
                self._await(form)
            self._keys[form][key] += 1

    def remove(self, name: str, key: str) -> None:
        """Take back one `add`; the name is forgotten with the last one."""
        form = _form(name)
        with self._lock:
            known = self._keys.get(form, Counter())
            if known[key] > 1:
                known[key] -= 1
            elif known.pop(key, 0) and not known:
                del self._keys[form]
                if form in self._fresh:
                    self._fresh.discard(form)
                else:
                    self._gone.add(form)

    def find(self, text: str) -> list[Named]:
        """The names in `text` in order: whole words, the longest where several overlap."""
        if not self._keys:
            return []
        form, starts = _spread(text)
        found = {
            _span(text, starts, start, end)
            for start, end in self._candidates(form)
            if form[start:end] in self._keys and _at_letters(starts, start, end)
        }
        taken: list[tuple[int, int]] = []
        for start, end in sorted(found, key=lambda span: (span[0] - span[1], span[0])):
            if all(end <= left or right <= start for left, right in taken) and _is_name(text, start, end):
                taken.append((start, end))
        return [
            Named(key, text[start:end], start, end)
            for start, end in sorted(taken)
            for key in sorted(self._keys.get(_form(text[start:end]), ()))
        ]

    def tidy(self) -> bool:
        """Make automata of what waits where that is worth its time; whether it was."""
        with self._lock:
            renewed = len(self._gone) >= max(_FEW, len(self._keys) // _SHARE)
            if not renewed and len(self._fresh) < _FEW:
                return False
            if renewed:
                kept, forms = [], list(self._keys)
            else:
                kept = [each for each in self._automata if len(each) >= _MOST]
                rest = [form for each in self._automata if len(each) < _MOST for form in each]
                forms = [form for form in (*rest, *self._fresh) if form in self._keys]
        made = [_automaton(forms[start : start + _MOST]) for start in range(0, len(forms), _MOST)]
        with self._lock:
            self._automata = kept + made
            self._gone = {form for form in self._gone if any(form in each for each in kept)}
            waiting, self._fresh, self._waiting = self._fresh.difference(forms), set(), {}
            for form in waiting:
                self._await(form)
        return True

    def _await(self, form: str) -> None:
        if form in self._gone:
            self._gone.discard(form)
        else:
            self._fresh.add(form)
            self._waiting.setdefault(form[:_HEAD], set()).add(len(form))

    def _candidates(self, form: str) -> Iterator[tuple[int, int]]:
        automata, waiting = self._automata, self._waiting
        for automaton in automata:
            for last, length in automaton.iter(form):
                yield last + 1 - length, last + 1
        if waiting:
            for start in range(len(form) - 1):
                for length in tuple(waiting.get(form[start : start + _HEAD], ())):
                    yield start, start + length


def _automaton(forms: Sequence[str]) -> ahocorasick.Automaton:
    made = ahocorasick.Automaton()
    for form in forms:
        made.add_word(form, len(form))
    made.make_automaton()
    return made


def _tells(name: str, form: str) -> bool:
    short = fold(name).strip()
    if len(short) < _SHORTEST or len(form) > _LONGEST or (short.isdigit() and len(short) < _FIGURE):
        return False
    return not all(word in STOP_WORDS for word in words(name))


def _form(name: str) -> str:
    return _spread(name)[0].strip()


def _spread(text: str) -> tuple[str, Sequence[int]]:
    """`text` in the form in which names meet, and for each letter of it the place it comes from."""
    if text.isascii() and not _IRREGULAR.search(text):
        return text.lower().translate(_BLANKS), range(len(text))
    letters: list[str] = []
    starts: list[int] = []
    for place, letter in enumerate(text):
        plain = _letter(letter)
        if plain == " " and letters and letters[-1] == " ":
            continue
        letters += plain
        starts += [place] * len(plain)
    return "".join(letters), starts


@lru_cache(maxsize=8192)
def _letter(letter: str) -> str:
    """One letter in that form. Decomposed, so that both spellings of a Korean syllable meet."""
    if letter in _APOSTROPHES:
        return ""
    return " " if letter.isspace() else unicodedata.normalize("NFD", fold(letter).casefold())


def _at_letters(starts: Sequence[int], start: int, end: int) -> bool:
    """Whether a place in the form begins and ends with whole letters of the text."""
    if end > len(starts) or (start and starts[start] == starts[start - 1]):
        return False
    return end == len(starts) or starts[end] != starts[end - 1]


def _span(text: str, starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """Where that is in the text, accents that follow the last letter among it."""
    if end > len(starts):
        return 0, 0
    last = starts[end - 1] + 1
    while last < len(text) and text[last] not in _APOSTROPHES and not _letter(text[last]):
        last += 1
    return starts[start], last


def _is_name(text: str, start: int, end: int) -> bool:
    """Whether it stands for itself there, and is not part of another word or an everyday word."""
    if text[start:end] in _EVERYDAY or _NOT.match(text, end):
        return False
    return _parted(text, start, False) and _parted(text, end, True)


def _parted(text: str, at: int, ends: bool) -> bool:
    """Whether one word ends and another begins at `at`, where a name begins, or `ends`."""
    if at in (0, len(text)):
        return True
    left, right = text[at - 1], text[at]
    if _UNSPACED.match(left) or _UNSPACED.match(right):
        return True
    if _in_word(left) and _in_word(right):
        korean = bool(_HANGUL.match(left)), bool(_HANGUL.match(right))
        return korean[0] != korean[1] or (ends and korean[1])  # a particle follows its noun unspaced
    beyond = at + 1 if ends else at - 2
    if (right if ends else left) in _JOINTS and 0 <= beyond < len(text):
        joined = text[beyond] if ends else right
        return not _in_word(text[beyond]) or joined.isupper()
    return True


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
