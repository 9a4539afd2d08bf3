"""The passage of an episode that answers: a window around the sentence that holds most of the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mnemo_mcp.words import words

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]*")
_WINDOW = 500  # characters, about 120 tokens
_MOST_READ = 100_000  # characters of a huge episode that are looked through, half from each end


def passage(text: str, wanted: Sequence[str]) -> tuple[str, float]:
    """The best window of `text`, and the share of the `wanted` words it holds."""
    if len(text) > _MOST_READ:
        text = text[: _MOST_READ // 2] + "\n" + text[-_MOST_READ // 2 :]
    best, place = -1, 0
    for sentence in _SENTENCE.finditer(text):
        held = len(set(wanted) & set(words(sentence[0])))
        if held > best:
            best, place = held, sentence.start()
    window = text[max(0, place - _WINDOW // 4) : place + 3 * _WINDOW // 4]
    share = len(set(wanted) & set(words(window))) / (len(wanted) or 1)
    marks = ("… " if place > _WINDOW // 4 else "", " …" if place + 3 * _WINDOW // 4 < len(text) else "")
    return f"{marks[0]}{window.strip()}{marks[1]}", share
