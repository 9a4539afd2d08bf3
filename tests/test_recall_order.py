"""The order of what is recalled: walls, fusion, channels, passages, quality on the sets of tests/data."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import ANY, TOOLS, content
from desk import ATLAS, StillClock, ids_in, opened, rows, said, tell, tell_all
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mnemo_mcp.errors import ModelError, NotFound, Refused
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.memory import EntityRef, Status
from mnemo_mcp.ranks import fuse
from mnemo_mcp.recall import ranking
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.recall.channels import Meaning, Seen, by_meaning, by_words
from mnemo_mcp.recall.fusion import fuse as fuse_channels
from mnemo_mcp.recall.passage import passage
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import NOTHING
from mnemo_mcp.service import Service


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service without encoders; each test keeps to a profile of its own."""
    with opened(tmp_path_factory.mktemp("words")) as service:
        yield service


@pytest.fixture(scope="module")
def engineering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str]]]:
    """The memories of tests/data with both encoders, and the name of each by its id."""
    with opened(tmp_path_factory.mktemp("engineering"), vectors=True) as service:
        yield service, {tell(service, row): row["id"] for row in rows("memories.jsonl")}


# Walls


@pytest.mark.parametrize(("profile", "other"), [("work", "private"), ("private", "work")])
def test_profiles_never_meet(store: Service, profile: str, other: str) -> None:
    texts = ("Zephyr keeps its secrets in the blue vault", "The blue vault opens at 07:30")
    told = {name: tell_all(store, texts, profile=name, kind="decision") for name in ("work", "private")}
    assert not set(told[profile]) & set(told[other])
    answer = store.recall("What does the blue vault of Zephyr hold?", profile=profile, history=True)
    assert {each.memory.id for each in answer.memories} == set(told[profile])
    asked = "What about the blue vault of Zephyr?"
    opening = said(store, "session-open", session=f"{profile}-1", source="startup", profile=profile)
    unasked = said(store, "pre-message", session=f"{profile}-2", prompt=asked, profile=profile)
    assert set(ids_in(opening)) == set(told[profile])
    assert told[profile][0] in ids_in(unasked)
    assert not set(ids_in(unasked)) & set(told[other])


def test_an_id_of_another_profile_is_not_found_by_any_verb(store: Service) -> None:
    name = store.remember("Zephyr paints its doors red", profile="east wing").id
    episode = store.records.history(name, "east wing")[0].episodes[0]
    before = content(store)
    wall = "west wing"
    attempts: list[Callable[[], object]] = [
        lambda: store.forget(name, profile=wall),
        lambda: store.forget(name, "erase", profile=wall),
        lambda: store.forget(episode, "erase", profile=wall),
        lambda: store.keep(name, profile=wall),
        lambda: store.records.history(name, wall),
        lambda: store.recall_episode(name, profile=wall),
        lambda: store.recall_episode(episode, profile=wall),
        lambda: store.remember("It moved", replaces=[name], profile=wall),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound):
            attempt()
    assert content(store) == before


def test_episodes_of_another_profile_are_no_passages(store: Service) -> None:
    for profile in ("east", "west"):
        prompt = f"Quillon of {profile} paints the fence green"
        said(store, "pre-message", session=f"talk-{profile}", prompt=prompt, profile=profile)
    for profile in ("east", "west"):
        found = store.recall("Which fence does Quillon paint?", profile=profile).episodes
        assert [each.episode.text for each in found] == [f"Quillon of {profile} paints the fence green"]
    assert store.recall("Which fence does Quillon paint?", profile="north") == Answer(notes=(NOTHING,))


def test_a_profile_without_a_name_is_refused(store: Service) -> None:
    with pytest.raises(Refused):
        store.recall("anything", profile=" ")


def test_scope_holds_inside_each_channel(engineering: tuple[Service, dict[str, str]]) -> None:
    """The best of another project do not use up the places of this one."""
    service, _ = engineering
    crowd = [f"The falcon beacon blinks {number} times an hour" for number in range(60)]
    tell_all(service, crowd, profile="scope", project="/home/dev/crowd")
    wanted = service.remember(
        "A falcon beacon is never painted", profile="scope", project=ATLAS, kind="decision"
    )
    free = service.remember("Falcon beacons are bought in May", profile="scope")
    for narrowed in ({"project": ATLAS}, {"kinds": ["decision"]}):
        answer = service.recall("How often does the falcon beacon blink?", profile="scope", **narrowed)  # type: ignore[arg-type]
        found = {each.memory.id for each in answer.memories}
        assert wanted.id in found
        assert found <= {wanted.id, free.id}


