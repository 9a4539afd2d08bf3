"""A store with search tables beside it, its vectors known: for tests of the search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import numpy as np

from mnemo_mcp.errors import ModelError
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.fold import claim_body
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Claim, Episode, Instant, Operation, Period, Role, instant
from mnemo_mcp.models.encoder import Matrix, unit
from mnemo_mcp.search.episodes import Hit, search_episodes
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.recent import CHUNK_EPISODES
from mnemo_mcp.search.relay import Relay
from mnemo_mcp.search.tables import MEMORIES
from mnemo_mcp.words import words

T = TypeVar("T")


NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
AT = instant(NOW)
SHORT = timedelta(milliseconds=1)
SUBJECTS = ("gateway", "ledger", "harvest", "turbine", "invoice", "orchard", "compiler", "glacier")
QUESTIONS = (
    "gateway timeout",
    "why the harvest was late",
    "turbine 7 of the orchard",
    "invoice",
    "glacier ice",
)


def later() -> datetime:
    """A clock by which every table has been at rest for long."""
    return datetime.now(UTC) + timedelta(days=1)


@dataclass
class Trigrams:
    """A deterministic encoder: texts that share letters in a row are near each other."""

    id: str = "trigrams-48"
    dims: int = 48
    texts: list[str] = field(default_factory=list)
    fails_on: str = "\0"

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        if any(self.fails_on in text for text in texts):
            raise ModelError("This text cannot be read.")
        if not query:
            self.texts += texts
        rows = np.zeros((len(texts), self.dims), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for start in range(len(text) - 2):
                digest = hashlib.md5(text[start : start + 3].lower().encode()).digest()
                row[digest[0] % self.dims] += 1 if digest[1] % 2 else -1
        return unit(rows)


class World:
    """A store with its search tables."""

    def __init__(self, home: Path, *encoders: Trigrams, chunk: int = CHUNK_EPISODES) -> None:
        self.home = home
        self.chunk = chunk
        self.store = Store(home / "mnemo.db", NOW)
        self.encoders = list(encoders)
        self.folder = home / "search"
        self.open()

    def open(self) -> None:
        """Begin anew, as another process would."""
        dims = {each.id: each.dims for each in self.encoders}
        self.projection = Projection(self.folder, dims, clock=later, chunk=self.chunk)
        self.relay = Relay(self.store, self.projection, lambda: self.encoders)

    def say(
        self, text: str, *, profile: str = "p", project: str = "", session: str = "s", at: Instant = AT
    ) -> Episode:
        count = self.store.episodes.newest()
        episode = new_episode(
            profile,
            Role.PERSON,
            text,
            client="test",
            session=session,
            project=project,
            turn=str(count),
            occurred_at=at,
            zone="UTC",
            recorded_at=AT,
        )
        with self.store.write() as tx:
            self.store.episodes.add(tx, [episode])
        return episode

    def note(self, memory: str, operation: Operation, claim: Claim | None = None) -> None:
        """Append a row about a memory to the ledger."""
        body = {"claim": claim_body(claim), "project": "atlas"} if claim else {}
        row = ledger_row(
            "p",
            memory,
            operation,
            body=body,
            known_at=AT,
            source=f"{operation}{self.store.truth.newest()}",
            cause={"by": "person"},
            episodes=(),
        )
        with self.store.write() as tx:
            self.store.truth.append(tx, [row], AT)

    def claims(self, *texts: str) -> list[str]:
        names = [f"m{hashlib.sha256(text.encode()).hexdigest()[:12]}" for text in texts]
        for name, text in zip(names, texts, strict=True):
            self.note(name, Operation.ASSERT, Claim(text))
        return names

    def level(self, most: int = 200) -> None:
        while self.relay.step(most):
            pass
        assert self.relay.problem == ""
        assert self.relay.lag() == 0

    def find(
        self,
        question: str,
        *,
        profile: str = "p",
        projects: Sequence[str] | None = None,
        exclude_session: str | None = None,
        limit: int = 10,
        meaning: bool = True,
        period: Period | None = None,
    ) -> list[Hit]:
        encoder = self.encoders[0] if self.encoders and meaning else None
        return search_episodes(
            self.projection,
            words(question),
            (encoder.id, encoder.encode([question], query=True)[0]) if encoder else None,
            profile=profile,
            projects=projects,
            exclude_session=exclude_session,
            limit=limit,
            period=period,
        )

    def answers(self) -> list[list[Hit]]:
        """What all questions find, once maintenance has indexed every word."""
        self.projection.maintain(SHORT)
        return [self.find(question, limit=30) for question in QUESTIONS]

    def found_memories(self, text: str, scope: str = "true") -> list[str]:
        return [name for name, _ in self.projection.by_words(MEMORIES, words(text), scope, 50)]


def in_parallel(count: int, run: Callable[[], T]) -> list[T]:
    """What `run` gives in so many threads at once; the first error of any."""
    with ThreadPoolExecutor(count) as pool:
        return [each.result(60) for each in [pool.submit(run) for _ in range(count)]]


def talk(world: World, count: int = 60) -> list[Episode]:
    """A few conversations that take turns, and a memory for every tenth sentence."""
    said = []
    for number in range(count):
        subject, other = SUBJECTS[number % 8], SUBJECTS[(number * 3 + 1) % 8]
        text = f"The {subject} of unit {number} waits for the {other}, it timed out {number * 7} times."
        said.append(world.say(text, project=("atlas", "borea")[number % 2], session=f"s{number // 2}"))
        if number % 10 == 0:
            world.claims(f"The {subject} has number {number}.")
    return said
