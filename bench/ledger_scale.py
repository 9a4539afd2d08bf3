"""Appending to a ledger and folding one memory's history: a large store against a small one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import common

from mnemo_mcp.ledger.fold import claim_body, fold, state_bytes
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Claim, LedgerRow, Operation, canonical, instant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = instant(NOW)
_BATCH = 10_000


def main() -> None:
    given = common.options(__doc__, small=1_000, large=1_000_000, rounds=300)
    results = {}
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
        stores = {}
        for name, rows in (("small", given.small), ("large", given.large)):
            stores[name] = Store(Path(folder) / f"{name}.db", NOW)
            _fill(stores[name], rows, name)
        appended: dict[str, list[float]] = {name: [] for name in stores}
        folded: dict[str, list[float]] = {name: [] for name in stores}
        for number in range(given.rounds):  # taking turns, so that both meet the same moods of the machine
            for name, store in stores.items():
                appended[name].append(_cpu(lambda s=store, n=number: _append(s, [_row(f"new{n}", n)])))
                folded[name].append(_cpu(lambda s=store, n=number: fold(s.truth.history(f"mfill{n}"))))
        for what, taken in (("append", appended), ("fold", folded)):
            for name, values in taken.items():
                results[f"{what}_{name}"] = common.summary(values)
            small, large = (common.percentile(taken[name], 0.5) for name in ("small", "large"))
            results[f"ratio_{what}"] = round(large / small, 2)  # type: ignore[assignment]
        for store in stores.values():
            store.close()
    common.report({"rows": [given.small, given.large], **results}, given.json)


def _fill(store: Store, rows: int, name: str) -> None:
    """Rows and snapshot as `append` would write them, but in bulk."""
    for start in range(0, rows, _BATCH):
        made = [_row(f"fill{number}", number) for number in range(start, min(rows, start + _BATCH))]
        with store.write() as tx:
            places = range(start + 1, rows + 1)
            marks = ",".join("?" * 13)
            tx.executemany(f"INSERT INTO ledger VALUES ({marks})", map(_ledger_values, made, places))
            tx.executemany("INSERT INTO snapshot VALUES (?,?,?,?,?)", map(_snapshot_values, made, places))
        common.progress(f"{name}: {min(rows, start + _BATCH)} of {rows} rows")


def _ledger_values(row: LedgerRow, seq: int) -> tuple[object, ...]:
    body, cause = (canonical(each).decode() for each in (row.body, row.cause))
    episodes = canonical(list(row.episodes)).decode()
    return (seq, row.id, row.profile, row.memory, str(row.operation), body, row.valid_from, row.valid_to,
            row.known_at, row.source, cause, episodes, AT)  # fmt: skip


def _snapshot_values(row: LedgerRow, seq: int) -> tuple[object, ...]:
    memory = fold([row])
    assert memory is not None
    return (memory.id, memory.profile, seq, "", state_bytes(memory).decode())


def _append(store: Store, rows: list[LedgerRow]) -> None:
    with store.write() as tx:
        store.truth.append(tx, rows, AT)


def _row(name: str, number: int) -> LedgerRow:
    claim = claim_body(Claim(f"The setting {name} is {number}", why="it was measured"))
    return ledger_row(
        "p",
        f"m{name}",
        Operation.ASSERT,
        body={"claim": claim},
        known_at=AT,
        source=name,
        cause={"by": "agent"},
        episodes=("e1",),
    )


def _cpu(work: Callable[[], object]) -> float:
    """Processor milliseconds of this thread: the disk's mood is the same for both stores."""
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1000


if __name__ == "__main__":
    main()
