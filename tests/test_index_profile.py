"""The RAM index of a profile as a whole: the same however it came about; erasure, snapshots."""

from __future__ import annotations

import logging
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from made_up import DAYS, at, memory, vectors

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.postings import EVEN
from mnemo_mcp.index.profile import ProfileIndex, Scope, indexed_words
from mnemo_mcp.index.snapshot import Snapshot, read
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import Claim, EntityRef, Kind, Memory, Period, Status
from mnemo_mcp.models.encoder import quantise
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
from mnemo_mcp.words import words

# one profile


def test_an_erased_memory_leaves_nothing_behind() -> None:
    index = ProfileIndex()
    kept = memory(0, what="The queue is drained at night", entities=(EntityRef("Kestrel"),))
    gone = memory(1, what="Zephyrine told Quillon the code 8841", entities=(EntityRef("Quillon"),))
    index.apply(kept)
    index.apply(gone)
    index.lacking("some-encoder", 9)
    index.attach("some-encoder", 4, {gone.id: (1.0, b"\x01\x02\x03\x04")})
    index.apply(memory(1, what="", erased=True))
    for word in indexed_words(gone):
        assert index.postings.frequency(word) == (word in words(kept.claim.what))
    assert not index.is_name("quillon")
    assert index.is_name("kestrel")
    assert index.same(gone.claim.what) == []
    assert not index.inside(Scope(entities=frozenset({"Quillon"}))).any()
    assert not index.matrices["some-encoder"].has(1)
    assert index.lacking("some-encoder", 9) == [0]


def test_names_are_what_is_written_like_one_or_declared() -> None:
    index = ProfileIndex()
    index.apply(
        memory(0, what="Deploys of Kestrel go through pgBouncer and WG0", entities=(EntityRef("nats"),))
    )
    index.apply(memory(1, what="Mostly harmless. However the docs say: Nothing is lost"))
    assert all(map(index.is_name, ("kestrel", "pgbouncer", "wg0", "nat")))
    assert not any(map(index.is_name, ("deploy", "mostly", "harmless", "however", "nothing")))


@examples(max_examples=50)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_any_text_can_be_entered_found_and_erased(texts: list[str]) -> None:
    index = ProfileIndex()
    for row, text in enumerate(texts):
        index.apply(memory(row, what=text))
    for text in texts:
        assert text in [each.claim.what for each in index.same(text)]
    for row in range(len(texts)):
        index.apply(memory(row, what="", erased=True))
    assert not any(index.same(text) for text in texts)
    assert not any(index.postings.frequency(word) for text in texts for word in words(text))


# many states, one index


WHATS = (
    "The gateway waits 600 s",
    "Kestrel keeps the ledger",
    "pgBouncer pools logins",
    "Search by night",
    "队列在夜间清空",
)
PEOPLE = st.lists(st.sampled_from(("Kestrel", "Quillon", "nats", "Zoë")), max_size=3, unique=True)
ENCODER = "some-encoder"
ASKED = ("gateway", "kestrel", "ledger", "login", "night", "atla", "队列")


@st.composite
def some_states(draw: st.DrawFn) -> list[Memory]:
    """States of a few memories as a ledger would tell them: asserted, renewed, replaced, erased."""
    told: list[Memory] = []
    now: dict[int, Memory] = {}
    for _ in range(draw(st.integers(1, 25))):
        number = draw(st.integers(0, 9))
        before = now.get(number)
        if before is None:
            entities = tuple(
                EntityRef(name, role=draw(st.sampled_from(("who", "about")))) for name in draw(PEOPLE)
            )
            state = memory(
                number,
                what=draw(st.sampled_from(WHATS)),
                kind=draw(st.sampled_from(list(Kind))),
                entities=entities,
                project=draw(st.sampled_from(("", "atlas"))),
            )
        elif before.erased:
            continue
        elif draw(st.booleans()):
            days = sorted(draw(st.lists(DAYS, max_size=4, unique=True)))
            pieces = tuple(
                Period(at(start), at(end)) for start, end in zip(days[::2], days[1::2], strict=False)
            )
            successor = draw(st.sampled_from(sorted(now)))
            state = replace(
                before,
                periods=pieces,
                replaced_by=tuple(dict.fromkeys((*before.replaced_by, f"m{successor:012}0"))),
                retracted=draw(st.booleans()),
            )
        else:
            state = replace(before, claim=Claim(""), erased=True)
        now[number] = state
        told.append(state)
    return told


