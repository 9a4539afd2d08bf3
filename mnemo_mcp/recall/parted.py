"""A text parted into the words that times are read from; phrases that mean one thing are one word."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnemo_mcp.recall import datewords as table

# A word with all that is joined to it; none that follows a sign of paths, options and the like.
_WORD = re.compile(r"(?<![\w/\\@#=~$-])[^\W_]++(?:[-./:@\\'’_+]++[^\W_]++|_++)*+[/\\]?")
_APART = re.compile(r"([^\W\d_]{1,5})'(.+)")
_PHRASES = [name.split() for name in (*table.DAYS, *table.NEAR, *table.AGO_BEFORE) if " " in name]
_STARTING = {first: [each for each in _PHRASES if each[0] == first] for first, *_ in _PHRASES}


@dataclass(frozen=True, slots=True)
class Word:
    """A lower-cased word, where it stands, and whether it is written with a capital."""

    text: str
    start: int
    end: int
    capital: bool


def parted(text: str) -> list[Word]:
    """The words of `text`; what belongs to a path, a version or an identifier is one word."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        lowered = match[0].lower().replace("’", "'").removesuffix("'s").removesuffix("-ci")
        start = match.start()
        if "'" in lowered and (parts := _APART.fullmatch(lowered)) and parts[1] in table.PARTICLES:
            found.append(Word(parts[1], start, start + len(parts[1]), False))
            start += len(parts[1]) + 1
            lowered = parts[2]
        found.append(Word(lowered, start, match.end(), text[start : start + 1].isupper()))
    return _joined(found)


def _joined(words: list[Word]) -> list[Word]:
    """With phrases of several words as one word each."""
    joined: list[Word] = []
    at = 0
    while at < len(words):
        for phrase in _STARTING.get(words[at].text, ()):
            last = at + len(phrase) - 1
            if [word.text for word in words[at : last + 1]] == phrase:
                joined.append(Word(" ".join(phrase), words[at].start, words[last].end, words[at].capital))
                at = last
                break
        else:
            joined.append(words[at])
        at += 1
    return joined
