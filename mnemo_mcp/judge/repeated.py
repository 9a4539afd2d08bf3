"""Which memories a claim may repeat: the same text, and the few that are nearest to it by their words."""

from __future__ import annotations

from mnemo_mcp.index.postings import EVEN
from mnemo_mcp.index.profile import ProfileIndex, Scope
from mnemo_mcp.memory import Memory
from mnemo_mcp.words import telling

_NEAREST = 8  # by words; a repeat has nearly all words of what it repeats and so is among the first
_MOST_WORDS = 48


def repeated(index: ProfileIndex, text: str) -> list[Memory]:
    """Memories that `text` may say again, those with the very same text first. The caller holds the index."""
    same = index.same(text)
    words = telling(text)[:_MOST_WORDS]
    if not words:
        return same
    rows, _ = index.postings.search(words, EVEN, index.inside(Scope()), _NEAREST)
    known = {memory.id for memory in same}
    near = [index.memory(int(row)) for row in rows]
    return same + [memory for memory in near if memory.id not in known and not memory.erased]
