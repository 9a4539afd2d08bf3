"""Earlier versions of memories: what was believed of each by an instant, folded once and then looked up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mnemo_mcp.ledger.fold import fold
from mnemo_mcp.memory import Instant, LedgerRow, Memory


@dataclass(frozen=True, slots=True)
class _Life:
    """A memory after each of its ledger rows, by when that became known."""

    known: tuple[Instant, ...]
    versions: tuple[Memory | None, ...]


class Versions:
    """Memories as they were believed earlier. Erased text stays erased."""

    def __init__(self, history: Callable[[str], Sequence[LedgerRow]]) -> None:
        self._history = history
        self._lives: dict[str, tuple[Memory, _Life]] = {}

    def by(self, memory: Memory, known_at: Instant) -> Memory | None:
        """`memory` by what was known at an instant, None while nothing was."""
        kept = self._lives.get(memory.id)
        if kept is None or kept[0] is not memory:  # the index holds a new value after each change
            kept = self._lives[memory.id] = (memory, _life(memory, self._history(memory.id)))
        place = bisect_right(kept[1].known, known_at)
        return kept[1].versions[place - 1] if place else None


def _life(memory: Memory, rows: Sequence[LedgerRow]) -> _Life:
    steps = tuple(sorted({row.known_at for row in rows}))
    versions = tuple(None if memory.erased else fold(rows, step) for step in steps)
    return _Life(steps, versions)
