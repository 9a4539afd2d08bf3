"""Ranking: a question and the rows that may answer it become a list, best first. No clock, no disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from mnemo_mcp.errors import MnemoError
from mnemo_mcp.index.arrays import NO_ROWS, Mask
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.memory import Instant
from mnemo_mcp.recall import channels
from mnemo_mcp.recall.candidates import Candidates
from mnemo_mcp.recall.channels import NONE, Channel, Listed, Meaning, Seen
from mnemo_mcp.recall.fusion import fuse
from mnemo_mcp.recall.likeness import Likeness
from mnemo_mcp.recall.order import Placed, Standings, ordered, worthy
from mnemo_mcp.recall.question import Question
from mnemo_mcp.settings import Floor, Recall

_log = logging.getLogger("mnemo")

_TROUBLE = (MnemoError, ValueError, LookupError, ArithmeticError)
"""What a damaged part of the index raises."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A list with the account of how it came about."""

    placed: tuple[Placed, ...] = ()
    lists: Mapping[Channel, Listed] = field(default_factory=dict)
    weights: Mapping[Channel, float] = field(default_factory=dict)
    failed: tuple[str, ...] = ()

    def ranks(self) -> dict[int, dict[str, int]]:
        """Where each row stands in the channels that hold it."""
        found: dict[int, dict[str, int]] = {}
        for name, each in self.lists.items():
            for rank, row in enumerate(each.rows.tolist(), 1):
                found.setdefault(row, {})[str(name)] = rank
        return found


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a ranking goes by, whatever rows it ranks. `late` says that the answer is overdue."""

    question: Question
    meaning: Meaning | None
    project: str
    floor: Floor
    now: Instant
    standings: Standings
    constants: Recall
    late: Callable[[], bool]

    def of(self, index: ProfileIndex, allowed: Mask, most: int) -> Ranked:
        """At most `most` of the allowed rows that are relevant to the question, best first."""
        lists, failed = self._lists(Seen(index, allowed, self.constants, milliseconds(self.now)))
        named = np.unique(np.concatenate([NO_ROWS, *(each.rows for each in lists.values())]))
        candidates = Candidates(index, self.question, self.meaning, named, self.constants.words_share)
        weights = self._weights(lists, candidates)
        fused = fuse(lists, weights, index.ids.of, self.constants)
        found = worthy(candidates, fused, lists, self.floor, self.constants, most)
        likeness = Likeness(index, self.meaning, [each.row for each in found], self.constants)
        placed = ordered(found, candidates, likeness, self.standings, self.now, self.constants)
        return Ranked(tuple(placed), lists, weights, failed)

    def _lists(self, seen: Seen) -> tuple[dict[Channel, Listed], tuple[str, ...]]:
        """Every channel's list; one that fails, or that there is no time left for, is empty and named."""
        lists: dict[Channel, Listed] = {}
        failed: list[str] = []
        steps: dict[Channel, Callable[[], Listed]] = {
            Channel.WORDS: lambda: channels.by_words(seen, self.question),
            Channel.MEANING: lambda: channels.by_meaning(seen, self.meaning),
            Channel.ENTITIES: lambda: channels.by_entities(seen, self.question),
            Channel.TIME: lambda: channels.by_time(seen, self.question),
            Channel.CONNECTIONS: lambda: channels.by_connections(seen, [*lists.values()]),
            Channel.SCOPE: lambda: channels.by_scope(seen, self.project, [*lists.values()]),
        }
        for channel, listed in steps.items():
            lists[channel] = NONE
            if self.late():
                failed.append(f"{channel}: no time was left")
                continue
            try:
                lists[channel] = listed()
            except _TROUBLE as error:
                _log.warning("the channel %s failed: %s: %s", channel, type(error).__name__, error)
                failed.append(f"{channel}: {type(error).__name__}: {error}")
        return lists, tuple(failed)

    def _weights(self, lists: Mapping[Channel, Listed], candidates: Candidates) -> dict[Channel, float]:
        """How much each channel's vote counts for this question."""
        given = self.constants.weights
        return {
            Channel.MEANING: given.meaning,
            Channel.WORDS: self._words_weight(lists[Channel.WORDS], candidates),
            Channel.ENTITIES: given.entities,
            Channel.TIME: given.time,
            Channel.CONNECTIONS: given.connections,
            Channel.SCOPE: given.scope,
        }

    def _words_weight(self, listed: Listed, candidates: Candidates) -> float:
        """Words vote by how much of the question they cover: where they cover little, their order is chance.

        Where the very identifier asked for is found, they lead.
        """
        if not len(listed):
            return 0.0
        given = self.constants.weights
        if candidates.known_identifier:
            return given.identifier
        return given.words_covering * candidates.most_covered(listed.rows) ** 3
