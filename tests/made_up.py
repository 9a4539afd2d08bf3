"""Memories and vectors made up for tests of the index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import strategies as st

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.memory import Claim, EntityRef, Instant, Kind, Memory, Period, instant
from mnemo_mcp.models.encoder import unit

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


def at(days: int) -> Instant:
    return instant(START + timedelta(days=days))


DAYS = st.integers(-5, 5)


def memory(
    number: int = 0,
    periods: tuple[Period, ...] = (Period(at(0)),),
    *,
    what: str = "The gateway waits 600 s",
    kind: Kind = Kind.FACT,
    entities: tuple[EntityRef, ...] = (),
    project: str = "",
    retracted: bool = False,
    erased: bool = False,
    merged_into: str = "",
) -> Memory:
    return Memory(
        f"m{number:012}0",
        "personal",
        project,
        Claim(what, kind=kind, entities=entities),
        periods,
        at(0),
        at(0),
        (),
        retracted=retracted,
        erased=erased,
        merged_into=merged_into,
        began=at(0),
    )


def vectors(count: int, dims: int = 64, seed: int = 3) -> Floats:
    chance = np.random.default_rng(seed)
    spread = chance.lognormal(sigma=0.5, size=dims)
    topics = chance.normal(size=(max(1, count // 30), dims))
    made = topics[chance.integers(len(topics), size=count)] + 1.2 * chance.normal(size=(count, dims))
    return unit((made * spread).astype(np.float32))
