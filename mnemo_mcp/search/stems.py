"""Stems of English words: what search over episodes folds beyond the words of any language.

Talk says "painted" where the question says "paint". Both sides pass through here, so a word of another
language that is cut as if it were English still meets itself.
"""

from __future__ import annotations

from mnemo_mcp.words import words

_ENDINGS = ("ing", "ed", "ly", "er")
_SHORTEST, _LONGEST = 5, 15  # letters; a longer run is rather an identifier written in one
_STEM_LEAST = 3
_DOUBLED = "ls"  # "call" and "miss" end so of themselves


def stems(text: str) -> list[str]:
    """The stems of all words of `text` in order."""
    return [stem(word) for word in words(text)]


def stem(word: str) -> str:
    """A folded word without its ending. One that holds a digit, a sign or an accent is left as it is."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha() and word.islower()):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_LEAST:
            word = word[: -len(ending)]
            if len(word) > _STEM_LEAST and word[-1] == word[-2] and word[-1] not in _DOUBLED:
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > _STEM_LEAST else word
