"""mnemo behind the protocol for retrieval of evidence: episodes stored and found as the product does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import mnemo_mcp
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Episode, Role, instant
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask
from mnemo_mcp.settings import Settings


class Mnemo:
    """One store. A session is a day, as other systems under test see it; turns come in the order of time."""

    name = "mnemo"

    def __init__(self, root: Path) -> None:
        self._memory = mnemo_mcp.open(settings=Settings(home=root / "data", zone="UTC"))
        self._items: dict[str, str] = {}

    def add(self, items: Sequence[Mapping[str, str]]) -> None:
        episodes = [_episode(item) for item in items]
        self._items |= {each.id: item["id"] for each, item in zip(episodes, items, strict=True)}
        store = self._memory.store
        with store.write() as tx:
            store.episodes.add(tx, episodes)
        while self._memory.upkeep.relay():
            pass
        self._memory.upkeep.maintain()

    def search(self, query: str, k: int, now: str) -> list[str]:
        """The episodes offered where nothing is known: the same search and order, without a bar."""
        encoder = self._memory.encoders.for_question(query)
        meaning = Meaning(encoder.id, encoder.encode([query], query=True)[0]) if encoder else None
        ask = Ask(text=query, profile="personal", now=_at(now), limit=k)
        found = self._memory.upkeep.passages(ask, read(query, zone=UTC, now=ask.now), meaning, weak=True)
        return [self._items[each.episode.id] for each in found]

    def close(self) -> None:
        self._memory.close()


def _episode(item: Mapping[str, str]) -> Episode:
    at = _at(item["time"])
    return new_episode(
        "personal",
        Role.PERSON,
        item["text"],
        client="bench",
        session=at[:10],
        project="",
        turn=item["id"],
        occurred_at=at,
        zone="UTC",
        recorded_at=at,
    )


def _at(text: str) -> str:
    return instant(datetime.fromisoformat(text).replace(tzinfo=UTC))
