"""The ledger: append-only, bitemporal, replayable; the snapshot is its fold."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_mcp.errors import LedgerConflict, NotFound, Refused
from mnemo_mcp.ledger.fold import claim_body, fold, state_bytes, without
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Claim, EntityRef, Instant, LedgerRow, Operation, Period, Status, instant

NOW = datetime(2026, 12, 6, tzinfo=UTC)
PROFILE = "p"


def day(text: str) -> Instant:
    return instant(datetime.fromisoformat(text).replace(tzinfo=UTC))


def row(
    memory: str,
    operation: Operation,
    known: Instant,
    start: Instant | None = None,
    end: Instant | None = None,
    **body: object,
) -> LedgerRow:
    return ledger_row(
        PROFILE,
        memory,
        operation,
        body=body,
        valid_from=start,
        valid_to=end,
        known_at=known,
        source=f"source of {known}",
        cause={"by": "agent"},
        episodes=(f"e{known}",),
    )


def asserted(memory: str, what: str, known: Instant, start: Instant, end: Instant | None = None) -> LedgerRow:
    claim = claim_body(Claim(what, entities=(EntityRef("Ivan", "person"),)))
    return row(memory, Operation.ASSERT, known, start, end, claim=claim)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "mnemo.db", NOW)
    yield opened
    opened.close()


def append(store: Store, *rows: LedgerRow) -> int:
    with store.write() as tx:
        return store.truth.append(tx, rows, instant(NOW))


# The golden story: four things learned about where one person lives.

LISBON = [
    asserted("mlisbon", "Lisbon", day("2026-01-01"), day("2026-01-01")),
    row("mlisbon", Operation.CLOSE, day("2026-11-01"), day("2026-10-15"), by="mberlin"),
    row("mlisbon", Operation.CUT, day("2026-11-20"), day("2026-10-01"), day("2026-10-15"), by="mprague"),
]
BERLIN = [
    asserted("mberlin", "Berlin", day("2026-11-01"), day("2026-10-15")),
    row("mberlin", Operation.RETRACT, day("2026-12-01"), by="mbern"),
]
PRAGUE = [asserted("mprague", "Prague", day("2026-11-20"), day("2026-10-01"), day("2026-10-15"))]
BERN = [asserted("mbern", "Bern", day("2026-12-01"), day("2026-10-15"))]
STORY = [LISBON, BERLIN, PRAGUE, BERN]

DAYS = ["2025-12-31", "2026-09-30", "2026-10-01", "2026-10-05", "2026-10-14", "2026-10-15", "2026-10-20"]
GOLDEN = {
    "2026-10-25": ["", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Lisbon"],
    "2026-11-05": ["", "Lisbon", "Lisbon", "Lisbon", "Lisbon", "Berlin", "Berlin"],
    "2026-11-25": ["", "Lisbon", "Prague", "Prague", "Prague", "Berlin", "Berlin"],
    "2026-12-05": ["", "Lisbon", "Prague", "Prague", "Prague", "Bern", "Bern"],
}


@pytest.mark.parametrize("known", GOLDEN)
def test_golden_story(known: str) -> None:
    for true_on, city in zip(DAYS, GOLDEN[known], strict=True):
        folded = [fold(rows, day(known)) for rows in STORY]
        held = [each.claim.what for each in folded if each and each.status(day(true_on)) is Status.CURRENT]
        assert held == ([city] if city else []), f"true on {true_on}, known on {known}"


def test_retracting_is_not_closing() -> None:
    rows = [asserted("m1", "Bluefin", day("2026-01-01"), day("2026-01-01"))]
    closed = fold([*rows, row("m1", Operation.CLOSE, day("2026-03-01"), day("2026-03-01"))])
    retracted = fold([*rows, row("m1", Operation.RETRACT, day("2026-03-01"))])
    assert closed and retracted
    assert closed.status(day("2026-02-01")) is Status.CURRENT
    assert retracted.status(day("2026-02-01")) is Status.RETRACTED
    assert fold([*rows, row("m1", Operation.RETRACT, day("2026-03-01"))], day("2026-02-15")) == fold(rows)


# Cutting: every way a segment can lie on a period.

A, B, C, D, E = (day(f"2026-0{month}-01") for month in (1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("period", "gap", "left"),
    [
        (Period(A, E), Period(B, C), (Period(A, B), Period(C, E))),
        (Period(A, D), Period(A, B), (Period(B, D),)),
        (Period(A, D), Period(C, D), (Period(A, C),)),
        (Period(A, D), Period(A, D), ()),
        (Period(B, C), Period(A, D), ()),
        (Period(B, D), Period(A, C), (Period(C, D),)),
        (Period(A, C), Period(B, D), (Period(A, B),)),
        (Period(A, B), Period(B, C), (Period(A, B),)),
        (Period(B, C), Period(A, B), (Period(B, C),)),
        (Period(C, D), Period(A, B), (Period(C, D),)),
        (Period(A), Period(B, C), (Period(A, B), Period(C))),
        (Period(A), Period(B), (Period(A, B),)),
        (Period(A, B), Period(C), (Period(A, B),)),
    ],
)
def test_cutting(period: Period, gap: Period, left: tuple[Period, ...]) -> None:
    assert without([period], gap) == left


# Properties over random lives.

months = st.integers(1, 24).map(lambda n: day(f"{2025 + (n - 1) // 12}-{(n - 1) % 12 + 1:02d}-01"))


@st.composite
def lives(draw: st.DrawFn) -> list[LedgerRow]:
    """A memory's rows in log order: an assertion and up to eight further operations, known in any order."""
    start = draw(months)
    rows = [asserted("m1", "x", draw(months), start)]
    for _ in range(draw(st.integers(0, 8))):
        operation = draw(
            st.sampled_from([Operation.CONFIRM, Operation.CLOSE, Operation.CUT, Operation.RETRACT])
        )
        begin, end = sorted((draw(months), draw(months)))
        rows.append(row("m1", operation, draw(months), begin, end if operation is Operation.CUT else None))
    return rows


