"""Near-exact repeats: the same words and quantities in another order, spelling, case or unit."""

from __future__ import annotations

from collections import Counter

from mnemo_mcp.guard.comparing import differences
from mnemo_mcp.guard.reader import read
from mnemo_mcp.guard.reading import Item, Reading
from mnemo_mcp.guard.stems import stem

_BY_KEY = frozenset({"name", "environment"})  # an alias is the same word
_COUNTED = frozenset({"bound", "scope", "ordinal", "rhythm", "relative"})


def repeats(one: str, other: str) -> bool:
    """Whether two texts are one said twice: alike in each word but function words, and without a difference.

    Forms of a word count as the word (deploys, deployed), aliases of a name as the name. Other words for the
    same thing do not: whether those say the same is for the judge.
    """
    if differences(one, other):
        return False
    left, right = read(one), read(other)
    return left.language == right.language and _words(left) == _words(right) and _marks(left) == _marks(right)


def _words(side: Reading) -> Counter[str]:
    return Counter(_word(item, side.language) for item in side.items)


def _word(item: Item, language: str) -> str:
    return item.key if item.kind in _BY_KEY else stem(item.form, language)


def _marks(side: Reading) -> Counter[str]:
    closed = Counter(
        f"{mark.kind} {mark.value}" for mark in side.marks if mark.kind in _COUNTED and mark.value != "all"
    )
    closed.update(f"denial {turn.text.casefold()}" for turn in side.turns)
    closed["reasons"] = len(side.reasons)
    return closed
