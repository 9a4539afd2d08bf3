"""Ranking: a question and the rows that may answer it become a list, best first. No clock, no disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mnemo_mcp.errors import MnemoError
from mnemo_mcp.index.arrays import Mask
from mnemo_mcp.index.profile import ProfileIndex
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
    weights: Mapping[Channel, float] = field(default_factory=dict)
    sizes: Mapping[Channel, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()


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
    late: Callable[[], bool] = lambda: False

    def of(self, index: ProfileIndex, allowed: Mask, most: int) -> Ranked:
        """At most `most` of the allowed rows that are relevant to the question, best first."""
        lists, failed = self._lists(Seen(index, allowed, self.constants))
        named = [row for each in lists.values() for row in each.rows]
        candidates = Candidates(index, self.question, self.meaning, named, self.constants.words_share)
        weights = self._weights(lists, candidates)
        fused = fuse(lists, weights, index.id, self.constants)
        found = worthy(candidates, fused, lists, self.floor, self.constants, most)
        likeness = Likeness(index, self.meaning, self.constants)
        placed = ordered(found, candidates, likeness, self.standings, self.now, self.constants)
        return Ranked(tuple(placed), weights, {name: len(each) for name, each in lists.items()}, failed)

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
        if not listed.rows:
            return 0.0
        given = self.constants.weights
        if any(candidates.index.postings.frequency(word) for word in self.question.identifiers):
            return given.identifier
        best = max(candidates.coverage(row) for row in listed.rows)
        return given.words_covering * best**3