@given(lives())
def test_periods_never_overlap_and_never_are_empty(rows: list[LedgerRow]) -> None:
    memory = fold(rows)
    assert memory is not None
    for period in memory.periods:
        assert period.end is None or period.start < period.end
    for before, after in zip(memory.periods, memory.periods[1:], strict=False):
        assert before.end is not None and before.end < after.start


@given(lives(), months)
def test_the_fold_at_an_instant_is_a_fresh_build_up_to_it(rows: list[LedgerRow], known: Instant) -> None:
    assert fold(rows, known) == fold([each for each in rows if each.known_at <= known])


@given(lives(), lives(), months)
def test_what_is_learned_later_changes_no_earlier_answer(
    rows: list[LedgerRow], more: list[LedgerRow], known: Instant
) -> None:
    later = [each for each in more if each.known_at > known]
    assert fold([*rows, *later], known) == fold(rows, known)


@settings(max_examples=30, deadline=None)
@given(lives())
def test_replay_in_any_order_adds_nothing_and_the_snapshot_is_the_fold(rows: list[LedgerRow]) -> None:
    folder = tempfile.TemporaryDirectory()
    store = Store(Path(folder.name) / "mnemo.db", NOW)
    distinct = len({each.id for each in rows})
    with store.write() as tx:
        store.truth.append(tx, rows, instant(NOW))
        assert store.truth.append(tx, list(reversed(rows)), instant(NOW)) == 0
        assert tx.execute("SELECT count(*) FROM ledger").fetchone()[0] == distinct
    expected = fold(store.truth.history("m1"))
    assert expected is not None
    before = state_bytes(store.truth.get("m1", PROFILE))
    assert before == state_bytes(expected)
    assert store.check() == []
    store.close()
    folder.cleanup()


# Ids, conflicts, protection.


