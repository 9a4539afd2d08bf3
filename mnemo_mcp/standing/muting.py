"""Muting: a memory that hooks showed in vain often enough is shown no more; asked for, it is still found.

What a session was opened with in vain says little about prompts that nobody has asked yet: such misses
count for the door alone, while misses of both kinds count there, and a use for a prompt opens it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from mnemo_mcp.ledger.uses import UNUSED, USED, Tally
from mnemo_mcp.memory import Instant, instant, moment
from mnemo_mcp.settings import Usage


def counted(
    tally: Tally, verdict: str, shown_at: Instant, now: Instant, constants: Usage, *, door: bool = False
) -> Tally:
    """What is counted for a memory after one more verdict about a time it was shown."""
    if verdict == USED:
        last = max(shown_at, tally.last_used or shown_at)
        return replace(tally, uses=tally.uses + 1, last_used=last, door_misses=(), door_muted_at=None)
    if verdict != UNUSED:
        return tally
    since = _since((*tally.misses, *tally.door_misses, shown_at), constants)
    misses = _within(tally.misses if door else (*tally.misses, shown_at), since)
    door_misses = _within((*tally.door_misses, shown_at) if door else tally.door_misses, since)
    return replace(
        tally,
        misses=misses,
        door_misses=door_misses,
        muted_at=tally.muted_at or _muted(tally, len(misses), since, now, constants),
        door_muted_at=tally.door_muted_at
        or _muted(tally, len(misses) + len(door_misses), since, now, constants),
    )


def _since(misses: Iterable[Instant], constants: Usage) -> Instant:
    """From when on misses count: so many days before the last one."""
    return instant(moment(max(misses)) - timedelta(days=constants.days))


def _within(misses: Iterable[Instant], since: Instant) -> tuple[Instant, ...]:
    return tuple(sorted(each for each in misses if each > since))


def _muted(tally: Tally, misses: int, since: Instant, now: Instant, constants: Usage) -> Instant | None:
    used_lately = tally.last_used is not None and tally.last_used > since
    return now if misses >= constants.misses and not used_lately and not tally.keep else None
