"""Truth over time: writers that are broken off, questions with dates, periods that are cut."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from telling import CITY, NOW, by_field, current, everything, open_at, tell_much

from mnemo_mcp.errors import StoreError
from mnemo_mcp.memory import Status, instant
from mnemo_mcp.service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_at(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def told(service: Service) -> Service:
    tell_much(service)
    return service


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
        before = everything(service)
        for statement in range(1, 100):
            _break_off_at(connection, statement)
            try:
                WRITERS[writer](service, old)
            except StoreError:
                connection.set_authorizer(None)
                assert everything(service) == before
                assert service.check() == []
                continue
            break
        connection.set_authorizer(None)
        assert statement > 1
        assert everything(service) != before
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