def built(states: Iterable[Memory]) -> ProfileIndex:
    """An index of these states; every memory whose number is no multiple of three has a vector."""
    index = ProfileIndex()
    for state in states:
        index.apply(state)
        if int(state.id[1:-1]) % 3:
            (vector,) = quantise(vectors(1, 16, seed=int(state.id[1:-1])))
            index.attach(ENCODER, 16, {state.id: (vector.scale, vector.values)})
    return index


def told_by(index: ProfileIndex) -> list[object]:
    """Everything an index can be asked, by ids."""
    rows = sorted((row for row in range(len(index)) if not index.memory(row).erased), key=index.id)
    every = index.states.everything()
    nearest, cosines = index.matrix(ENCODER, 16).nearest(vectors(1, 16, seed=77)[0], every, 5)
    found = [index.postings.search(ASKED, boosts, every, 4) for boosts in (EVEN, (4.0, 1.0, 1.0, 0.5))]
    current = index.states.having(at(1), Status.CURRENT) & index.inside(Scope(frozenset({"atlas"})))
    return [
        [index.memory(row) for row in rows],
        [[each.id for each in sorted(index.same(what), key=lambda each: each.id)] for what in WHATS],
        [index.entities.of(row) for row in rows],
        [
            sorted(map(index.id, index.entities.rows_of(key, role)))
            for key in ("kestrel", "zoë")
            for role in (None, "who")
        ],
        [
            sorted(index.id(row) for row in rows if index.inside(Scope(kinds=frozenset({kind})))[row])
            for kind in Kind
        ],
        sorted(index.id(row) for row in rows if current[row]),
        [
            sorted(index.id(old) for old, _ in index.successions().ancestors(row) if old in rows)
            for row in rows
        ],
        [
            [index.is_name(word) for word in ASKED],
            [each.key for each in index.names.find("Kestrel and Zoë ask")],
        ],
        [index.postings.frequency(word) for word in ASKED],
        [index.id(row) for row in nearest],
        [round(float(value), 4) for value in cosines],
        [[index.id(row) for row in rows] for rows, _ in found],
        [[round(float(score), 4) for score in scores] for _, scores in found],
        sorted(map(index.id, index.lacking(ENCODER, 99))),
        index.lacks(ENCODER),
    ]


def sealed_away(index: ProfileIndex) -> ProfileIndex:
    frozen = index.freeze()
    index.adopt(frozen, frozen.sealed())
    return index


def saved_and_read(index: ProfileIndex, folder: Path) -> ProfileIndex:
    frozen = index.freeze()
    made = frozen.sealed()
    index.adopt(frozen, made)
    with Snapshot(folder / "index" / "snapshot") as file:
        frozen.save(file, "p.", made, index.lock)
        file.finish({"format": 0})
        file.publish()
    return ProfileIndex.restored(read(folder / "index" / "snapshot", {"format": 0}).under("p."))


@examples(max_examples=50, deadline=None)
@given(some_states(), st.integers(0, 25))
def test_an_index_that_grew_is_the_one_made_anew(states: list[Memory], seal_at: int) -> None:
    grew = built(states[:seal_at])
    sealed_away(grew)
    for state in built_on(grew, states[seal_at:]):
        grew.apply(state)
    last = {state.id: place for place, state in enumerate(states)}
    anew = built(states[place] for place in sorted(last.values()))
    assert told_by(grew) == told_by(anew)


