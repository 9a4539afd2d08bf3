"""Search over episodes as a store grows: what carrying and asking cost, and whether older ones are found.

Episodes are made up, 20 to a thread, and their vectors are sums of one random vector a word, so that no
model's time is in the figures. Asked is first while only the newest episodes are in memory, then when older
ones are, too, as far as there is room. `same_ten` is the share of the first ten that search gives as well
when it weighs every episode.
"""

from __future__ import annotations

import random
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import common
import numpy as np
from threadpoolctl import threadpool_limits

from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Episode, Role, instant
from mnemo_mcp.models.encoder import Matrix, unit
from mnemo_mcp.search.episodes import Hit, search_episodes
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.relay import Relay
from mnemo_mcp.words import telling, words

START = datetime(2026, 1, 1, tzinfo=UTC)
_THREAD = 20
_BATCH = 2_000
_QUESTIONS = 100
_KEEP = timedelta(seconds=1)


class WordSums:
    """An encoder that knows nothing: near are texts that share words."""

    id = "word-sums"
    dims = 384

    def __init__(self) -> None:
        self._vectors = np.random.default_rng(7).standard_normal((4_096, self.dims), np.float32)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        places = ([zlib.crc32(word.encode()) % 4_096 for word in words(text)] for text in texts)
        return unit(np.stack([self._vectors[each].sum(0) for each in places]))


def main() -> None:
    given = common.options(__doc__, episodes=10_000)
    # matrix products on one thread, as in the daemon
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder, threadpool_limits(1, user_api="blas"):
        store = Store(Path(folder) / "mnemo.db", START)
        encoder = WordSums()
        dims = {encoder.id: encoder.dims}
        projection = Projection(Path(folder) / "search", dims)
        stored = _cpu(lambda: _fill(store, given.episodes))
        carried = _cpu(lambda: _carry(Relay(store, projection, lambda: [encoder]), projection))
        asked = Projection(Path(folder) / "search", dims)
        whole = Projection(Path(folder) / "search", dims, chunk=given.episodes + 1)
        questions = [common.made_up_question(random.Random(each)) for each in range(_QUESTIONS)]
        first = _cpu(lambda: _search(asked, encoder, questions[0]))
        exact = [_ids(whole, encoder, text) for text in questions]
        newest_held = _asked(asked, encoder, questions, exact)
        reached = _cpu(lambda: _reach_back(asked))
        held = _asked(asked, encoder, questions, exact)
        recent = asked.recent()
        size = sum(file.stat().st_size for file in Path(folder, "search").rglob("*") if file.is_file())
        store.close()
    result = {
        "episodes": given.episodes,
        "store_cpu_ms_each": round(stored / given.episodes, 3),
        "carry_cpu_ms_each": round(carried / given.episodes, 3),
        "first_question_cpu_ms": round(first),
        "newest_held": newest_held,
        "held": held,
        "reach_back_cpu_s": round(reached / 1000, 1),
        "held_mib": round(recent.bytes / 2**20) if recent else 0,
        "table_mib_per_1000": round(size / 2**20 / given.episodes * 1_000, 2),
    }
    common.report(result, given.json)


def _fill(store: Store, count: int) -> None:
    chance = random.Random(1)
    for start in range(0, count, _BATCH):
        batch = [_episode(number, chance) for number in range(start, min(count, start + _BATCH))]
        with store.write() as tx:
            store.episodes.add(tx, batch)


def _episode(number: int, chance: random.Random) -> Episode:
    made = common.made_up_memory(number, chance)
    at = instant(START + timedelta(minutes=number))
    return new_episode(
        "personal",
        (Role.PERSON, Role.ASSISTANT)[number % 2],
        f"{made['what']}, because {made['why']}. See {made['how']}.",
        client="bench",
        session=f"s{number // _THREAD}",
        project="",
        turn=str(number),
        occurred_at=at,
        zone="UTC",
        recorded_at=at,
    )


def _carry(relay: Relay, projection: Projection) -> None:
    steps = 0
    while relay.step():
        steps += 1
        if steps % 20 == 0:
            projection.maintain(_KEEP)
            common.progress(f"{relay.lag()} episodes left")
    projection.maintain(_KEEP)


def _reach_back(projection: Projection) -> None:
    while projection.reach_back():
        pass


def _asked(
    projection: Projection, encoder: WordSums, questions: Sequence[str], exact: Sequence[set[str]]
) -> dict[str, object]:
    taken, same = [], []
    for text, ten in zip(questions, exact, strict=True):
        taken.append(_cpu(lambda text=text: _search(projection, encoder, text)))
        same.append(len(_ids(projection, encoder, text) & ten) / len(ten))
    return {"question_cpu": common.summary(taken), "same_ten": round(sum(same) / len(same), 4)}


def _ids(projection: Projection, encoder: WordSums, text: str) -> set[str]:
    return {hit.id for hit in _search(projection, encoder, text)}


def _search(projection: Projection, encoder: WordSums, text: str) -> list[Hit]:
    return search_episodes(
        projection,
        telling(text),
        (encoder.id, encoder.encode([text], query=True)[0]),
        profile="personal",
        projects=None,
        exclude_session=None,
        limit=10,
    )


def _cpu(work: Callable[[], object]) -> float:
    """Milliseconds of the processor, of all threads: LanceDB works in its own."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


if __name__ == "__main__":
    main()
