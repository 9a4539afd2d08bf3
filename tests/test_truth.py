"""Truth over time through the service: what was true when, what was known when, and why answers changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product import until

from mnemo_mcp.errors import LedgerConflict, NotFound, Refused, StoreError
from mnemo_mcp.memory import EntityRef, Status, instant
from mnemo_mcp.pictures import timeline_svg
from mnemo_mcp.recall.difference import SAME
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Daemon, Encoders, Settings

NOW = datetime(2026, 12, 6, 12, tzinfo=UTC)
OFF = Encoders("off", "off")
CITY = {"subject": "Ivan", "field": "city"}


def open_at(home: Path, now: datetime = NOW, zone: str = "UTC") -> Service:
    return Service(Settings(home=home, zone=zone, encoders=OFF), clock=lambda: now)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_at(tmp_path / "data") as opened:
        yield opened


def current(service: Service, question: str, **when: str) -> list[str]:
    answer = service.recall(question, **when)  # type: ignore[arg-type]
    return [found.memory.claim.what for found in answer.memories if found.status is Status.CURRENT]


# The golden story, told by the subject's field alone and by naming what is replaced.


def by_field(service: Service) -> None:
    say: Callable[..., Any] = service.remember
    say("Ivan lives in Lisbon", valid_from="2026-01-01", at="2026-01-01", **CITY)
    berlin = say("Ivan lives in Berlin", valid_from="2026-10-15", at="2026-11-01", **CITY)
    say("Ivan lived in Prague", valid_from="2026-10-01", valid_to="2026-10-15", at="2026-11-20", **CITY)
    say("Ivan lives in Bern", valid_from="2026-10-15", at="2026-12-01", replaces=[berlin.id], correction=True,
        **CITY)  # fmt: skip


def by_naming(service: Service) -> None:
    say: Callable[..., Any] = service.remember
    lisbon = say("Ivan lives in Lisbon", valid_from="2026-01-01", at="2026-01-01").id
    berlin = say("Ivan lives in Berlin", valid_from="2026-10-15", at="2026-11-01", replaces=[lisbon]).id
    say("Ivan lived in Prague", valid_from="2026-10-01", valid_to="2026-10-15", at="2026-11-20",
        replaces=[lisbon])  # fmt: skip
    say("Ivan lives in Bern", valid_from="2026-10-15", at="2026-12-01", replaces=[berlin], correction=True)


DAYS = ["2025-12-31", "2026-09-30", "2026-10-01", "2026-10-05", "2026-10-14", "2026-10-15", "2026-10-20"]
GOLDEN = {
    "2026-10-25": ["", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Lisbon"],
    "2026-11-05": ["", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Berlin", "Berlin"],
    "2026-11-25": ["", "Lisbon", "Prague", "Prague", "Prague", "Berlin", "Berlin"],
    "2026-12-05": ["", "Lisbon", "Prague", "Prague", "Prague", "Bern", "Bern"],
}


@pytest.mark.parametrize("told", [by_field, by_naming])
def test_golden_story(service: Service, told: Callable[[Service], None]) -> None:
    told(service)
    for known, cities in GOLDEN.items():
        for day, city in zip(DAYS, cities, strict=True):
            found = current(service, "where does Ivan live?", valid_at=day, known_at=known)
            assert [each.split()[-1] for each in found] == ([city] if city else []), (day, known)
    assert service.check() == []


def test_the_difference_of_the_golden_story_is_told_in_words(service: Service) -> None:
    by_field(service)
    told = " ".join(service.diff("where does Ivan live?", "2026-10-25", "2026-12-05").changes)
    for sentence in (
        "On 2026-11-01 learned “Ivan lives in Berlin”, true since 2026-10-15.",
        "On 2026-11-01 closed “Ivan lives in Lisbon”: not true any more since 2026-10-15; since then"
        " “Ivan lives in Berlin”.",
        "On 2026-11-20 learned “Ivan lived in Prague”, true since 2026-10-01 until 2026-10-15.",
        "On 2026-11-20 cut “Ivan lives in Lisbon”: not true from 2026-10-01 to 2026-10-15, when it was"
        " “Ivan lived in Prague”.",
        "On 2026-12-01 retracted “Ivan lives in Berlin”: it never was true; true is “Ivan lives in Bern”.",
        "On 2026-12-01 learned “Ivan lives in Bern”, true since 2026-10-15.",
    ):  # fmt: skip
        assert sentence in told
    quiet = service.diff("where does Ivan live?", "2026-11-02", "2026-11-05")
    assert quiet.changes == (SAME,)
    assert quiet.same_ranking


def test_retracting_without_a_replacement_leaves_the_time_unknown(service: Service) -> None:
    by_field(service)
    bern = service.recall("Bern").memories[0].memory.id
    service.forget([bern], "retract", at="2026-12-03")
    assert current(service, "where does Ivan live?", valid_at="2026-10-20") == []
    assert current(service, "where does Ivan live?", valid_at="2026-10-20", known_at="2026-12-02") == [
        "Ivan lives in Bern"
    ]
    wrong = [each.memory.claim.what for each in service.recall("Ivan lives", history=True).memories
             if each.status is Status.RETRACTED]  # fmt: skip
    assert set(wrong) == {"Ivan lives in Bern", "Ivan lives in Berlin"}


def test_what_was_retracted_can_be_said_again(service: Service) -> None:
    first = service.remember("The cron runs in UTC", valid_from="2026-01-01", at="2026-01-01")
    service.forget([first.id], "retract", at="2026-02-01")
    again = service.remember("The cron runs in UTC", valid_from="2026-03-01", at="2026-03-01")
    assert again.outcome == "added" and again.id != first.id
    assert current(service, "cron UTC") == ["The cron runs in UTC"]
    assert current(service, "cron UTC", valid_at="2026-01-15") == []


def test_forgetting_twice_changes_nothing_and_forgetting_nothing_is_an_error(service: Service) -> None:
    memory = service.remember("The cron runs in UTC").id
    assert service.forget([memory])[0].outcome == "retracted"
    rows = service.store.truth.newest()
    assert service.forget([memory])[0].outcome == "gone"
    with pytest.raises(NotFound):
        service.forget([memory, "mnothing000000"])
    assert service.store.truth.newest() == rows


# Fields.


def test_the_old_value_said_of_a_part_of_its_time_changes_nothing(service: Service) -> None:
    by_field(service)
    outcome = service.remember(
        "Ivan lives in Lisbon", valid_from="2026-02-01", valid_to="2026-03-01", at="2026-12-02", **CITY
    )
    assert outcome.outcome == "confirmed"


def test_a_late_value_without_an_end_holds_until_the_next_one(service: Service) -> None:
    by_field(service)
    service.remember("Ivan lives in Oslo", valid_from="2025-05-01", at="2026-12-02", **CITY)
    assert current(service, "where does Ivan live?", valid_at="2025-07-01") == ["Ivan lives in Oslo"]
    assert current(service, "where does Ivan live?", valid_at="2026-02-01") == ["Ivan lives in Lisbon"]


def test_fields_of_other_subjects_are_left_alone(service: Service) -> None:
    service.remember("Ivan lives in Lisbon", valid_from="2026-01-01", **CITY)
    service.remember("Mara lives in Bern", valid_from="2026-02-01", subject="Mara", field="city")
    service.remember("Ivan works in Porto", valid_from="2026-02-01", subject="Ivan", field="office")
    assert len(current(service, "Ivan Mara lives works")) == 3


months = st.integers(0, 23).map(lambda n: f"{2025 + n // 12}-{n % 12 + 1:02d}-01")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), months, st.none() | months, months), min_size=1, max_size=8)
)
def test_values_of_one_field_never_overlap(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str | None, str]]
) -> None:
    with open_at(tmp_path_factory.mktemp("field") / "data") as service:
        for value, start, end, told in facts:
            if end is None or start < end:
                service.remember(f"value {value}", valid_from=start, valid_to=end, at=told, **CITY)
        memories = service.store.truth.about("personal", "Ivan", "city")
        periods = sorted((p.start, p.end or "9") for memory in memories for p in memory.periods)
        assert all(first[1] <= second[0] for first, second in pairwise(periods))
        assert service.check() == []


# Times at the door.


@pytest.mark.parametrize(
    ("words", "day"),
    [("yesterday", "2026-03-01"), ("next Monday", "2026-03-09"), ("last Tuesday", "2026-02-24"),
     ("3 weeks ago", "2026-02-09"), ("hace 3 días", "2026-02-27"), ("12 May", "2025-05-12"),
     ("29 February", "2024-02-29"), ("March 2025", "2025-03-01"), ("2026", "2026-01-01")],
)  # fmt: skip
def test_words_mean_what_they_meant_when_and_where_they_were_said(
    tmp_path: Path, words: str, day: str
) -> None:
    with open_at(tmp_path / "data", zone="America/New_York") as service:
        told = service.remember("The queue moved to NATS", valid_from=words, at="2026-03-02T23:30:00+01:00")
        memory = service.store.truth.get(told.id, "personal")
    local = datetime.fromisoformat(memory.valid_from).astimezone(
        datetime.fromisoformat("2026-03-02T00:00+01:00").tzinfo
    )
    assert f"{local:%Y-%m-%d %H:%M}" == f"{day} 00:00"
    assert memory.known_at == "2026-03-02T22:30:00.000Z"


@pytest.mark.parametrize(
    "words", ["03/04", "3.4.2026", "2026-02-29", "2026-13-01", "soon", "30 February", "the day"]
)
def test_what_is_no_date_is_refused_and_nothing_is_stored(service: Service, words: str) -> None:
    with pytest.raises(Refused):
        service.remember("x", valid_from=words)
    assert service.store.truth.newest() == 0 and service.store.episodes.newest() == 0


@pytest.mark.parametrize("end", ["2026-01-01", "2025-12-31"])
def test_a_period_must_end_after_it_begins(service: Service, end: str) -> None:
    with pytest.raises(Refused, match="before"):
        service.remember("x", valid_from="2026-01-01", valid_to=end)


def test_an_unknown_world_date_is_the_day_it_was_said_and_marked(service: Service) -> None:
    told = service.remember("The queue is NATS", at="2026-03-02T10:00:00Z")
    memory = service.store.truth.get(told.id, "personal")
    assert memory.assumed and memory.valid_from == "2026-03-02T10:00:00.000Z"
    assert not service.store.truth.get(service.remember("y", valid_from="today").id, "personal").assumed


def test_days_begin_in_the_persons_zone_also_on_days_of_23_and_25_hours(tmp_path: Path) -> None:
    with open_at(tmp_path / "data", zone="Europe/Madrid") as service:
        for day, start in (("2026-03-29", "2026-03-28T23:00"), ("2026-03-30", "2026-03-29T22:00"),
                           ("2026-10-26", "2026-10-25T23:00")):  # fmt: skip
            told = service.remember(f"since {day}", valid_from=day)
            assert service.store.truth.get(told.id, "personal").valid_from == f"{start}:00.000Z"


# Entities.


def test_two_names_of_one_entity(service: Service) -> None:
    service.remember("The cluster runs in Frankfurt", entities=[EntityRef("Kubernetes", "system")])
    writer = service.writer(None, "", "test", "", "person", None)
    service.records.alias("Kubernetes", "k8s", writer)
    assert [each.memory.claim.what for each in service.recall("runs", entities=["K8S"]).memories]
    assert service.records.entity("k8s", "personal")[0].name == "Kubernetes"


def test_merging_and_taking_it_back_restores_both(service: Service) -> None:
    service.remember("Postgres holds billing", entities=[EntityRef("Postgres", "system")])
    service.remember("PostgreSQL holds orders", entities=[EntityRef("PostgreSQL", "system")])
    before = [service.records.entity(name, "personal")[0] for name in ("Postgres", "PostgreSQL")]
    writer = service.writer(None, "", "test", "", "person", None)
    service.records.merge("Postgres", "PostgreSQL", writer)
    assert len(service.recall("holds", entities=["PostgreSQL"]).memories) == 2
    service.records.unmerge("Postgres", writer)
    assert [service.records.entity(name, "personal")[0] for name in ("Postgres", "PostgreSQL")] == before
    assert len(service.recall("holds", entities=["PostgreSQL"]).memories) == 1
    service.store.truth.rebuild()
    assert [service.records.entity(name, "personal")[0] for name in ("Postgres", "PostgreSQL")] == before


def test_merged_memories_are_one_that_cites_both_until_it_is_taken_back(service: Service) -> None:
    first = service.remember("Deploys happen on Thursdays.", at="2026-01-01").id
    second = service.remember("The deploy train leaves every Thursday.", at="2026-02-01").id
    before = [service.store.truth.get(each, "personal") for each in (first, second)]
    writer = service.writer(None, "", "test", "", "person", "2026-03-01")
    service.records.merge_memories(second, first, writer, "the same")
    (found,) = service.recall("Thursday deploy").memories
    assert found.memory.id == first
    assert set(found.memory.episodes) == {*before[0].episodes, *before[1].episodes}
    for name, into in ((second, first), (first, second), (first, first)):
        with pytest.raises(Refused):
            service.records.merge_memories(name, into, writer)
    assert len(service.recall("Thursday deploy", known_at="2026-02-15").memories) == 2
    later = service.writer(None, "", "test", "", "person", "2026-04-01")
    service.records.unmerge_memories(second, later)
    after = [service.store.truth.get(each, "personal") for each in (first, second)]
    assert [each.episodes for each in after] == [each.episodes for each in before]
    assert len(service.recall("Thursday deploy").memories) == 2
    assert service.check() == []


def test_likeness_of_names_merges_nothing(service: Service) -> None:
    for kind in ("system", "repo"):
        service.remember(f"Nomad the {kind}", entities=[EntityRef("Nomad", kind)])
    service.remember("a", entities=[EntityRef("service-a"), EntityRef("service-b"), EntityRef("postgres 14")])
    assert len(service.store.entities.of_profile("personal")) == 5
    with pytest.raises(Refused, match="system"):
        service.records.entity("Nomad", "personal")


# Timelines.


def test_timeline_holds_every_belief(service: Service) -> None:
    by_field(service)
    told = [(span.what.split()[-1], span.valid.start[:10], (span.valid.end or "open")[:10],
             span.known.start[:10], (span.known.end or "still")[:10])
            for span in service.records.timeline("ivan", "City", "personal")]  # fmt: skip
    assert told == [
        ("Lisbon", "2026-01-01", "open", "2026-01-01", "2026-11-01"),
        ("Lisbon", "2026-01-01", "2026-10-15", "2026-11-01", "2026-11-20"),
        ("Berlin", "2026-10-15", "open", "2026-11-01", "2026-12-01"),
        ("Lisbon", "2026-01-01", "2026-10-01", "2026-11-20", "still"),
        ("Prague", "2026-10-01", "2026-10-15", "2026-11-20", "still"),
        ("Bern", "2026-10-15", "open", "2026-12-01", "still"),
    ]
    picture = timeline_svg("Ivan <city>", service.records.timeline("Ivan", "city", "personal"))
    assert picture.count("<title>") == 6 and "Ivan &lt;city&gt;" in picture
    with pytest.raises(NotFound):
        service.records.timeline("nobody", None, "personal")


# Copies.


def _everything(service: Service) -> list[str]:
    import json

    return [line for line in _lines(service) if "header" not in json.loads(line)]


def _lines(service: Service) -> list[str]:
    from mnemo_mcp.ledger.transfer import export_lines

    return list(export_lines(service.store, instant(NOW), "test"))


@pytest.fixture
def told(service: Service) -> Service:
    by_field(service)
    service.keep(service.recall("Bern").memories[0].memory.id)
    erased = service.remember("The vault code is KIWI-7741", entities=[EntityRef("Vault")], at="2026-12-02")
    service.forget([erased.id], "erase")
    service.remember("デプロイは木曜日 🙂", at="2026-12-03", project="atlas", profile="work")
    return service


def test_an_import_gives_the_same_memory_back(told: Service, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert told.records.export(file, instant(NOW)) == len(_everything(told))
    assert file.stat().st_mode & 0o777 == 0o600
    with open_at(tmp_path / "second") as second:
        assert second.records.take_in(file).added > 0
        assert _everything(second) == _everything(told)
        assert second.check() == []
        for service in (told, second):
            assert service.records.take_in(file).added == 0
        assert _everything(told) == _everything(second)
    with pytest.raises(Refused, match="exists"):
        told.records.export(file, instant(NOW))


def test_a_file_that_is_not_whole_is_refused_as_a_whole(told: Service, tmp_path: Path) -> None:
    lines = _lines(told)
    cases = {
        "Line 6": [*lines[:5], lines[5][: len(lines[5]) // 2], *lines[6:]],
        "header": lines[1:],
        "tells of": lines[:-1],
        "id": [line.replace("Lisbon", "Madrid") for line in lines],
    }
    with open_at(tmp_path / "second") as second:
        for told_wrong, broken in cases.items():
            file = tmp_path / "broken.jsonl"
            file.write_text("\n".join(broken), "utf-8")
            with pytest.raises((Refused, LedgerConflict), match=told_wrong):
                second.records.take_in(file)
            assert second.store.truth.newest() == 0


def test_rows_in_reverse_order_make_the_same_truth(told: Service, tmp_path: Path) -> None:
    lines = _lines(told)
    file = tmp_path / "reversed.jsonl"
    file.write_text("\n".join([lines[0], *reversed(lines[1:])]), "utf-8")
    with open_at(tmp_path / "second") as second:
        second.records.take_in(file)
        assert sorted(_ledger_ids(second)) == sorted(_ledger_ids(told))
        for day, city in zip(DAYS, GOLDEN["2026-12-05"], strict=True):
            found = current(second, "where does Ivan live?", valid_at=day)
            assert [each.split()[-1] for each in found] == ([city] if city else [])


def _ledger_ids(service: Service) -> list[str]:
    return [row.id for row, _ in service.store.truth.log()]


def test_backup_is_a_whole_store(told: Service, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir(mode=0o700)
    told.records.backup(tmp_path / "second" / "mnemo.db")
    with open_at(tmp_path / "second") as second:
        assert _everything(second) == _everything(told)


# Erasing.


def test_erased_text_is_in_no_file(tmp_path: Path) -> None:
    home = tmp_path / "data"
    hasty = replace(Settings(home=home, encoders=OFF), daemon=Daemon(keep_versions_seconds=0.05))
    with Service(hasty) as service:
        memory = service.remember(
            "The vault code is KIWI-7741-ZEBRA", entities=[EntityRef("KIWI-7741-ZEBRA")]
        )
        writer = service.writer(None, "", "test", "", "person", None)
        service.records.alias("KIWI-7741-ZEBRA", "code KIWI-7741-ZEBRA", writer)
        said = b'{"session_id": "s", "prompt_id": "1", "last_assistant_message": "It is KIWI-7741-ZEBRA."}'
        service.hook("claude", "turn-end", said)
        while service.upkeep.relay():
            pass
        (source,) = service.store.truth.get(memory.id, "personal").episodes
        erased = service.forget([memory.id], "erase")[0]
        assert erased.details["sources"] == [source]
        answer = next(each for each in service.store.episodes.all() if "It is" in each.text)
        lost = service.forget([source, answer.id], "erase")
        assert [each.outcome for each in lost] == ["erased", "erased"]
        assert not service.recall("vault code KIWI-7741-ZEBRA", history=True).memories
        assert not service.recall("vault code KIWI-7741-ZEBRA").episodes
        while service.upkeep.relay():
            pass
        service.store.truth.rebuild()
        assert service.check() == []

        def gone() -> bool:
            service.upkeep.maintain()
            files = [file for file in home.rglob("*") if file.is_file()]
            return not any(b"KIWI-7741" in file.read_bytes() for file in files)

        until(gone, 10)


def test_erasing_a_source_names_what_lost_its_last_support(service: Service) -> None:
    once = service.remember("The port is 8080", at="2026-01-01").id
    twice = service.remember("The queue is NATS", at="2026-01-01").id
    assert service.remember("the queue is NATS.", at="2026-02-01").outcome == "confirmed"
    sources = {each: service.store.truth.get(each, "personal").episodes for each in (once, twice)}
    assert service.forget(sources[once], "erase")[0].details["unsupported"] == [once]
    assert service.forget(sources[twice][:1], "erase")[0].details["unsupported"] == []
    assert service.forget(sources[twice][1:], "erase")[0].details["unsupported"] == [twice]


# Writers.


def test_a_week_of_background_work_adds_no_ledger_row(told: Service) -> None:
    before = told.store.truth.newest()
    for _ in range(7):
        told.upkeep.before_answer()
        told.upkeep.relay()
        told.upkeep.maintain()
        told.recall("where does Ivan live?")
        told.take_inbox()
    assert told.store.truth.newest() == before


WRITERS: dict[str, Callable[[Service, str], object]] = {
    "replacing": lambda service, old: service.remember("Thursday", at="2026-02-01", replaces=[old], **CITY),
    "cutting": lambda service, old: service.remember(
        "Friday", valid_from="2026-03-01", valid_to="2026-04-01", at="2026-05-01", **CITY
    ),
    "confirming": lambda service, old: service.remember("Deploys are on Tuesday", at="2026-02-01", **CITY),
    "closing": lambda service, old: service.forget([old], "close"),
    "erasing": lambda service, old: service.forget([old], "erase"),
    "keeping": lambda service, old: service.keep(old),
    "turn end": lambda service, old: service.hook(
        "claude", "turn-end", b'{"session_id": "s", "prompt_id": "1", "last_assistant_message": "Done."}'
    ),
    "naming": lambda service, old: service.records.alias(
        "Ivan", "Vanya", service.writer(None, "", "test", "", "person", None)
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_crash_at_any_statement_leaves_all_or_nothing(tmp_path: Path, writer: str) -> None:
    """The writer is broken off at its n-th change of a table, for every n."""
    with open_at(tmp_path / "data") as service:
        old = service.remember("Deploys are on Tuesday", at="2026-01-01", **CITY).id
        connection = service.store.database._connection()
        before = _everything(service)
        for statement in range(1, 100):
            _break_off_at(connection, statement)
            try:
                WRITERS[writer](service, old)
            except StoreError:
                connection.set_authorizer(None)
                assert _everything(service) == before
                assert service.check() == []
                continue
            break
        connection.set_authorizer(None)
        assert statement > 1
        assert _everything(service) != before
        assert service.check() == []


def _break_off_at(connection: Any, statement: int) -> None:
    import sqlite3

    seen = 0

    def authorise(action: int, *_: object) -> int:
        nonlocal seen
        if action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE):
            seen += 1
            if seen == statement:
                return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorise)


WRITE = """
import sys
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Operation, instant
name, path = sys.argv[1], Path(sys.argv[2])
now = datetime.now(UTC)
store = Store(path, now)
for number in range(50):
    with store.write() as tx:
        store.truth.newest()
        row = ledger_row("p", f"m{name}x{number}", Operation.ASSERT, body={"claim": {"what": "x"}},
                         known_at=instant(now), source=name, cause={}, episodes=("e",))
        assert store.truth.append(tx, [row], instant(now)) == 1
