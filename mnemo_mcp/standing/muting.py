"""Muting: a memory that hooks showed in vain often enough is shown no more; asked for, it is still found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mnemo_mcp.ledger.uses import UNUSED, USED, Tally
from mnemo_mcp.memory import Instant, instant, moment
from mnemo_mcp.settings import Usage


def counted(tally: Tally, verdict: str, shown_at: Instant, now: Instant, constants: Usage) -> Tally:
    """What is counted for a memory after one more verdict about a time it was shown."""
    if verdict == USED:
        last = max(shown_at, tally.last_used or shown_at)
        return replace(tally, uses=tally.uses + 1, last_used=last)
    if verdict != UNUSED:
        return tally
    misses = sorted((*tally.misses, shown_at))
    since = instant(moment(misses[-1]) - timedelta(days=constants.days))
    kept = tuple(each for each in misses if each > since)
    in_vain = len(kept) >= constants.misses and (tally.last_used is None or tally.last_used <= since)
    muted = now if in_vain and not tally.keep else None
    return replace(tally, misses=kept, muted_at=tally.muted_at or muted)
