"""Which of the two encoders reads a question: is it surely English? In doubt it is not."""

from __future__ import annotations

import re

LEAST_SHARE = 0.25  # of the words; tells 58 of 60 English questions so, and no Spanish, French or German one

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SURE = frozenset(
    _WORD.findall("""
    the and of are be been being were that this these those it its it's which what who whom whose when where
    why how with without from for by into onto about above after again against all any because before below
    between both but can can't cannot could couldn't did didn't does doesn't don't doing down during each
    every few further get gets got has hasn't have haven't having her here hers him his i'd i'll i'm i've if
    isn't just let let's many may might more most much must my never not now off once only other our ours
    out over own same shall she should shouldn't some somebody someone something such than their theirs them
    then there they through too under until up us very wasn't we'd we'll we're we've weren't what's when's
    where's while who's why's will won't would wouldn't yes you you'd you'll you're you've your yours
    there's that's aren't
""")
)
# As frequent in Spanish, Portuguese, Italian, German, Dutch or Danish: they count only beside a sure one.
_SHARED = frozenset(_WORD.findall("a am an as at do had he i in is me no on or so to was we"))


def is_english(text: str) -> bool:
    """True with no letter beyond ASCII and at least a quarter of the words English function words.

    A bare name or two ("nats", "E4312?") are not English: nothing shows it.
    """
    if any(letter.isalpha() for letter in text if not letter.isascii()):
        return False
    words = _WORD.findall(text.replace("’", "'").lower())
    sure = sum(word in _SURE for word in words)
    shared = sum(word in _SHARED for word in words)
    return sure > 0 and sure + shared >= LEAST_SHARE * len(words)