"""


def test_six_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mnemo.db"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(name), str(path)]) for name in range(6)]
    assert [writer.wait(120) for writer in writers] == [0] * 6
    with open_at(tmp_path) as service:
        assert service.store.truth.newest() == 300
        assert service.check() == []


# Questions with dates.


SEEN = {"E1": "2026-09-13T22:30Z", "E2": "2026-09-14T00:30Z", "E3": "2026-09-14T09:00Z"}


@pytest.mark.parametrize(
    ("zone", "yesterday", "today", "on_the_14th"),
    [
        ("UTC", ["E1"], ["E2", "E3"], ["E2", "E3"]),
        ("Europe/Madrid", [], ["E1", "E2", "E3"], ["E1", "E2", "E3"]),
        ("Pacific/Kiritimati", [], ["E1", "E2", "E3"], ["E1", "E2", "E3"]),
        ("Pacific/Midway", [], ["E1", "E2", "E3"], []),
        ("Asia/Kolkata", [], ["E1", "E2", "E3"], ["E1", "E2", "E3"]),
    ],
)
def test_days_are_those_of_the_person(
    tmp_path: Path, zone: str, yesterday: list[str], today: list[str], on_the_14th: list[str]
) -> None:
    now = datetime(2026, 9, 14, 9, 21, tzinfo=UTC)
    with open_at(tmp_path / "data", now, zone) as service:
        for name, at in SEEN.items():
            service.remember(f"{name} took place", kind="event", valid_from=at, at=at)
        for question, names in (
            ("what happened yesterday?", yesterday),
            ("what did we do today?", today),
            ("what changed on 2026-09-14?", on_the_14th),
        ):
            answer = service.recall(question)
            assert [found.memory.claim.what[:2] for found in answer.memories] == names
            assert [found.episode.text[:2] for found in answer.episodes] == names
            assert any("is read as" in note for note in answer.notes)
        said = service.hook(
            "claude", "pre-message", b'{"session_id": "s", "prompt": "what did we do today?"}'
        )
        assert [name for name in SEEN if name in said] == today


def test_a_question_about_a_day_is_answered_as_of_that_day(service: Service) -> None:
    by_field(service)
    for day, city in (("5 October 2026", "Prague"), ("2026-09-30", "Lisbon"), ("yesterday", "Bern")):
        question = f"Where did Ivan live on {day}?"
        assert current(service, question)[0].split()[-1] == city
        assert any("Answered as of" in note for note in service.recall(question).notes)


def test_current_before_closed_also_for_the_closed_ones_own_words(service: Service) -> None:
    old = service.remember("The server's SSH port is 22.", at="2026-01-01").id
    service.remember("sshd listens on 49222 since the hardening.", at="2026-02-01", replaces=[old])
    for question in ("what is the server's SSH port?", "The server's SSH port is 22."):
        answer = service.recall(question)
        assert "49222" in answer.memories[0].memory.claim.what
        assert [found.status for found in answer.memories] == [Status.CURRENT, Status.CLOSED]
    said = service.hook(
        "claude", "pre-message", b'{"session_id": "s", "prompt": "what is the server SSH port?"}'
    )
    assert "49222" in said and "port is 22" not in said


def test_without_a_judge_both_stay_and_the_newer_is_first(service: Service) -> None:
    service.remember("Atlas deploys on Tuesday.", at="2026-01-01")
    service.remember("Atlas deploys on Thursday now, no longer on Tuesday.", at="2026-02-01")
    found = service.recall("when does Atlas deploy?").memories
    assert ["Thursday" in each.memory.claim.what for each in found] == [True, False]
    assert found[1].outdated_by == found[0].memory.id


def test_a_time_that_is_a_word_among_others_hides_nothing(service: Service) -> None:
    service.remember("The ledger keeps the rows of the last month", at="2026-12-05")
    assert current(service, "why does the ledger keep rows of the last month?")


# What the mechanisms ask for, through the service.

SEGMENTS = {
    "inside": (("2026-03-01", "2026-04-01"), ["A 02-03", "B 03-04", "A 04-06"]),
    "equal start": (("2026-02-01", "2026-04-01"), ["B 02-04", "A 04-06"]),
    "equal end": (("2026-04-01", "2026-06-01"), ["A 02-04", "B 04-06"]),
    "equal both": (("2026-02-01", "2026-06-01"), ["B 02-06"]),
    "covers": (("2026-01-01", "2026-07-01"), ["B 01-07"]),
    "overlaps left": (("2026-01-01", "2026-04-01"), ["B 01-04", "A 04-06"]),
    "overlaps right": (("2026-04-01", "2026-08-01"), ["A 02-04", "B 04-08"]),
    "touches at the end": (("2026-06-01", "2026-07-01"), ["A 02-06", "B 06-07"]),
    "before everything": (("2025-01-01", "2025-02-01"), ["B 01-02", "A 02-06"]),
    "after everything": (("2026-08-01", "2026-09-01"), ["A 02-06", "B 08-09"]),
}


@pytest.mark.parametrize("way", SEGMENTS)
def test_a_late_segment_cuts_what_it_lies_on(service: Service, way: str) -> None:
    (start, end), expected = SEGMENTS[way]
    service.remember("A", valid_from="2026-02-01", valid_to="2026-06-01", at="2026-09-01", **CITY)
    service.remember("B", valid_from=start, valid_to=end, at="2026-10-01", **CITY)
    assert _periods(service) == expected
    with open_at(service.settings.home.parent / "again") as again:
        file = service.settings.home.parent / "told.jsonl"
        service.records.export(file, instant(NOW))
        again.records.take_in(file)
        assert _periods(again) == expected


def test_a_segment_over_three_values_and_one_in_a_gap(service: Service) -> None:
    for name, start, end in (("A", "01", "02"), ("C", "02", "03"), ("D", "04", "05")):
        service.remember(
            name, valid_from=f"2026-{start}-01", valid_to=f"2026-{end}-01", at="2026-09-01", **CITY
        )
    service.remember("B", valid_from="2026-01-15", valid_to="2026-04-15", at="2026-10-01", **CITY)
    assert _periods(service) == ["A 01-01", "B 01-04", "D 04-05"]
    service.remember("E", valid_from="2026-07-01", valid_to="2026-08-01", at="2026-10-02", **CITY)
    assert _periods(service)[-1] == "E 07-08"


def _periods(service: Service) -> list[str]:
    memories = service.store.truth.about("personal", "Ivan", "city")
    told = sorted(
        (each.start, each.end or "", memory.claim.what) for memory in memories for each in memory.periods
    )
    return [f"{what} {start[5:7]}-{end[5:7]}" for start, end, what in told]


def test_recall_of_the_present_reads_no_history(told: Service) -> None:
    told.recall("where does Ivan live?")
    statements: list[str] = []
    connection = told.store.database._connection()
    connection.set_trace_callback(statements.append)
    told.recall("where does Ivan live?")
    connection.set_trace_callback(None)
    assert statements and not [each for each in statements if "ledger" in each]


def test_what_a_hook_received_is_known_since_then_however_late_it_is_taken_in(tmp_path: Path) -> None:
    received = datetime(2026, 3, 2, 23, tzinfo=UTC)
    with open_at(tmp_path / "data") as service:
        name = f"{int(received.timestamp() * 1e9):020}-1-claude-turn-end.json"
        (service.settings.inbox / name).write_bytes(b'{"session_id": "s", "last_assistant_message": "Done."}')
        assert service.take_inbox() == 1
        (episode,) = service.store.episodes.all()
    assert episode.occurred_at == instant(received)
    assert episode.recorded_at == instant(NOW)


def test_retracting_finds_the_previous_and_the_first_of_three(service: Service) -> None:
    ids = [service.remember(name, valid_from=f"2026-0{month}-01", at="2026-06-01", **CITY).id
           for month, name in enumerate("ABC", 1)]  # fmt: skip
    for at, gone in (("2026-07-01", 1), ("2026-08-01", 0), ("2026-09-01", 2)):
        service.forget([ids[gone]], "retract", at=at)
        assert service.store.truth.get(ids[gone], "personal").retracted
    assert current(service, "A B C", valid_at="2026-02-15", known_at="2026-06-15") == ["B"]