# Fusion


LISTS = st.lists(
    st.tuples(st.just(0.0) | st.floats(0.01, 4), st.lists(st.sampled_from("abcdefgh"), max_size=12)),
    min_size=1,
    max_size=5,
)


@given(LISTS, st.randoms(use_true_random=False))
def test_the_order_of_lists_makes_no_difference(
    lists: list[tuple[float, list[str]]], chance: random.Random
) -> None:
    shuffled = chance.sample(lists, len(lists))
    assert fuse(shuffled) == fuse(lists)


@given(LISTS)
def test_what_fusion_leaves_alone(lists: list[tuple[float, list[str]]]) -> None:
    fused = fuse(lists)
    names = [name for name, _ in fused]
    assert [name for name, _ in fuse([*lists, (1.0, [])])] == names
    assert fuse([*lists, (0.0, ["z", "a"])]) == fused
    assert fuse([(weight, [*ids, *ids]) for weight, ids in lists]) == fused
    assert set(names) == {name for weight, ids in lists if weight for name in ids}
    assert fused == sorted(fused, key=lambda each: (-each[1], each[0]))


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.floats(0.1, 4))
def test_one_list_keeps_its_order(ids: list[str], weight: float) -> None:
    assert [name for name, _ in fuse([(weight, ids)])] == list(dict.fromkeys(ids))


def test_a_wrong_weight_or_constant_is_an_error() -> None:
    for lists, k in (([(-0.1, ["a"])], 15), ([(float("nan"), ["a"])], 15), ([(1.0, ["a"])], 0), ([], -1)):
        with pytest.raises(ValueError):
            fuse(lists, k)


def test_fusing_twice_is_another_order_so_recall_fuses_once(
    store: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [(1.0, ["a", "b", "c"]), (1.0, ["c", "b", "a"]), (1.0, ["c", "a", "b"])]
    once = [name for name, _ in fuse(lists)]
    twice = [name for name, _ in fuse([(1.0, once), (3.0, ["b", "a", "c"])])]
    assert once != twice
    calls = []
    monkeypatch.setattr(ranking, "fuse", lambda *given: calls.append(1) or fuse_channels(*given))
    tell_all(store, TOOLS, profile="once")
    assert store.recall("which agents?", profile="once").memories
    assert len(calls) == 1


SCRIPT = """
import sys
from desk import opened, tell_all, whats
from pathlib import Path
with opened(Path(sys.argv[1])) as service:
    tell_all(service, [f"The lamp {n} is {c} and {d}" for n, (c, d) in enumerate(
        (c, d) for c in ("red", "green", "blue") for d in ("warm", "cold", "dim"))])
    answer = service.recall("which lamp is blue, red, dim or cold?", limit=50)
    print([each.memory.id for each in answer.memories])
"""


def test_two_processes_give_the_same_answer_whatever_their_hash_seed(tmp_path: Path) -> None:
    answers = set()
    for seed in ("0", "1", "4242"):
        environ = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / seed)], env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    assert len(answers) == 1
    assert ids_in(answers.pop())


def test_the_order_of_telling_makes_no_difference(tmp_path: Path) -> None:
    texts = [f"The {a} valve {b}" for a in ("north", "south") for b in ("leaks", "drips", "holds")]
    chance = random.Random(2)
    answers = []
    for number in range(4):
        with opened(tmp_path / str(number)) as service:
            tell_all(service, chance.sample(texts, len(texts)))
            found = service.recall("which valve leaks or drips in the north?").memories
            answers.append([(each.memory.id, each.score, each.ranks) for each in found])
    assert answers[0]
    assert all(each == answers[0] for each in answers)


# Channels


class Broken:
    """An encoder that gives no vectors."""

    id, dims = "minilm-l6-v2-int8", 384

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        raise ModelError("The model file is gone.", "Install it again.")


def test_each_channel_finds_what_the_other_cannot(engineering: tuple[Service, dict[str, str]]) -> None:
    service, names = engineering
    written = service.recall("JOB_LIMIT", limit=1).memories[0]
    assert (names[written.memory.id], written.ranks["words"]) == ("m002", 1)
    meant = 0
    for row in rows("questions.jsonl"):
        first = service.recall(row["es"], limit=1).memories
        meant += bool(first) and names[first[0].memory.id] in row["gold"] and "words" not in first[0].ranks
    assert meant > 10


