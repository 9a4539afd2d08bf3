"""Chunks: as many whole lines of a thread as fit one request, with the last words of what came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mnemo_mcp.capture.gate import worth_distilling
from mnemo_mcp.distil.lines import Line, cut, numbered, shown_text
from mnemo_mcp.distil.speech import agrees, offers, refuses
from mnemo_mcp.memory import Episode, Role

OVERLAP_LINES = 3
_OVERLAP_CHARACTERS = 600

Cost = Callable[[str], int]
"""How many tokens a text costs."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines to be read together, up to the episode with number `reached`; `more` says that others follow."""

    lines: tuple[Line, ...]
    reached: int
    more: bool

    @property
    def worth_reading(self) -> bool:
        """Whether any fresh line may hold something that lasts, or decides what was offered before."""
        fresh = [line for line in self.lines if line.fresh]
        return any(map(self._tells, fresh)) or any(map(self._decides, fresh))

    def _tells(self, line: Line) -> bool:
        said = [each.text for each in self.lines[: line.number - 1]]
        return worth_distilling(line.text, said).keep

    @property
    def episodes(self) -> tuple[str, ...]:
        return tuple(line.episode.id for line in self.lines)

    def line(self, number: int) -> Line | None:
        return next((line for line in self.lines if line.number == number), None)

    def before(self, line: Line) -> Line | None:
        """The last line before this one that somebody said."""
        return next((each for each in reversed(self.lines[: line.number - 1]) if each.spoken), None)

    def _decides(self, line: Line) -> bool:
        before = self.before(line) if line.episode.role is Role.PERSON else None
        if before is None or before.episode.role is Role.PERSON:
            return False
        return (agrees(line.text) or refuses(line.text)) and offers(before.text)


def next_chunk(
    fresh: Sequence[tuple[int, Episode]],
    earlier: Sequence[Episode],
    recalled: Sequence[str],
    known: set[str],
    cost: Cost,
    room: int,
) -> Chunk:
    """The first chunk of the episodes that are to be read, at most `room` tokens.

    `earlier` are those read before; `known` the ids of episodes that are a memory's own words already. What
    holds nothing to read costs nothing and is passed over.
    """
    overlap = [
        (each, cut(text, _OVERLAP_CHARACTERS), False)
        for each in earlier
        if each.id not in known and (text := shown_text(each, recalled))
    ][-OVERLAP_LINES:]
    left = room - sum(cost(text) + _HEAD_TOKENS for _, text, _ in overlap)
    taken: list[tuple[int, Episode, str]] = []
    reached, more = 0, False
    for number, episode in fresh:
        text = "" if episode.id in known else shown_text(episode, recalled)
        if text:
            tokens = cost(text) + _HEAD_TOKENS
            if tokens > left and any(line for *_, line in taken):
                more = True
                break
            text = _fitting(text, left, cost) if tokens > left else text
            left -= tokens
            taken.append((number, episode, text))
        reached = number
    taken.sort(key=lambda each: (each[1].occurred_at, each[0]))
    lines = numbered([*overlap, *((episode, text, True) for _, episode, text in taken)])
    return Chunk(tuple(lines), reached, more)


_HEAD_TOKENS = 24  # number, role, day, time and zone before each text


def _fitting(text: str, room: int, cost: Cost) -> str:
    """A text that alone is too long for a request, cut until it fits."""
    most = len(text)
    while most > 200 and cost(text) + _HEAD_TOKENS > room:
        most = most * 3 // 4
        text = cut(text, most)
    return text
