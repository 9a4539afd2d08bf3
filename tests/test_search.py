"""The search tables: carried by the relay, found inside a scope, made anew after any damage."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import TypeVar

import lancedb
import numpy as np
import pytest

from mnemo_mcp.errors import ModelError, Refused, StoreDamaged, StoreError
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.fold import claim_body
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Claim, EntityRef, Episode, Instant, Operation, Period, Role, instant
from mnemo_mcp.models.encoder import Matrix, unit
from mnemo_mcp.ranks import fuse
from mnemo_mcp.recall.answer import RecalledEpisode
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.search.episodes import Hit, search_episodes
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.recent import CHUNK_EPISODES
from mnemo_mcp.search.relay import Relay
from mnemo_mcp.search.rows import episode_row
from mnemo_mcp.search.stems import stem
from mnemo_mcp.search.tables import EPISODES, MEMORIES, literal
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
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


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Trigrams())
    yield made
    made.store.close()


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


# Ranks


def test_rank_fusion_adds_weighted_reciprocals() -> None:
    assert fuse([(1.0, ["a", "b"]), (2.0, ["b", "c"])]) == [
        ("b", 1 / 17 + 2 / 16),
        ("c", 2 / 17 + 1 / 1015),
        ("a", 1 / 16 + 2 / 1015),
    ]
    assert fuse([(1.0, ["z", "y"]), (1.0, ["y", "z"])], k=60) == [
        ("y", 1 / 61 + 1 / 62),
        ("z", 1 / 61 + 1 / 62),
    ]


@pytest.mark.parametrize(("lists", "last"), [(2, 16), (3, 31), (4, 46)])
def test_the_same_rank_in_several_lists_beats_a_first_place_up_to_a_rank(lists: int, last: int) -> None:
    def winner(rank: int) -> str:
        filler = [[f"{number}:{place}" for place in range(rank - 1)] for number in range(lists)]
        ids = [[*each, "often"] for each in filler]
        ids[0] = ["once", *ids[0][1:]] if rank > 1 else ["often"]
        best = dict(fuse([(1.0, each) for each in ids]))
        return "often" if best["often"] > best.get("once", 0) else "once"

    assert [winner(last), winner(last + 1)] == ["often", "once"]


def test_rank_fusion_at_its_edges() -> None:
    assert fuse([]) == fuse([(1.0, [])]) == fuse([(0.0, ["a"])]) == []
    assert fuse([(1.0, ["b", "a", "b"])]) == [("b", 1 / 16), ("a", 1 / 17)]
    lists = [(1.0, ["a", "b", "c"]), (1.0, ["b", "c", "a"]), (1.0, ["c", "a", "b"])]
    assert {tuple(fuse(order)) for order in permutations(lists)} == {tuple(fuse(lists))}
    assert [each for each, _ in fuse(lists)] == ["a", "b", "c"]
    for bad in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="weight"):
            fuse([(bad, ["a"])])
    with pytest.raises(ValueError, match="rank constant"):
        fuse([(1.0, ["a"])], k=0)


# Vectors through the cache


def test_a_text_is_embedded_once(world: World) -> None:
    encoder = world.encoders[0]
    embedding = CachedEmbedding(world.store.vectors)
    texts = [f"text {number % 20}" for number in range(50)]
    assert embedding.missing(encoder, texts) == texts[:20]
    first = embedding.get(encoder, texts)
    assert sorted(encoder.texts) == sorted(texts[:20])
    assert np.array_equal(embedding.get(encoder, texts[::-1]), first[::-1])
    assert len(encoder.texts) == 20
    assert np.abs(first - encoder.encode(texts, query=True)).max() < 0.01
    assert embedding.get(encoder, []).shape == (0, encoder.dims)


def test_a_vector_is_never_that_of_another_encoder(world: World) -> None:
    embedding = CachedEmbedding(world.store.vectors)
    other = Trigrams("trigrams-32", 32)
    assert embedding.get(world.encoders[0], ["a text"]).shape == (1, 48)
    assert embedding.missing(other, ["a text"]) == ["a text"]
    assert embedding.get(other, ["a text"]).shape == (1, 32)


@pytest.mark.parametrize("vectors", [np.full((1, 48), np.nan), np.zeros((2, 48)), np.zeros((1, 47))])
def test_unusable_vectors_are_not_kept(world: World, vectors: Matrix) -> None:
    class Broken(Trigrams):
        def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
            return vectors.astype(np.float32)

    embedding = CachedEmbedding(world.store.vectors)
    with pytest.raises(ModelError, match="trigrams-48"):
        embedding.get(Broken(), ["a text"])
    assert embedding.missing(world.encoders[0], ["a text"]) == ["a text"]


def test_threads_that_lack_the_same_text_get_the_same_vectors(world: World) -> None:
    embedding = CachedEmbedding(world.store.vectors)
    texts = [f"sentence {number}" for number in range(100)]
    found = in_parallel(4, lambda: embedding.get(world.encoders[0], texts))
    assert all(np.array_equal(each, found[0]) for each in found)


# The relay


def test_everything_said_and_known_is_found(world: World) -> None:
    said = talk(world)
    world.level()
    assert world.projection.count(EPISODES) == 60
    assert world.projection.count(MEMORIES) == 6
    hits = world.find("turbine of unit 27")
    assert hits[0].id == said[27].id
    assert hits[0].words_rank == hits[0].meaning_rank == 1
    assert hits[0].cosine is not None and 0.2 < hits[0].cosine <= 1
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))
    assert world.found_memories("number 20")[0] == world.claims(f"The {SUBJECTS[20 % 8]} has number 20.")[0]


def test_nothing_is_there_before_the_first_step(world: World) -> None:
    assert world.find("gateway") == []
    assert world.projection.place(EPISODES) == world.projection.count(MEMORIES) == world.relay.lag() == 0
    world.projection.maintain(SHORT)
    assert not world.folder.exists()


def test_a_relay_resumes_where_the_last_one_stopped(world: World) -> None:
    talk(world)
    assert world.relay.lag() == 66
    assert world.relay.step(7) == 13  # seven episodes, and all six memories
    world.open()
    assert world.relay.lag() == 53
    assert world.relay.step(7) == 7
    assert world.projection.count(EPISODES) == 14
    world.open()
    world.level(7)
    assert len(world.encoders[0].texts) == len(set(world.encoders[0].texts)) == 66
    assert world.relay.step() == 0


def test_a_change_replaces_the_row_of_its_memory(world: World) -> None:
    name = "m000000000001"
    world.note(name, Operation.ASSERT, Claim("The gateway waits 600 s.", entities=(EntityRef("Atlas"),)))
    world.level()
    assert world.found_memories("atlas gateway", "retracted = false AND kind = 'fact'") == [name]
    assert world.found_memories("gateway", "valid_to IS NULL AND project = 'atlas'") == [name]
    world.note(name, Operation.CLOSE)
    world.level()
    assert world.found_memories("gateway", f"valid_to = '{AT}'") == [name]
    world.note(name, Operation.RETRACT)
    world.level()
    assert world.found_memories("gateway", "retracted = true") == [name]
    assert world.projection.count(MEMORIES) == 1


def test_a_row_that_fails_is_named_and_taken_up_again(world: World) -> None:
    said = talk(world)
    encoder = world.encoders[0]
    bad = world.store.truth.changed_since(0)[1][4].id
    world.level()
    clean = world.answers()
    for fails_on, stopped, memories, episodes in (
        ("has number 40", bad, 4, 60),
        ("of unit 23 ", said[23].id, 6, 23),
    ):
        shutil.rmtree(world.folder, ignore_errors=True)
        world.open()
        with world.store.write() as tx:
            tx.execute("DELETE FROM vectors")
        encoder.fails_on = fails_on
        for _ in range(3):
            while world.relay.step(16):
                pass
            assert stopped in world.relay.problem and "cannot be read" in world.relay.problem
            assert (world.projection.count(MEMORIES), world.projection.count(EPISODES)) == (
                memories,
                episodes,
            )
        encoder.fails_on = "\0"
        world.open()
        world.level()
        assert world.answers() == clean


def test_an_episode_is_found_by_what_came_before_it(world: World) -> None:
    world.say("Which port does the observatory listen on?", session="a")
    world.say("Something else entirely.", session="b")
    answer = world.say("It is 8081, since the move.", session="a")
    world.say("It is 9090, since the storm.", session="b")
    world.level()
    assert answer.id in [hit.id for hit in world.find("observatory port", meaning=False)]
    assert len(world.find("observatory port", meaning=False)) == 2


def test_an_episode_is_found_by_what_came_after_it(world: World) -> None:
    answer = world.say("Somebody moved it to 8081 in spring.", session="a")
    other = world.say("Somebody moved it to 9090 in spring.", session="b")
    world.say("Good, then the observatory port is settled.", session="a")
    world.level()
    found = [hit.id for hit in world.find("observatory port", meaning=False)]
    assert answer.id in found and other.id not in found


def test_a_long_neighbour_drowns_nothing(world: World) -> None:
    asked = world.say("Which harbour does the ferry leave from?", session="a")
    world.say(f"{'ferry harbour timetable ' * 300} {'noise ' * 3000}", session="a")
    beside = world.say("Fine, thank you.", session="a")
    world.level()
    found = [hit.id for hit in world.find("harbour of the ferry", meaning=False)]
    assert found.index(asked.id) < found.index(beside.id)


@pytest.mark.parametrize(
    ("one", "other"),
    [("painted", "paint"), ("planning", "planned"), ("raising", "raised"), ("quickly", "quick")],
)
def test_forms_of_an_english_word_meet(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    "word",
    ["utf8ing", "foo_baring", "x/y.red", "bed", "ring", "señaling", "a" * 13 + "ing", "GETTING", "日本"],
)
def test_other_words_are_left_as_they_are(word: str) -> None:
    assert stem(word) == word


def test_who_is_named_and_when_it_was_count(world: World) -> None:
    texts = ("Ada Lamp: we repaired the turbine", "Bo Reed: we repaired the turbine")
    march, may = "2026-03-05T10:00:00.000Z", "2026-05-05T10:00:00.000Z"
    said = {
        (text[:3].strip(), at): world.say(text, session=f"{text[:2]}{at}", at=at)
        for text in texts
        for at in (march, may)
    }
    world.level()
    period = Period("2026-05-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z")
    for name, who in (("Ada", "lamp"), ("Bo", "reed")):
        question = f"when did {who} repair the turbine"
        first = {hit.id for hit in world.find(question, meaning=False)[:2]}
        assert first == {said[name, march].id, said[name, may].id}
        assert world.find(question, meaning=False, period=period)[0].id == said[name, may].id
    late = Period("2026-02-27T00:00:00.000Z", "2026-02-28T00:00:00.000Z")  # told of some days later
    assert world.find("lamp repair", meaning=False, period=late)[0].id == said["Ada", march].id


def test_what_answers_comes_before_what_asks(world: World) -> None:
    world.say("Does the glacier feed the orchard?", session="a")
    told = world.say("The glacier feeds the orchard!", session="b")
    world.level()
    assert world.find("glacier orchard", meaning=False)[0].id == told.id


def test_what_is_held_in_memory_is_what_the_tables_hold(world: World) -> None:
    for number in range(30):
        world.say(f"The {SUBJECTS[number % 8]} waits for number {number}.", session=f"s{number % 3}")
        world.relay.step()
        assert world.find("gateway")
    held = [world.find(question, limit=30) for question in QUESTIONS]
    world.open()
    assert [world.find(question, limit=30) for question in QUESTIONS] == held


# What is older than the rows held in memory


@pytest.fixture
def long(tmp_path: Path) -> Iterator[World]:
    """A world of which only the newest 16 to 20 episodes are held in memory."""
    made = World(tmp_path, Trigrams(), chunk=4)
    yield made
    made.store.close()


def test_older_episodes_are_found_as_if_they_were_recent(long: World) -> None:
    said = talk(long, 120)
    for _ in range(30):
        long.relay.step(7)
        long.find("gateway")
    long.level()
    whole = Projection(long.folder, {}, clock=later)
    parts, long.projection = long.projection, whole
    exact = [[hit.id for hit in long.find(question)] for question in QUESTIONS]
    long.projection = parts
    assert [[hit.id for hit in long.find(question)] for question in QUESTIONS] == exact
    assert long.find("turbine of unit 27")[0].id == said[27].id
    assert long.find("unit 27", meaning=False)[0].id == said[27].id
    before = long.answers()
    shutil.rmtree(long.folder)
    long.open()
    long.level()
    assert long.answers() == before


def test_older_episodes_bring_their_neighbours(long: World) -> None:
    long.say("Which port does the observatory listen on?", session="a")
    answer = long.say("It is 8081, since the move.", session="a")
    talk(long, 60)
    long.level()
    found = [hit.id for hit in long.find("observatory port", meaning=False)]
    assert answer.id in found


def test_scope_holds_among_older_episodes(long: World) -> None:
    ours = long.say("The harbour crane is painted green.", project="atlas")
    for number in range(230):
        long.say("The harbour crane, the harbour crane!", profile=("p", "q")[number % 2], project="borea")
    long.level()
    for meaning in (True, False):
        assert [hit.id for hit in long.find("harbour crane", projects=["atlas"], meaning=meaning)] == [
            ours.id
        ]
        assert long.find("harbour crane", projects=["atlas"], exclude_session="s", meaning=meaning) == []


def test_what_is_erased_among_older_episodes_is_gone(long: World) -> None:
    secret = "q7" + "xv" * 5
    said = long.say(f"The key is {secret}.", session="t")
    talk(long, 60)
    long.level()
    assert long.find(secret, meaning=False)[0].id == said.id
    long.note(said.id, Operation.ERASE)
    long.level()
    assert long.find(secret, meaning=False) == []


def test_of_a_huge_episode_both_ends_are_found(world: World) -> None:
    middle = " ".join(f"line{number}" for number in range(20_000))
    episode = world.say(f"capybara {middle} wombat")
    world.level()
    for word, there in (("capybara", True), ("wombat", True), ("line7", True), ("line10000", False)):
        assert [hit.id for hit in world.find(word, meaning=False)] == [episode.id] * there
    assert max(map(len, world.encoders[0].texts)) < 3_000


def test_episodes_wait_for_no_encoder(world: World) -> None:
    said = talk(world)
    ready, world.encoders = world.encoders, []
    world.open()
    world.level()
    assert world.find("unit 27", meaning=False)[0].id == said[27].id
    world.encoders = ready
    assert world.find("unit 27")[0].meaning_rank is None
    world.relay.step(20)
    world.open()  # stopped in the middle of it
    world.level(20)
    assert world.find("turbine of unit 27")[0].meaning_rank == 1
    assert world.projection.lacking(EPISODES, ready[0].id, 99) == []
    assert world.projection.lacking(MEMORIES, ready[0].id, 99) == []
    assert world.projection.count(EPISODES) == 60


def test_filling_in_stops_at_a_row_that_fails_and_goes_on(world: World) -> None:
    said = talk(world)
    ready, world.encoders = world.encoders, []
    world.level()
    world.encoders = ready
    ready[0].fails_on = "of unit 23 "
    while world.relay.step(16):
        pass
    assert said[23].id in world.relay.problem
    assert said[23].id in world.projection.lacking(EPISODES, ready[0].id, 99)
    ready[0].fails_on = "\0"
    world.level()
    assert world.projection.lacking(EPISODES, ready[0].id, 99) == []


def test_a_new_encoder_fits_existing_tables(world: World) -> None:
    talk(world)
    world.level()
    before = world.answers()
    old = world.encoders[0]
    world.encoders = [old, Trigrams("trigrams-96", 96)]
    world.open()
    assert world.answers() == before
    world.level()
    assert world.answers() == before
    world.encoders = world.encoders[::-1]
    assert all(hit.cosine is not None for hit in world.find("unit 27", limit=5))
    assert len(old.texts) == 66


def test_an_encoder_of_other_dimensions_is_another_table(world: World) -> None:
    talk(world, 5)
    world.level()
    world.encoders = [Trigrams("trigrams-48", 32)]
    world.say("one more")
    world.open()
    with pytest.raises(StoreDamaged, match="trigrams-48"):
        world.relay.step()


def test_replays_change_nothing(world: World) -> None:
    talk(world)
    world.level()
    before = world.answers()
    newest = min((world.folder / "episodes.lance" / "_versions").glob("*.manifest"))
    world.say("The orchard is carried twice.")
    world.level()
    latest = min((world.folder / "episodes.lance" / "_versions").glob("*.manifest"))
    assert latest != newest
    latest.unlink()  # the table as it was before the last commit: that one is carried once more
    world.open()
    assert world.projection.place(EPISODES) == 60
    world.level()
    assert world.projection.count(EPISODES) == 61
    assert world.answers() != before


def test_two_relays_at_once_leave_each_row_once(world: World) -> None:
    talk(world)
    world.relay.step(1)  # the tables are there
    relays = []
    for _ in range(2):
        projection = Projection(world.folder, {}, clock=later)
        relays.append(Relay(world.store, projection, lambda: world.encoders))
    start = threading.Barrier(2)

    def run(relay: Relay) -> None:
        start.wait(10)
        while relay.step(3):
            pass

    in_parallel(2, lambda: run(relays.pop()))
    world.open()
    world.level()
    assert world.projection.count(EPISODES) == 60
    assert world.projection.count(MEMORIES) == 6


def test_tables_ahead_of_the_store_are_refused(world: World, tmp_path: Path) -> None:
    talk(world)
    world.level()
    (tmp_path / "older").mkdir()
    older = World(tmp_path / "older", *world.encoders)
    shutil.copytree(world.folder, older.folder)
    older.say("The only thing said here.")
    with pytest.raises(StoreDamaged, match="another store"):
        older.relay.step()
    older.projection.reset()
    older.level()
    assert older.projection.count(EPISODES) == 1
    older.store.close()


# Rebuilding


def test_an_emptied_folder_is_filled_with_the_same_answers(world: World) -> None:
    talk(world, 120)
    for _ in range(40):
        world.relay.step(3)
    world.level()
    world.note(world.claims("The gateway has number 0.")[0], Operation.RETRACT)
    world.level()
    before = world.answers()
    assert all(before)
    embedded = len(world.encoders[0].texts)
    shutil.rmtree(world.folder)
    world.open()
    world.level()
    assert world.answers() == before
    assert len(world.encoders[0].texts) == embedded


def remove_manifests(folder: Path) -> None:
    shutil.rmtree(folder / "episodes.lance" / "_versions")


def cut_newest_manifest(folder: Path) -> None:
    newest = min((folder / "episodes.lance" / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:50])


def spoil(pattern: str, content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        files = [file for file in (folder / "episodes.lance").glob(pattern) if file.is_file()]
        assert files
        for file in files:
            file.write_bytes(content(file.read_bytes()))

    return damage


def remove_data(folder: Path) -> None:
    for file in (folder / "episodes.lance" / "data").iterdir():
        file.unlink()


def replace_folder_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"not a folder")


def put_foreign_table(folder: Path) -> None:
    lancedb.connect(folder).create_table("episodes", [{"id": "e1", "seq": 1}], mode="overwrite")


DAMAGES = {
    "manifests missing": remove_manifests,
    "newest manifest cut": cut_newest_manifest,
    "manifests overwritten": spoil("_versions/*", lambda data: bytes(255 - byte for byte in data)),
    "rows missing": remove_data,
    "rows overwritten": spoil("data/*", lambda data: b"\xab" * len(data)),
    "rows cut": spoil("data/*", lambda data: data[: len(data) // 2]),
    "rows empty": spoil("data/*", lambda data: b""),
    "words overwritten": spoil("_indices/*/*", lambda data: b"\xab" * len(data)),
    "words cut": spoil("_indices/*/*", lambda data: data[:-1]),
    "a file for a folder": replace_folder_by_file,
    "another table": put_foreign_table,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told_and_healed(world: World, damage: Callable[[Path], None]) -> None:
    talk(world)
    world.level()
    before = world.answers()
    damage(world.folder)
    world.open()
    with pytest.raises(StoreDamaged) as told:
        world.relay.step()
        world.find("gateway")
        world.projection.by_words(EPISODES, ["gateway"], "true", 1)  # what is recent needs no index of words
    assert "search" in str(told.value) and "\n" not in str(told.value) and len(str(told.value)) < 500
    assert world.relay.lag() <= 66
    world.projection.reset()
    assert list(world.folder.parent.glob("search/*")) == []
    world.level()
    assert world.answers() == before


def test_a_folder_that_vanishes_under_a_running_process_heals(world: World) -> None:
    talk(world)
    world.level()
    before = world.answers()
    shutil.rmtree(world.folder)
    world.say("one more")
    with pytest.raises(StoreDamaged):
        for _ in range(2):
            world.relay.step()
    world.projection.reset()
    world.level()
    assert len(world.answers()) == len(before)
    assert world.projection.count(EPISODES) == 61


@pytest.mark.parametrize("closed", [".", "episodes.lance", "episodes.lance/data"])
def test_a_closed_folder_is_not_damage(world: World, closed: str) -> None:
    talk(world, 5)
    world.level()
    world.open()
    folder = world.folder / closed
    folder.chmod(0)
    try:
        if os.access(folder, os.R_OK):
            pytest.skip("nothing is closed to this user")
        with pytest.raises(StoreError, match="denied") as told:
            world.find("gateway")
        assert world.relay.step() == 0
        assert "denied" in world.relay.problem
    finally:
        folder.chmod(0o700)
    assert not isinstance(told.value, StoreDamaged)
    world.level()
    assert world.find("gateway")


def test_a_remote_address_is_handed_on_and_never_emptied() -> None:
    remote = Projection("db://team", {})
    remote.maintain(timedelta(minutes=10))
    with pytest.raises(Refused, match="db://team"):
        remote.reset()


# Scope


def test_scope_holds_before_the_cut(world: World) -> None:
    ours = world.say("The harbour crane is painted green.", project="atlas")
    for number in range(150):
        world.say("The harbour crane, the harbour crane!", profile="other", project="atlas", session="o")
        world.say("The harbour crane, the harbour crane!", project="borea", session=f"b{number % 2}")
    world.level()
    world.projection.maintain(SHORT)

    def ids(**scope: object) -> set[str]:
        return {hit.id for hit in world.find("harbour crane", limit=500, **scope)}  # type: ignore[arg-type]

    assert ids(projects=["atlas"]) == {ours.id}
    assert ids(projects=["atlas", "nowhere"]) == {ours.id}
    assert ids(projects=[]) == ids(profile="nobody") == set()
    everywhere = ids()
    assert everywhere and not everywhere & ids(profile="other")
    assert ids(exclude_session="s", projects=["atlas"]) == set()
    one, other = ids(exclude_session="b0", projects=["borea"]), ids(exclude_session="b1", projects=["borea"])
    assert one and other and not one & other


HOSTILE = (
    "it's", "''", "'", '"', "a\\", "\\'", "x' OR 'a'='a", "x') OR (true", "--", "/*", ";", "%", "_", "a%",
    "$1", "?", "{x}", "`", "a\nb", "a\rb", "a\tb", "a\0b", "ünïcode", "e\u0301", "日本", "👍", "\u202e", " ",
    "NULL", "true", "a" * 3000,
)  # fmt: skip


def test_scope_strings_are_only_strings(world: World) -> None:
    said = {
        text: world.say("a common sentence", profile=text, project=text, session=text) for text in HOSTILE
    }
    world.level()
    for text, episode in said.items():
        for meaning in (True, False):
            hits = world.find("common sentence", profile=text, projects=[text], meaning=meaning)
            assert [hit.id for hit in hits] == [episode.id], text
            assert world.find("common sentence", profile=text, exclude_session=text, meaning=meaning) == []
            assert world.find("common sentence", profile=text + "'~", meaning=meaning) == []
    assert world.find("common sentence", profile="\ud800") == []
    assert world.find("common sentence", profile="a%", projects=["\ud800"]) == []
    assert len(world.find("common sentence", profile="a%", exclude_session="\ud800")) == 1


def test_words_are_only_words(world: World) -> None:
    odd = ("AND", "OR", "NOT", '"', "*", "(", ")", "+need", "-ban", "near~2", "boost^5", "words:gateway",
           "[1", "TO", "{", "}", "\\", "/re/", "gate*", "ga?eway", "&&", "||", "!", "\0", "\ud800", "it's",
           "{}", '{"match":{"terms":"gateway"}}', "", " ", "w" * 5000)  # fmt: skip
    plain = world.say("gateway and turbine")
    world.say("nothing of it", session="another")
    world.level()

    def ids(*wanted: str) -> list[str]:
        hits = search_episodes(
            world.projection, wanted, None, profile="p", projects=None, exclude_session=None, limit=5
        )
        return [hit.id for hit in hits]

    for _ in range(2):
        for word in odd:
            assert ids(word) == [], word
            assert ids("turbine", word) == ids(word, "turbine") == [plain.id], word
        assert ids(*odd, "turbine", *odd) == [plain.id]
        assert ids("TURBINE") == ids("turbines") == ids("turb") == []  # matched as they are
        assert ids("and") == [plain.id]
        assert ids(*(f"w{number}" for number in range(3000))) == []
        world.projection.maintain(SHORT)  # and once more through the index


def test_a_channel_alone_and_its_weight(world: World) -> None:
    said = talk(world)
    world.level()
    encoder = world.encoders[0]
    vector = (encoder.id, encoder.encode(["turbine of unit 27"], query=True)[0])

    def ids(wanted: list[str], meant: tuple[str, Matrix] | None, weight: float) -> list[str]:
        hits = search_episodes(
            world.projection,
            wanted,
            meant,
            profile="p",
            projects=None,
            exclude_session=None,
            limit=9,
            vector_weight=weight,
        )
        return [hit.id for hit in hits]

    assert ids([], None, 0.5) == ids(["nowhere"], None, 0.5) == ids(["27"], None, 1.0) == []
    assert ids(["27"], vector, 0.0) == ids(["27"], None, 0.5)
    assert ids(["27"], vector, 1.0) == ids([], vector, 0.5)
    assert ids([], vector, 0.5)[0] == said[27].id
    assert ids([], ("unknown-encoder", vector[1]), 0.5) == []
    with pytest.raises(ValueError, match="weight"):
        ids(["27"], vector, 1.5)


# Passages


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    off = Encoders(english="off", other="off")
    with Service.open(settings=Settings(tmp_path / "data", zone="UTC", encoders=off)) as made:
        yield made


def tell(service: Service, *texts: str, session: str = "s", project: str = "") -> list[Episode]:
    said = [
        new_episode(
            service.settings.profile,
            Role.PERSON,
            text,
            client="test",
            session=session,
            project=project,
            turn=text,
            occurred_at=AT,
            zone="UTC",
            recorded_at=AT,
        )
        for text in texts
    ]
    with service.store.write() as tx:
        service.store.episodes.add(tx, said)
    return said


def passages(
    service: Service, text: str, *, weak: bool = False, limit: int = 8, project: str | None = None
) -> list[RecalledEpisode]:
    projects = None if project is None else frozenset({project})
    ask = Ask(text, service.settings.profile, AT, limit, projects)
    return service.upkeep.passages(ask, read(text), None, weak)


def test_a_question_comes_with_what_answered_it(service: Service) -> None:
    asked, answer = tell(service, "Which port does the observatory listen on?", "It is 8081, as of May.")
    found = {each.episode.id: each for each in passages(service, "observatory port", weak=True)}
    assert found[asked.id].after == "It is 8081, as of May." and found[asked.id].before == ""
    assert found[answer.id].before == "Which port does the observatory listen on?"
    assert not found[asked.id].weak and found[answer.id].weak


def test_neighbours_of_another_project_are_not_shown(service: Service) -> None:
    tell(service, "Which port does the observatory listen on?", project="atlas")
    tell(service, "It is 8081, as of May.", project="borea")
    assert [each.after for each in passages(service, "observatory port", project="atlas")] == [""]


def test_the_nearest_are_offered_only_when_wanted_and_are_marked(service: Service) -> None:
    said = tell(service, "The glacier feeds the orchard.")
    question = "who measured the glacier with a laser in winter at the northern station"
    assert passages(service, question) == []
    assert [(each.episode.id, each.weak) for each in passages(service, question, weak=True)] == [
        (said[0].id, True)
    ]
    assert passages(service, "submarine", weak=True) == []


def test_whoever_asks_for_more_passages_gets_them(service: Service) -> None:
    tell(service, *(f"The gateway answered {number} times." for number in range(30)))
    lengths = [len(passages(service, "gateway answered", limit=limit)) for limit in (1, 8, 9, 20)]
    assert lengths == [1, 3, 9, 20]


def test_a_passage_is_bounded_with_all_around_it(service: Service) -> None:
    long = "The gateway answered. " * 4_000
    tell(service, long, f"{long}Did the turbine?", long)
    for found in passages(service, "gateway turbine", weak=True):
        assert len(found.passage) < 520 and len(found.before) < 220 and len(found.after) < 220


# Erasing and maintenance


def content(folder: Path) -> bytes:
    return b"\n".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def test_what_is_erased_is_in_no_file_after_maintenance(world: World) -> None:
    secrets = ["q7" + "xv" * 5, "k9" + "zw" * 5, "j3" + "yb" * 5]
    talk(world, 20)
    asked = world.say("Where is the key?", session="t")
    episode = world.say(f"The key is {secrets[0]} here.", session="t")
    follower = world.say("Thank you.", session="t")
    memory, kept = world.claims(f"The key is {secrets[1]} for now.", f"The lamp is {secrets[2]} bright.")
    world.level()
    world.projection.maintain(SHORT)
    assert all(secret.encode() in content(world.folder) for secret in secrets)
    assert {hit.id for hit in world.find(secrets[0], meaning=False)} == {
        asked.id,
        episode.id,
        follower.id,
    }

    world.note(memory, Operation.ERASE)
    world.note(episode.id, Operation.ERASE)
    world.encoders[0].fails_on = "Thank you"  # erasing waits for no encoder
    while world.relay.step():
        pass
    assert world.find(secrets[0], meaning=False) == []
    assert world.found_memories(secrets[1]) == []
    world.projection.maintain(SHORT)
    left = content(world.folder)
    assert secrets[0].encode() not in left and secrets[1].encode() not in left
    assert secrets[2].encode() in left
    for table in ("memories", "episodes"):
        handle = lancedb.connect(world.folder).open_table(table)
        for version in handle.list_versions():
            handle.checkout(version["version"])
            texts = " ".join(
                (row.get("text") or "") + row["words"] for row in handle.search().limit(999).to_list()
            )
            assert secrets[0] not in texts and secrets[1] not in texts

    world.encoders[0].fails_on = "\0"
    world.level()
    assert world.projection.count(EPISODES) == 22
    assert world.found_memories(secrets[2]) == [kept]
    assert follower.id in {hit.id for hit in world.find("Thank you")}
    shutil.rmtree(world.folder)
    world.open()
    world.level()
    assert world.projection.count(EPISODES) == 22
    assert world.found_memories("key") == []


def test_erasing_the_latest_leaves_nothing_to_carry(world: World) -> None:
    said = world.say("only this")
    memory = world.claims("Only this is known.")[0]
    world.level()
    world.note(memory, Operation.ERASE)
    world.note(said.id, Operation.ERASE)
    world.level()
    assert world.projection.count(EPISODES) == world.projection.count(MEMORIES) == 0
    assert world.relay.step() == 0
    shutil.rmtree(world.folder)
    world.open()
    world.level()
    assert world.projection.count(EPISODES) == 0
    world.say("and more")
    world.level()
    assert world.projection.count(EPISODES) == 1


def test_erasing_is_done_though_a_row_before_it_fails(world: World) -> None:
    secret = "q7" + "xv" * 5
    said = world.say(f"The key is {secret}.")
    world.level()
    world.claims("This one fails.")
    world.note(said.id, Operation.ERASE)
    world.encoders[0].fails_on = "This one fails"
    assert world.relay.step() == 0
    assert "cannot be read" in world.relay.problem
    assert world.find(secret, meaning=False) == []


def test_files_and_versions_stay_few(world: World) -> None:
    rows = [episode_row(world.say(f"The gateway answered {each} times."), each) for each in range(1, 1_001)]
    most_files = most_versions = 0
    for number, row in enumerate(rows, start=1):
        world.projection.put(EPISODES, [row], {}, number)
        if number % 50 == 0:
            most_files = max(most_files, sum(file.is_file() for file in world.folder.rglob("*")))
            world.projection.maintain(SHORT)
            handle = lancedb.connect(world.folder).open_table("episodes")
            most_versions = max(most_versions, len(handle.list_versions()))
    assert world.projection.count(EPISODES) == 1_000
    assert most_files < 250  # each of the two tables may have half of 500
    assert most_versions < 50
    world.projection.maintain(SHORT)
    assert sum(file.is_file() for file in world.folder.rglob("*")) < 60
    size = len(content(world.folder))
    world.projection.reset()
    world.projection.put(EPISODES, rows, {}, 1_000)
    world.projection.maintain(SHORT)
    assert size < 2 * len(content(world.folder))


def test_maintenance_leaves_a_busy_table_alone(world: World) -> None:
    talk(world)
    world.level()
    busy = Projection(world.folder, {}, clock=lambda: datetime.now(UTC))
    versions = len(lancedb.connect(world.folder).open_table("episodes").list_versions())
    busy.maintain(timedelta(minutes=10))
    assert len(lancedb.connect(world.folder).open_table("episodes").list_versions()) == versions
    with pytest.raises(ValueError, match="kept"):
        busy.maintain(timedelta(0))


def test_readers_notice_nothing_of_maintenance(world: World) -> None:
    said = talk(world)
    world.level()
    done = threading.Event()

    def read() -> int:
        count = 0
        while not done.is_set():
            hits = world.find("turbine of unit 27")
            assert hits[0].id == said[27].id
            assert world.projection.count(EPISODES) >= 60
            count += 1
        return count

    def write() -> int:
        try:
            for number in range(20):
                fleeting = world.say(f"Another word of the day is {number}.", session="w")
                world.relay.step()
                if number % 5 == 0:
                    world.note(fleeting.id, Operation.ERASE)
                world.projection.maintain(SHORT)
            return 1
        finally:
            done.set()

    work = [read, read, read, write]
    assert min(in_parallel(4, lambda: work.pop()())) > 0


def test_a_literal_doubles_quotes_and_nothing_else() -> None:
    assert literal("it's \\ it") == "'it''s \\ it'"
    assert literal("\ud800") == "NULL"
