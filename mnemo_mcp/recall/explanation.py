"""Explanation: how an answer came about, as plain values that `mnemo recall --explain` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.question import Question
from mnemo_mcp.recall.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Explanation:
    """The question as read, the encoder that read it, and each channel's weight and list in each tier."""

    reading: Mapping[str, Any]
    encoder: str = ""
    tiers: tuple[Mapping[str, Any], ...] = ()
    failed: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls,
        question: Question,
        meaning: Meaning | None,
        tiers: Iterable[tuple[str, Ranked]],
        failed: tuple[str, ...],
    ) -> Explanation:
        """`tiers` are the ranked lists in their order, each with what its rows have in common."""
        return cls(
            question.shown(),
            meaning.encoder if meaning else "",
            tuple(_tier(name, ranked) for name, ranked in tiers),
            failed,
        )


def _tier(name: str, ranked: Ranked) -> dict[str, Any]:
    channels = {
        str(channel): {"weight": round(ranked.weights[channel], 3), "found": len(listed)}
        for channel, listed in ranked.lists.items()
    }
    return {"status": name, "channels": channels}