def test_ids_are_the_same_on_every_machine() -> None:
    again = asserted("mlisbon", "Lisbon", day("2026-01-01"), day("2026-01-01"))
    assert again.id == LISBON[0].id
    assert again.id != asserted("mlisbon", "Lisboa", day("2026-01-01"), day("2026-01-01")).id


def test_composed_and_decomposed_text_give_one_id() -> None:
    composed, decomposed = "Z\u00fcrich", "Zu\u0308rich"
    assert asserted("m1", composed, A, A).id == asserted("m1", decomposed, A, A).id


def test_a_known_id_with_other_content_is_an_error(store: Store) -> None:
    append(store, *LISBON)
    forged = LedgerRow(LISBON[0].id, PROFILE, "mother", Operation.ASSERT, {}, A, None, A, "s", {}, ("e",))
    with pytest.raises(LedgerConflict):
        append(store, forged)
    assert store.check() == []


PROTECTED = [
    "UPDATE {table} SET profile = 'x'",
    "UPDATE {table} SET {text} = '{blank}'",
    "DELETE FROM {table}",
    "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    "REPLACE INTO {table} SELECT * FROM {table}",
    "INSERT INTO {table} SELECT * FROM {table} WHERE 1 ON CONFLICT (id) DO UPDATE SET profile = 'x'",
]


@pytest.mark.parametrize("statement", PROTECTED)
@pytest.mark.parametrize(("table", "text", "blank"), [("ledger", "body", "{}"), ("episodes", "text", "")])
def test_raw_statements_cannot_change_the_past(
    store: Store, tmp_path: Path, statement: str, table: str, text: str, blank: str
) -> None:
    append(store, *LISBON)
    with store.write() as tx:
        tx.execute("INSERT INTO episodes VALUES (1,'e1','p','person','said','c','s','','','t','UTC','t')")
    with (
        sqlite3.connect(tmp_path / "mnemo.db") as raw,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        raw.execute(statement.format(table=table, text=text, blank=blank))
    raw.close()
    assert store.check() == []


def test_doctor_sees_a_missing_trigger_and_a_false_snapshot(store: Store) -> None:
    append(store, *LISBON)
    with store.write() as tx:
        tx.execute("UPDATE snapshot SET state = replace(state, 'Lisbon', 'Madrid')")
    assert any("mlisbon" in problem for problem in store.check())
    store.truth.rebuild()
    assert store.check() == []
    with store.write() as tx:
        tx.execute("DROP TRIGGER ledger_no_update")
    assert any("ledger_no_update" in problem for problem in store.check())


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    with pytest.raises(NotFound), store.write() as tx:
        store.truth.append(tx, LISBON, instant(NOW))
        store.truth.within(tx, "mnobody", PROFILE)
    assert store.truth.newest() == 0
    with pytest.raises(NotFound):
        store.truth.get("mlisbon", PROFILE)


def test_erasing_blanks_every_text_and_keeps_ids_and_times(store: Store, tmp_path: Path) -> None:
    append(store, *LISBON)
    append(store, row("mlisbon", Operation.ERASE, day("2026-12-02")))
    assert store.truth.get("mlisbon", PROFILE).erased
    assert [each.id for each in store.truth.history("mlisbon")][:3] == [each.id for each in LISBON]
    append(store, *LISBON)  # a replay does not bring it back
    store.database.truncate_log()
    assert store.check() == []
    assert all(b"Lisbon" not in file.read_bytes() for file in tmp_path.iterdir())


def test_ids_by_unique_beginning(store: Store) -> None:
    append(store, asserted("mabcdef1", "one", A, A), asserted("mabcdef2", "two", A, A))
    assert store.truth.get("mabcdef1", PROFILE).claim.what == "one"
    with pytest.raises(Refused, match="mabcdef1, mabcdef2"):
        store.truth.get("mabcdef", PROFILE)
    for wrong in ("", "*", "m", "mabc", "mabcdef%", "one two", "m_bcdef1"):
        with pytest.raises(NotFound):
            store.truth.get(wrong, PROFILE)
    with pytest.raises(NotFound):
        store.truth.get("mabcdef1", "another profile")
