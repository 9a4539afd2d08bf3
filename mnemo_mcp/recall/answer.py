"""What recall gives back: memories as they stand at the instant asked about, and passages of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mnemo_mcp.memory import Episode, Memory, Status
from mnemo_mcp.recall.explanation import Explanation


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory with its place. `sure` is whether it is relevant enough to be shown unasked.

    `outdated_by` is the id of a newer memory that seems to tell of the same thing; nobody said that it does.
    `reasons` say what moved it up or down, `repeats` are the ids of others that say the same.
    `speaks` is what speaks for it beside the others that were found, whatever moved it.
    """

    memory: Memory
    status: Status
    score: float
    sure: bool
    ranks: Mapping[str, int] = field(default_factory=dict)
    outdated_by: str = ""
    reasons: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    speaks: float = 0.0


@dataclass(frozen=True, slots=True)
class RecalledEpisode:
    """An episode and the passage of it that matters.

    `before` and `after` are what its neighbours in the thread add, "" where they add nothing. A `weak` one
    is merely the nearest there is.
    """

    episode: Episode
    passage: str
    score: float
    before: str = ""
    after: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Best first. `notes` say what the person should know about this answer.

    `failed` names the channels that could not be asked, each with why.
    """

    memories: tuple[RecalledMemory, ...] = ()
    episodes: tuple[RecalledEpisode, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    explained: Explanation | None = None
    failed: tuple[str, ...] = ()
