"""What search tables give: only what is in scope, passages, nothing that was erased."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lancedb
import pytest
from searching import AT, SHORT, Trigrams, World, in_parallel, talk

from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Episode, Operation, Role
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.recall.answer import RecalledEpisode
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask
from mnemo_mcp.search.episodes import search_episodes
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.rows import episode_row
from mnemo_mcp.search.tables import EPISODES, MEMORIES, literal
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Trigrams())
    yield made
    made.store.close()


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
    assert {hit.id for hit in world.find(secrets[0], meaning=False)} == {asked.id, episode.id, follower.id}

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
    rows = [episode_row(world.say(f"The gateway answered {each} times."), each) for each in range(1, 401)]
    most_files = most_versions = 0
    for number, row in enumerate(rows, start=1):
        world.projection.put(EPISODES, [row], {}, number)
        if number % 50 == 0:
            most_files = max(most_files, sum(file.is_file() for file in world.folder.rglob("*")))
            world.projection.maintain(SHORT)
            handle = lancedb.connect(world.folder).open_table("episodes")
            most_versions = max(most_versions, len(handle.list_versions()))
    assert world.projection.count(EPISODES) == 400
    assert most_files < 250  # each of the two tables may have half of 500
    assert most_versions < 50
    world.projection.maintain(SHORT)
    assert sum(file.is_file() for file in world.folder.rglob("*")) < 60
    size = len(content(world.folder))
    world.projection.reset()
    world.projection.put(EPISODES, rows, {}, 400)
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
