"""The passage of an episode that answers, and what stands around it.

The passage is a window around the sentence that holds most of the question. Talk often names its subject in
one breath and tells of it in the next, so the neighbours in the thread come along where they matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mnemo_mcp.search.stems import stem, stems

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]*")
WINDOW = 500  # characters, about 120 tokens
_BESIDE = 200  # characters of a neighbour
_MOST_READ = 100_000  # characters of a huge episode that are looked through, half from each end
_ASKS = ("?", "？", "؟")


def passage(text: str, wanted: Sequence[str]) -> tuple[str, float]:
    """The best window of `text`, and the share of the `wanted` words it holds."""
    asked = frozenset(map(stem, wanted))
    window, held = _window(text, asked, WINDOW)
    return window, len(held) / (len(asked) or 1)


def beside(passage: str, before: str, after: str, wanted: Sequence[str]) -> tuple[str, str]:
    """What of the episodes before and after a passage belongs to it, "" where nothing does.

    That is where they hold words of the question the passage lacks, and what follows when the passage asks.
    """
    lacking = frozenset(map(stem, wanted)) - set(stems(passage))
    ahead, held = _window(before, lacking, _BESIDE)
    rest, also_held = _window(after, lacking - held, _BESIDE)
    return ahead if held else "", rest if also_held or passage.endswith(_ASKS) else ""


def _window(text: str, asked: frozenset[str], size: int) -> tuple[str, frozenset[str]]:
    """The best window of so many characters, and which of the words `asked` for it holds.

    Where none is asked for, that is the beginning.
    """
    if len(text) > _MOST_READ:
        text = text[: _MOST_READ // 2] + "\n" + text[-_MOST_READ // 2 :]
    start = 0
    if asked and len(text) > size:
        best = -1
        for sentence in _SENTENCE.finditer(text):
            held = len(asked.intersection(stems(sentence[0])))
            if held > best:
                best, start = held, max(0, sentence.start() - size // 4)
    end = start + size
    window = text[start:end]
    marks = ("… " if start else "", " …" if end < len(text) else "")
    return f"{marks[0]}{window.strip()}{marks[1]}", asked.intersection(stems(window) if asked else ())
