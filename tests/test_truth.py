"""Truth over time through the service: what was true when, what was known when, and why answers changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product import until
from telling import CITY, NOW, OFF, by_field, current, everything, exported, open_at, tell_much

from mnemo_mcp.errors import LedgerConflict, NotFound, Refused
from mnemo_mcp.memory import EntityRef, Status, instant
from mnemo_mcp.pictures import timeline_svg
from mnemo_mcp.recall.difference import SAME
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Daemon, Settings


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_at(tmp_path / "data") as opened:
        yield opened


# The golden story, told by the subject's field alone and by naming what is replaced.


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


@pytest.fixture
def told(service: Service) -> Service:
    tell_much(service)
    return service


def test_an_import_gives_the_same_memory_back(told: Service, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert told.records.export(file, instant(NOW)) == len(everything(told))
    assert file.stat().st_mode & 0o777 == 0o600
    with open_at(tmp_path / "second") as second:
        assert second.records.take_in(file).added > 0
        assert everything(second) == everything(told)
        assert second.check() == []
        for service in (told, second):
            assert service.records.take_in(file).added == 0
        assert everything(told) == everything(second)
    with pytest.raises(Refused, match="exists"):
        told.records.export(file, instant(NOW))


def test_a_file_that_is_not_whole_is_refused_as_a_whole(told: Service, tmp_path: Path) -> None:
    lines = exported(told)
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
    lines = exported(told)
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
        assert everything(second) == everything(told)


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
