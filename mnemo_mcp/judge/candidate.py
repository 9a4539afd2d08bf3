"""A candidate: a claim that is not known yet, with all that the judge needs to weigh it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.ledger.fold import claim_body, claim_of
from mnemo_mcp.memory import Claim, Instant, Memory, Role, identity

SUPPORT_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may become a memory, or is one already that nobody has compared yet (`memory`, its id).

    `valid_from` None is unknown; `assumed` says that it is only the time at which it was said. `origin` is
    the one of most authority who supports it: a person, the assistant, a tool. `support` is the text of the
    cited fragments nearest to it, in their order, `SUPPORT_CHARACTERS` at most.
    """

    claim: Claim
    episodes: tuple[str, ...]
    profile: str
    project: str
    valid_from: Instant | None
    valid_to: Instant | None
    known_at: Instant
    assumed: bool
    origin: Role
    support: str = ""
    memory: str = ""

    @property
    def start(self) -> Instant:
        """Since when it holds, as far as that is known."""
        return self.valid_from or self.known_at

    @property
    def dated(self) -> bool:
        """Whether anybody said since when it holds."""
        return self.valid_from is not None and not self.assumed

    @property
    def key(self) -> str:
        """Its hash: the same claim from the same sources is the same candidate."""
        return identity(
            "c",
            self.profile,
            self.project,
            claim_body(self.claim),
            self.valid_from,
            self.valid_to,
            self.known_at,
            list(self.episodes),
        )


def candidate_of(memory: Memory) -> Candidate:
    """A memory that stands by itself, to be compared with others."""
    return Candidate(
        memory.claim,
        memory.episodes,
        memory.profile,
        memory.project,
        memory.valid_from,
        memory.valid_to,
        memory.known_at,
        memory.assumed,
        memory.origin,
        memory=memory.id,
    )


def as_kept(candidate: Candidate) -> dict[str, Any]:
    """All that is needed to store a candidate later; its text goes when it is erased."""
    return {
        "claim": claim_body(candidate.claim),
        "episodes": list(candidate.episodes),
        "project": candidate.project,
        "valid_from": candidate.valid_from,
        "valid_to": candidate.valid_to,
        "known_at": candidate.known_at,
        "assumed": candidate.assumed,
        "origin": str(candidate.origin),
    }


def from_kept(kept: Mapping[str, Any], profile: str) -> Candidate:
    """The candidate that `as_kept` wrote."""
    parts = dict(kept)
    claim, episodes, origin = parts.pop("claim"), parts.pop("episodes"), parts.pop("origin")
    return Candidate(
        claim=claim_of(claim), episodes=tuple(episodes), profile=profile, origin=Role(origin), **parts
    )
