"""Six channels: each finds what the others cannot, sees only its own profile, and may fail alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk import StillClock, opened, tell_all, whats
from hypothesis import given
from hypothesis import strategies as st

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.ledger.connections import faded
from mnemo_mcp.memory import EntityRef, instant
from mnemo_mcp.recall import channels
from mnemo_mcp.recall.channels import Channel, Listed, Seen
from mnemo_mcp.recall.fusion import fuse, votes
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.retention import retained
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Recall

BESIDE = [
    f"The {place} lamp number {number} is checked" for number in range(12) for place in ("hall", "attic")
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def seen(service: Service, profile: str = "personal") -> Seen:
    index = service.index.profile(profile)
    now = milliseconds(instant(service.clock()))
    return Seen(index, np.ones(len(index), np.bool_), service.settings.recall, now)


def told(listed: Listed, index: ProfileIndex) -> list[str]:
    return [index.memory(row).claim.what for row in listed.rows.tolist()]


def about(*names: str, role: str = "about") -> list[EntityRef]:
    return [EntityRef(name, "system", role) for name in names]


# Entities


def test_an_entity_is_found_where_no_word_of_it_stands(service: Service) -> None:
    tell_all(service, BESIDE)
    service.remember("The second shelf is empty", entities=about("Kestrel"))
    service.remember("Nothing of it is ordered", who="Kestrel")
    service.remember("It hums at night", where="Kestrel")
    view = seen(service)
    found = told(channels.by_entities(view, read("What of kestrel?", view.index.names)), view.index)
    assert found == ["The second shelf is empty", "Nothing of it is ordered", "It hums at night"]


def test_the_rarer_of_two_entities_decides(service: Service) -> None:
    for number in range(20):
        service.remember(f"Rule {number} holds", entities=about("Atlas"))
    service.remember("One thing is special", entities=about("Vireo"))
    service.remember("This is both", entities=about("Atlas", "Vireo"))
    view = seen(service)
    found = told(channels.by_entities(view, read("Atlas and Vireo?", view.index.names)), view.index)
    assert found[:2] == ["This is both", "One thing is special"]


def test_one_name_of_two_kinds_counts_once(service: Service) -> None:
    both = [EntityRef("Nomad", "system"), EntityRef("Nomad", "repository")]
    service.remember("The scheduler runs it", entities=both)
    service.remember("The scheduler is small", entities=about("Nomad"))
    view = seen(service)
    found = channels.by_entities(view, read("What is Nomad?", view.index.names))
    assert len(set(found.scores.tolist())) == 1


def test_an_alias_finds_and_a_split_takes_it_back(service: Service) -> None:
    tell_all(service, BESIDE)
    service.remember("The second shelf is empty", entities=about("Kubernetes"))
    assert "The second shelf is empty" not in whats(service.recall("What about k8s?"))
    service.records.alias("Kubernetes", "k8s", service.writer(None, "", "local", "", "person", None))
    assert whats(service.recall("What about k8s?"))[0] == "The second shelf is empty"


# Time


def test_a_time_finds_what_began_then(service: Service) -> None:
    clock = service.clock
    assert isinstance(clock, StillClock)
    for month in range(1, 9):
        service.remember(f"Thing {month} was seen", valid_from=f"2026-{month:02d}-10", kind="event")
    view = seen(service)
    question = read("What broke in the cellar in March 2026?", now=instant(clock()))
    listed = channels.by_time(view, question)
    assert told(listed, view.index)[0] == "Thing 3 was seen"
    assert listed.scores[0] == 1.0
    assert list(listed.scores) == sorted(listed.scores, reverse=True)
    assert not channels.by_time(view, read("What broke in the cellar?", now=instant(clock())))


# Connections


def test_what_hangs_together_is_found_by_a_step(service: Service) -> None:
    tell_all(service, BESIDE)
    service.remember("Sessions are kept in the blue store", entities=about("Gull"))
    service.remember("Three machines stand in two rooms", entities=about("Gull"))
    explained = service.recall("Where are sessions kept?", limit=20)
    ranks = {each.memory.claim.what: each.ranks for each in explained.memories}
    view = seen(service)
    question = read("Where are sessions kept?", view.index.names)
    words = channels.by_words(view, question)
    found = told(channels.by_connections(view, [words]), view.index)
    assert found[0] == "Three machines stand in two rooms"
    assert "words" in ranks["Sessions are kept in the blue store"]


def test_spreading_ends_and_gives_nothing_to_where_it_began(service: Service) -> None:
    texts = [f"Link {number} of the chain" for number in range(8)]
    rows = [service.index.profile("personal").row(each) for each in tell_all(service, texts)]
    view = seen(service)
    for one, other in itertools.pairwise(rows):
        assert one is not None and other is not None
        view.index.links.add(one, other, 0.9)
    begin = Listed(np.array(rows[:1], np.int64), np.ones(1, np.float32))
    listed = channels.by_connections(view, [begin])
    assert rows[0] not in listed.rows.tolist()
    assert listed.rows.tolist() == rows[1:3]
    assert (
        not channels.by_connections(view, [Listed(np.array(rows[7:], np.int64), np.ones(1, np.float32))])
        .rows[2:]
        .size
    )


@given(st.floats(0, 1), st.integers(0, 400))
def test_a_connection_fades_from_the_day_it_was_touched(weight: float, days: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    after = instant(start + timedelta(days=days))
    left = faded(weight, instant(start), after)
    assert left == (weight if days < 30 else pytest.approx(weight * np.exp(-0.01 * days)))
    assert faded(weight, after, instant(start)) == weight
    twice = faded(
        faded(weight, instant(start), instant(start + timedelta(days=30))),
        instant(start),
        instant(start + timedelta(days=30)),
    )
    assert twice == pytest.approx(faded(weight, instant(start), instant(start + timedelta(days=60))))


def test_connections_are_stored_once_grow_with_use_and_go(service: Service) -> None:
    store, clock = service.store, service.clock
    assert isinstance(clock, StillClock)
    now = instant(clock())
    with store.write() as tx:
        store.connections.add(tx, "personal", [("m2", "m1", 0.8)], now)
        store.connections.add(tx, "personal", [("m1", "m2", 0.7)], now)
        store.connections.strengthen(tx, ["m2", "m1", "m3"], now)
    assert list(store.connections.all("personal", now)) == [("m1", "m2", pytest.approx(0.85))]
    assert list(store.connections.all("other", now)) == []
    with store.write() as tx:
        for _ in range(9):
            store.connections.strengthen(tx, ["m1", "m2"], now)
    assert next(store.connections.all("personal", now))[2] == 1.0
    clock.pass_days(301)
    later = instant(clock())
    assert list(store.connections.all("personal", later)) == []
    with store.database.read() as connection:
        left = "SELECT count(*) FROM connections"
        assert connection.execute(left).fetchone() == (1,)
        service.tasks.maintain()
        assert connection.execute(left).fetchone() == (0,)


def test_vectors_connect_what_lies_near_and_a_start_finds_it_again(tmp_path: Path) -> None:
    pair = ("The nightly backup runs at two in the morning", "Backups run each night at two o'clock")
    with opened(tmp_path, vectors=True) as service:
        told_ids = tell_all(service, [*pair, "The office plants are watered on Mondays"])
        service.recall("anything about backups?")
        index = service.index.profile("personal")
        row = index.row(told_ids[0])
        assert row is not None
        assert list(index.links.neighbours(row)) == [index.row(told_ids[1])]
    with opened(tmp_path) as service:
        index = service.index.profile("personal")
        service.index.tidy()
        row = index.row(told_ids[0])
        assert row is not None
        assert list(index.links.neighbours(row)) == [index.row(told_ids[1])]


# Scope and walls


def test_the_project_asked_in_has_a_vote(service: Service) -> None:
    service.remember("Deploys need two reviews")
    service.remember("Deploys need one review", project="/home/dev/atlas")
    answer = service.recall("How many reviews do deploys need?", project="/home/dev/atlas")
    assert whats(answer)[0] == "Deploys need one review"
    assert "scope" in answer.memories[0].ranks and "scope" not in answer.memories[1].ranks


def test_no_channel_sees_another_profile(service: Service) -> None:
    for profile in ("one", "two"):
        service.remember(
            "Kestrel sleeps", entities=about("Kestrel"), profile=profile, valid_from="2026-03-10"
        )
        service.remember("Gull wakes", entities=about("Kestrel"), profile=profile)
    for profile in ("one", "two"):
        view = seen(service, profile)
        question = read("Did Kestrel sleep in March 2026?", view.index.names, now=instant(service.clock()))
        lists = [
            channels.by_words(view, question),
            channels.by_entities(view, question),
            channels.by_time(view, question),
        ]
        assert all(map(len, lists))
        lists.append(channels.by_connections(view, lists[:1]))
        for listed in lists:
            assert {view.index.memory(row).profile for row in listed.rows.tolist()} <= {profile}


@pytest.mark.parametrize("channel", ["by_words", "by_entities", "by_time", "by_connections", "by_scope"])
def test_a_channel_that_fails_is_named_and_the_others_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    def broken(*_: Any) -> Listed:
        raise IndexError("the list is torn")

    tell_all(service, BESIDE)
    service.remember("The boiler hums", entities=about("Boiler"), valid_from="2026-03-10")
    monkeypatch.setattr(channels, channel, broken)
    answer = service.recall("Did the boiler hum in March 2026?", explain=True, valid_at="2026-04-01")
    assert whats(answer)[0] == "The boiler hums"
    assert answer.explained is not None
    assert [each.partition(":")[0] for each in answer.explained.failed] == [channel.removeprefix("by_")]


def test_an_answer_that_lacks_a_channel_is_not_kept(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Listed:
        raise IndexError("the list is torn")

    tell_all(service, BESIDE)
    service.remember("The boiler hums", entities=about("Boiler"))
    monkeypatch.setattr(channels, "by_words", broken)
    first = service.recall("Does the boiler hum?")
    assert "words" not in first.memories[0].ranks
    monkeypatch.undo()
    again = service.recall("Does the boiler hum?")
    assert again.memories[0].ranks["words"] == 1


# Fusion and order


def listed(rows: list[int], scores: list[float]) -> Listed:
    return Listed(np.array(rows, np.int64), np.array(scores, np.float32))


SOME = st.lists(st.integers(0, 9), max_size=8, unique=True)


@given(
    st.lists(st.tuples(SOME, st.floats(0, 3)), min_size=1, max_size=6), st.sampled_from(["ranks", "scores"])
)
def test_what_fusion_of_channels_leaves_alone(parts: list[tuple[list[int], float]], by: str) -> None:
    constants = Recall(votes_by=by)
    names = list(Channel)
    lists = {
        name: listed(rows, sorted((0.1 + row / 10 for row in rows), reverse=True))
        for name, (rows, _) in zip(names, parts, strict=False)
    }
    weights = {name: weight for name, (_, weight) in zip(names, parts, strict=False)}
    ties = np.arange(10, dtype=np.uint64)
    rows, scores = fuse(lists, weights, lambda each: ties[each], constants)
    assert (np.diff(scores) <= 0).all()
    shuffled = dict(random.Random(3).sample(sorted(lists.items()), len(lists)))
    again, _ = fuse(shuffled, weights, lambda each: ties[each], constants)
    assert again.tolist() == rows.tolist()
    spare = next(name for name in [*names, Channel.SCOPE] if name not in lists or name is Channel.SCOPE)
    more, _ = fuse(
        {spare: listed([], []), **lists}, {spare: 1.0, **weights}, lambda each: ties[each], constants
    )
    assert more.tolist() == rows.tolist()
    for name, each in lists.items():
        assert all(0 <= vote <= 1.0001 for vote in votes(name, each, constants).tolist())


def test_a_time_far_away_has_no_vote() -> None:
    assert votes(Channel.TIME, listed([3, 4], [0.02, 0.01]), Recall()).tolist() == pytest.approx([0.02, 0.01])


def test_what_says_why_answers_why(service: Service) -> None:
    service.remember("The gateway was moved to Porto")
    service.remember("The gateway was moved to Braga", why="rent was lower")
    answer = service.recall("Why was the gateway moved?", explain=True)
    assert answer.memories[0].memory.claim.why
    assert "says why" in answer.memories[0].reasons


def test_what_a_person_keeps_gains(service: Service) -> None:
    first, second = tell_all(service, ["The gateway door is red", "The gateway door is blue"])
    last = [each.memory.id for each in service.recall("Which gateway door?").memories][-1]
    service.keep(last)
    answer = service.recall("Which gateway door?")
    assert {first, second} == {each.memory.id for each in answer.memories}
    assert answer.memories[0].memory.id == last
    assert "kept by a person" in answer.memories[0].reasons


@given(st.floats(0, 4000), st.integers(1, 30), st.integers(0, 200))
def test_what_is_left_of_a_memory(days: float, told_times: int, uses: int) -> None:
    left = retained(days, told_times, uses)
    assert 0 <= left <= 1
    assert retained(days + 1, told_times, uses) <= left <= retained(days, told_times + 1, uses)
    assert left <= retained(days, told_times, uses + 1)


def test_retention_at_its_corners() -> None:
    assert retained(0) == retained(-5) == 1.0
    assert retained(56) == pytest.approx(0.3679, abs=1e-4)
    assert retained(90) == pytest.approx(0.2, abs=0.01)
    assert retained(168) == pytest.approx(0.05, abs=0.01)


def test_repeats_are_folded_and_named(service: Service) -> None:
    tell_all(service, BESIDE)
    what = "The gateway of Atlas listens on port 8443"
    both = {service.remember(what, kind=kind).id for kind in ("fact", "state")}  # of two kinds: both are kept
    answer = service.recall("On which port does the gateway of Atlas listen?")
    assert len([each for each in whats(answer) if "8443" in each]) == 1
    (first, *_) = answer.memories
    assert len(both) == 2 and {first.memory.id, *first.repeats} == both


def test_the_explanation_tells_reading_channels_and_places(service: Service) -> None:
    tell_all(service, BESIDE)
    service.remember("The boiler hums", why="it is old", entities=about("Boiler"))
    answer = service.recall("Why does the boiler hum?", explain=True)
    assert answer.explained is not None
    reading = answer.explained.reading
    assert (reading["asks"], [each["name"] for each in reading["entities"]]) == ("why", ["boiler"])
    (tier, *_) = answer.explained.tiers
    assert tier["status"] == "current"
    assert set(tier["channels"]) == {str(each) for each in Channel}
    assert tier["channels"]["words"]["found"] >= 1
    assert answer.memories[0].ranks["words"] == 1
