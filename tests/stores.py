"""Large stores, written in one transaction: what thousands of calls would have left."""

from __future__ import annotations

import random
from pathlib import Path

from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.folder import prepare
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Operation, Role, identity, instant
from mnemo_mcp.times import system_clock

THINGS = ("gateway", "ledger", "postgres", "redis", "queue", "deploy", "port", "cache", "shard", "replica")


def fill(home: Path, count: int) -> None:
    """Put `count` memories into a data folder, each the claim of a session, none with a vector."""
    prepare(home)
    store = Store(home / "mnemo.db", system_clock())
    now, chance = instant(system_clock()), random.Random(count)
    episodes, rows = [], []
    for number in range(count):
        what = f"Service {number} uses {' and '.join(chance.sample(THINGS, 3))} up to {number} times."
        episode = new_episode(
            "personal",
            Role.ASSISTANT,
            what,
            client="mcp",
            session=f"s-{number // 50}",
            project="",
            turn="",
            occurred_at=now,
            zone="UTC",
            recorded_at=now,
        )
        episodes.append(episode)
        rows.append(
            ledger_row(
                "personal",
                identity("m", number),
                Operation.ASSERT,
                body={"claim": {"what": what, "kind": "fact"}, "assumed": True},
                valid_from=now,
                known_at=now,
                source=episode.id,
                cause={"by": "agent"},
                episodes=(episode.id,),
            )
        )
    with store.write() as tx:
        store.episodes.add(tx, episodes)
        store.truth.append(tx, rows, now)
    store.close()
