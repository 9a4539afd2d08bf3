"""The search tables: ranks, vectors, and the relay that carries rows to them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from searching import AT, QUESTIONS, SHORT, SUBJECTS, Trigrams, World, in_parallel, talk

from mnemo_mcp.errors import ModelError
from mnemo_mcp.memory import Claim, EntityRef, Operation, Period
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.ranks import fuse
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.search.stems import stem
from mnemo_mcp.search.tables import EPISODES, MEMORIES


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Trigrams())
    yield made
    made.store.close()


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
