"""Search tables that lag behind or are damaged: no answer waits for them, and they are made anew."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import lancedb
import pytest
from searching import QUESTIONS, Trigrams, World, in_parallel, later, talk

from mnemo_mcp.errors import Refused, StoreDamaged, StoreError
from mnemo_mcp.memory import Operation
from mnemo_mcp.search.field import Field, Sought
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.recent import Recent
from mnemo_mcp.search.relay import Relay
from mnemo_mcp.search.scope import Scope
from mnemo_mcp.search.tables import EPISODES, MEMORIES


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Trigrams())
    yield made
    made.store.close()


# More episodes than are all weighed, held in memory or looked up in the table


class Long(World):
    """A world of which 20 episodes are all weighed, and the newest 16 to 20 read into memory at once."""

    held = True
    """Whether older ones are held, too."""

    def open(self) -> None:
        super().open()
        while self.held and self.projection.reach_back():
            pass


@pytest.fixture(params=[True, False], ids=["held", "looked-up"])
def long(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Long]:
    made = Long(tmp_path, Trigrams(), chunk=4)
    made.held = request.param
    yield made
    made.store.close()


def first_ten(world: World) -> list[list[str]]:
    return [[hit.id for hit in world.find(question)] for question in QUESTIONS]


def test_of_many_episodes_the_same_are_found_as_if_all_were_weighed(long: Long) -> None:
    said = talk(long, 120)
    for _ in range(30):
        long.relay.step(7)
        long.find("gateway")
    long.level()
    parts, long.projection = long.projection, Projection(long.folder, {}, clock=later)
    exact = first_ten(long)
    long.projection = parts
    assert first_ten(long) == exact
    long.open()
    assert first_ten(long) == exact
    assert long.find("turbine of unit 27")[0].id == said[27].id
    assert long.find("unit 27", meaning=False)[0].id == said[27].id
    shutil.rmtree(long.folder)
    long.open()
    long.level()
    long.open()
    assert first_ten(long) == exact


def test_older_episodes_are_held_as_far_as_there_is_room(long: Long) -> None:
    said = talk(long, 120)
    long.level()
    dims = {each.id: each.dims for each in long.encoders}
    small = Projection(long.folder, dims, clock=later, chunk=4, memory_mib=0.03)
    while small.reach_back():
        pass
    recent = small.recent()
    assert recent and 0 < recent.first < 100 and recent.bytes < 0.04 * 2**20
    exact = first_ten(long)
    long.projection = small
    assert first_ten(long) == exact
    assert long.find("turbine of unit 27")[0].id == said[27].id
    long.relay = Relay(long.store, small, lambda: long.encoders)
    talk(long, 60)
    long.level()
    recent = small.recent()
    assert recent and recent.bytes < 0.04 * 2**20, "it grew on and on"


def test_without_any_room_the_newest_are_held_and_seldom_read_anew(world: World) -> None:
    talk(world, 120)
    world.level()
    dims = {each.id: each.dims for each in world.encoders}
    world.projection = Projection(world.folder, dims, clock=later, chunk=4, memory_mib=0)
    world.relay = Relay(world.store, world.projection, lambda: world.encoders)
    held, read_anew = world.projection.recent(), 0
    assert held and not world.projection.reach_back()
    for number in range(40):
        world.say(f"The lock of pier {number} is open.")
        world.level()
        assert world.find(f"lock of pier {number}")[0].words_rank == 1
        read_anew += world.projection.recent() is not held
        held = world.projection.recent()
    assert 0 < read_anew <= 10


def test_what_is_read_meanwhile_is_neither_missed_nor_found_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = talk(world, 120)
    world.level()
    world.chunk = 4
    world.open()
    asked = Recent.field

    def overtaken(recent: Recent, sought: Sought, scope: Scope) -> tuple[Field, int]:
        found = asked(recent, sought, scope)
        world.projection.reach_back()
        return found

    monkeypatch.setattr(Recent, "field", overtaken)
    for _ in range(30):
        ids = [hit.id for hit in world.find("turbine of unit 27", limit=200)]
        assert ids[0] == said[27].id and len(set(ids)) == len(ids)


def test_episodes_reached_for_bring_what_was_said_before_and_after(long: Long) -> None:
    asked = long.say("Which port does the observatory listen on?", session="a")
    talk(long, 40)
    answer = long.say("It is 8081, since the move.", session="a")
    talk(long, 30)
    long.level()
    long.open()
    found = [hit.id for hit in long.find("observatory port", meaning=False)]
    assert found[0] == asked.id and answer.id in found


def test_vectors_that_come_later_are_found_among_held_episodes(long: Long) -> None:
    ready, long.encoders = long.encoders, []
    said = talk(long, 90)
    long.level()
    long.open()
    long.encoders = ready
    assert long.find("turbine of unit 27")[0].meaning_rank is None
    long.level(20)
    assert long.find("turbine of unit 27")[0].id == said[27].id
    assert long.find("turbine of unit 27")[0].meaning_rank == 1


def test_older_episodes_bring_their_neighbours(long: Long) -> None:
    long.say("Which port does the observatory listen on?", session="a")
    answer = long.say("It is 8081, since the move.", session="a")
    talk(long, 60)
    long.level()
    long.open()
    found = [hit.id for hit in long.find("observatory port", meaning=False)]
    assert answer.id in found


def test_scope_holds_among_older_episodes(long: Long) -> None:
    ours = long.say("The harbour crane is painted green.", project="atlas")
    for number in range(230):
        long.say("The harbour crane, the harbour crane!", profile=("p", "q")[number % 2], project="borea")
    long.level()
    long.open()
    for meaning in (True, False):
        assert [hit.id for hit in long.find("harbour crane", projects=["atlas"], meaning=meaning)] == [
            ours.id
        ]
        assert long.find("harbour crane", projects=["atlas"], exclude_session="s", meaning=meaning) == []


def test_scope_holds_where_not_all_inside_it_are_weighed(long: Long) -> None:
    ours = [long.say(f"Crane {number} of ours is green.", session=f"s{number}") for number in range(40)]
    for number in range(230):
        session = f"s{number % 40}"  # what stands beside ours, and holds every word of the question
        long.say("The green crane, the crane of ours!", profile="q", project="borea", session=session)
    theirs = [
        long.say(f"Crane {number} is red.", project="borea", session=f"s{number}") for number in range(30)
    ]
    long.level()
    long.open()
    for meaning in (True, False):
        found = long.find("green crane of ours", limit=300, meaning=meaning)
        assert {hit.id for hit in found} <= {each.id for each in (*ours, *theirs)}
        found = long.find("green crane of ours", limit=300, projects=[""], meaning=meaning)
        assert {hit.id for hit in found} == {each.id for each in ours}
        found = long.find("green crane of ours", limit=300, exclude_session="s7", meaning=meaning)
        assert ours[7].id not in {hit.id for hit in found} and ours[8].id in {hit.id for hit in found}


def test_what_is_erased_among_older_episodes_is_gone(long: Long) -> None:
    secret = "q7" + "xv" * 5
    said = long.say(f"The key is {secret}.", session="t")
    talk(long, 60)
    long.level()
    long.open()
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