def test_a_failing_encoder_leaves_the_words(
    engineering: tuple[Service, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, names = engineering
    monkeypatch.setattr(service.encoders, "for_question", lambda text: Broken())
    answer = service.recall("What is JOB_LIMIT for?")
    assert names[answer.memories[0].memory.id] == "m002"
    assert any("words alone" in note and "Install it again" in note for note in answer.notes)


def test_a_vector_is_only_compared_with_those_of_its_encoder(
    engineering: tuple[Service, dict[str, str]],
) -> None:
    service, _ = engineering
    index = service.index.profile("personal")
    strange = Meaning("unheard-of", np.ones(384, np.float32))
    assert not by_meaning(_everything(index, service), strange)


def _everything(index: ProfileIndex, service: Service) -> Seen:
    return Seen(index, np.ones(len(index), np.bool_), service.settings.recall, 0)


# Passages


@examples(max_examples=100)
@given(ANY, st.lists(st.text("abcé日本", min_size=1, max_size=4), max_size=5))
def test_a_passage_is_a_part_of_its_text(text: str, wanted: list[str]) -> None:
    found, share = passage(text, wanted)
    assert 0 <= share <= 1
    assert found.removeprefix("… ").removesuffix(" …").strip() in text
    assert len(found) < 520


def test_a_passage_is_where_the_words_are() -> None:
    text = "Nothing here. " * 400 + "The kestrel sleeps in the boiler room. " + "Nothing there. " * 400
    found, share = passage(text, ["kestrel", "boiler"])
    assert "kestrel sleeps in the boiler room" in found
    assert share == 1.0


# Quality


LEAST = {"en": (50, 58), "es": (37, 48), "fr": (10, 13), "de": (13, 17), "ja": (12, 17)}


@pytest.mark.parametrize("language", LEAST)
def test_the_fused_order_loses_to_no_channel(
    engineering: tuple[Service, dict[str, str]], language: str
) -> None:
    """First places and places among three, for words alone, meaning alone, and what recall answers."""
    service, names = engineering
    index = service.index.profile("personal")
    everything = _everything(index, service)
    hits = {"words": [0, 0], "meaning": [0, 0], "fused": [0, 0]}
    for row in rows("questions.jsonl"):
        if language not in row:
            continue
        question = read(row[language])
        encoder = service.encoders.for_question(question.text)
        assert encoder is not None
        meaning = Meaning(encoder.id, encoder.encode([question.text], query=True)[0])
        answer = service.recall(row[language], limit=3)
        ranked = {
            "words": [index.id(row) for row in by_words(everything, question).rows[:3]],
            "meaning": [index.id(row) for row in by_meaning(everything, meaning).rows[:3]],
            "fused": [each.memory.id for each in answer.memories],
        }
        for channel, ids in ranked.items():
            good = [names.get(each) in row["gold"] for each in ids]
            hits[channel][0] += any(good[:1])
            hits[channel][1] += any(good)
    for place in (0, 1):
        assert hits["fused"][place] >= max(hits["words"][place], hits["meaning"][place])
        assert hits["fused"][place] >= LEAST[language][place]


def test_current_memories_come_before_closed_ones(engineering: tuple[Service, dict[str, str]]) -> None:
    service, _ = engineering
    clock = service.clock
    assert isinstance(clock, StillClock)
    old = service.remember("The server's SSH port is 22.", profile="ports", entities=[EntityRef("sshd")])
    clock.pass_days(1)
    new = service.remember("sshd listens on 49222 since the hardening.", replaces=[old.id], profile="ports")
    clock.pass_days(1)
    for question in ("what is the server's SSH port?", "The server's SSH port is 22.", "sshd"):
        found = service.recall(question, profile="ports").memories
        assert found[0].memory.id == new.id
        assert [each.status for each in found[1:]] in ([], [Status.CLOSED])
    block = said(service, "pre-message", prompt="what is the server's SSH port?", profile="ports")
    assert old.id not in ids_in(block)


def test_an_index_made_anew_answers_the_same(engineering: tuple[Service, dict[str, str]]) -> None:
    service, _ = engineering
    questions = [row["en"] for row in rows("questions.jsonl")[:10]]
    before = [service.recall(each) for each in questions]
    kept = service.index
    fresh = Index(service.store)
    service.index = service.upkeep._index = service._recaller._index = fresh
    try:
        assert [service.recall(each) for each in questions] == before
    finally:
        service.index = service.upkeep._index = service._recaller._index = kept