def built_on(index: ProfileIndex, states: Iterable[Memory]) -> Iterator[Memory]:
    """The states, each with its vector once it is entered."""
    for state in states:
        yield state
        if int(state.id[1:-1]) % 3:
            (vector,) = quantise(vectors(1, 16, seed=int(state.id[1:-1])))
            index.attach(ENCODER, 16, {state.id: (vector.scale, vector.values)})


@examples(max_examples=50, deadline=None)
@given(some_states(), some_states())
def test_a_snapshot_gives_back_the_index_and_can_grow_on(states: list[Memory], later: list[Memory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = built(states)
        expected = told_by(index)
        back = saved_and_read(index, Path(folder))
        assert told_by(back) == told_by(index) == expected
        more = [replace(each, id=each.id.replace("m0", "m1")) for each in later]
        for each in (index, back):
            for state in built_on(each, more):
                each.apply(state)
        assert told_by(back) == told_by(index)
        assert told_by(saved_and_read(back, Path(folder))) == told_by(index)


# snapshots of a store


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Service]:
    """A store with two profiles; its own index saves nothing."""
    settings = Settings(home=tmp_path / "data", encoders=Encoders(english="off", other="off"))
    with Service(settings) as service:
        for number in range(30):
            entities = [EntityRef(f"Kestrel {number % 4}")]
            service.remember(
                f"Relay {number} of the Kestrel fleet keeps code {7000 + number}", entities=entities
            )
        service.remember("Zephyrine wrote the marker QUILLON", profile="other")
        yield service


def indexed(service: Service) -> Index:
    return Index(service.store, service.settings.index, worth_saving=1)


def with_vectors(service: Service) -> Index:
    """A saved index whose memories have vectors, which no ledger knows of."""
    index = indexed(service)
    for name in ("personal", "other"):
        profile = index.profile(name)
        made = quantise(vectors(len(profile), 16))
        profile.attach(
            ENCODER, 16, {profile.id(row): (each.scale, each.values) for row, each in enumerate(made)}
        )
    assert index.tidy()
    return index


def codes(index: Index, word: str = "7012", profile: str = "personal") -> list[str]:
    found = index.profile(profile)
    rows, _ = found.postings.search([word], EVEN, found.states.everything(), 5)
    return [found.memory(int(row)).claim.what for row in rows]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_start_goes_on_from_the_snapshot(kept: Service, caplog: pytest.LogCaptureFixture) -> None:
    before = with_vectors(kept)
    kept.remember("Relay 31 keeps code 7031")
    after = indexed(kept)
    assert after.profile("personal").lacks(ENCODER) == 1
    assert after.profile("other").lacks(ENCODER) == 0
    assert codes(after) == codes(before) == ["Relay 12 of the Kestrel fleet keeps code 7012"]
    assert codes(after, "7031") == ["Relay 31 keeps code 7031"]
    assert warnings(caplog) == []
    path = kept.settings.index
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [(each.name, stat.S_IMODE(each.stat().st_mode)) for each in path.iterdir()] == [
        ("snapshot", 0o600)
    ]


def flipped(data: bytes, share: float) -> bytes:
    place = int(share * (len(data) - 1))
    return data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"x",
    "other version": lambda data: data.replace(b'"mnemo":', b'"mnema":'),
    "something else": lambda data: b"PK" * 4000,
    **{
        f"a bit at {share}": partial(flipped, share=share)
        for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.97, 0.999, 1.0)
    },
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_snapshot_costs_no_answer(
    kept: Service, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    expected = codes(with_vectors(kept))
    file = kept.settings.index / "snapshot"
    file.write_bytes(damage(file.read_bytes()))
    index = indexed(kept)
    assert codes(index) == expected
    assert index.profile("personal").lacks(ENCODER) == 30, "it was read all the same"
    assert len(warnings(caplog)) == 1
    assert index.tidy(), "a good one takes its place"
    assert codes(indexed(kept)) == expected
    assert len(warnings(caplog)) == 1


def test_a_snapshot_of_another_ledger_or_of_a_later_state_is_left_alone(
    kept: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_vectors(kept)
    settings = replace(kept.settings, home=tmp_path / "elsewhere")
    with Service(settings) as other:
        for number in range(60):
            other.remember(f"Depot {number} keeps code {7000 + number}")
        settings.index.mkdir(exist_ok=True)
        shutil.copy(kept.settings.index / "snapshot", settings.index)
        assert codes(indexed(other)) == ["Depot 12 keeps code 7012"]
    with Service(replace(kept.settings, home=tmp_path / "earlier")) as earlier:
        earlier.remember("Depot 12 keeps code 7012")
        earlier.settings.index.mkdir(exist_ok=True)
        shutil.copy(kept.settings.index / "snapshot", earlier.settings.index)
        assert codes(indexed(earlier)) == ["Depot 12 keeps code 7012"]
    assert len(warnings(caplog)) == 2


def test_an_erased_text_is_in_no_file(kept: Service) -> None:
    entities = [EntityRef("Zanzibar-9")]
    gone = kept.remember("The vault code is XYLOPHONE-4471", why="Ullrich said so", entities=entities).id
    index = with_vectors(kept)
    marks = [
        mark.encode() for mark in ("XYLOPHONE", "xylophone", "Ullrich", "ullrich", "Zanzibar", "zanzibar")
    ]
    assert all(mark in (kept.settings.index / "snapshot").read_bytes() for mark in marks[:3])
    source = kept.recall_episode(gone)[0][0].id
    kept.forget(gone, "erase")
    kept.forget(source, "erase")
    for again in (index, indexed(kept)):
        again.catch_up()
        for _ in range(2):
            files = [file for file in kept.settings.home.rglob("*") if file.is_file()]
            assert not [(file, mark) for file in files for mark in marks if mark in file.read_bytes()]
            again.tidy()
        for number in range(3):
            kept.remember(f"Relay {again} is {number}")
        again.catch_up()
        assert again.tidy()
        saved = (kept.settings.index / "snapshot").read_bytes()
        assert b"Kestrel" in saved and not any(mark in saved for mark in marks)
        assert codes(again) == ["Relay 12 of the Kestrel fleet keeps code 7012"]
        assert not codes(again, "4471")


def test_an_erasure_while_a_snapshot_is_written_leaves_none(kept: Service) -> None:
    gone = kept.remember("The vault code is XYLOPHONE-4471").id
    index = indexed(kept)
    profile = index.profile("personal")
    profile.attach(ENCODER, 16, {gone: (1.0, bytes(16))})
    profile.matrices[ENCODER].part = lambda start, stop: _erase_then(kept, index, gone, profile, start, stop)  # type: ignore[method-assign]
    index.tidy()
    assert not (kept.settings.index / "snapshot").exists()
    assert not list(kept.settings.index.iterdir())


def _erase_then(
    service: Service, index: Index, gone: str, profile: ProfileIndex, start: int, stop: int
) -> tuple[Floats, Any]:
    service.forget(gone, "erase")
    index.catch_up()
    return VectorMatrix(16).part(start, stop)


def test_profiles_share_nothing_of_an_index(kept: Service) -> None:
    for index in (with_vectors(kept), indexed(kept)):
        assert codes(index, "quillon", "other") == ["Zephyrine wrote the marker QUILLON"]
        assert not codes(index, "quillon")
        assert not codes(index, "7012", "other")
        assert not index.profile("personal").is_name("quillon")
        assert not index.profile("personal").same("Zephyrine wrote the marker QUILLON")
        assert not index.profile("other").names.find("about Kestrel 1")
        assert [len(index.profile(name)) for name in ("personal", "other", "third")] == [30, 1, 0]


def test_a_small_index_is_not_saved(kept: Service) -> None:
    index = Index(kept.store, kept.settings.index)
    index.profile("personal")
    assert not index.tidy()
    index.close()
    assert not kept.settings.index.exists()
