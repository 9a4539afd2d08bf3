"""Export and import: the store as lines of JSON, the same on every machine, safe to read twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mnemo_mcp.errors import LedgerConflict, Refused
from mnemo_mcp.ledger.schema import SCHEMA_VERSION
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Episode, Instant, LedgerRow, Operation, Role

_KINDS = ("episode", "ledger", "standing")


@dataclass(frozen=True, slots=True)
class Imported:
    """How many records a file held, and how many of them were new."""

    read: int
    added: int


def export_lines(store: Store, at: Instant, version: str) -> Iterator[str]:
    """A header with counts, then every episode and ledger row in order, then what people marked."""
    records = [
        *({"episode": asdict(each)} for each in store.episodes.all()),
        *({"ledger": {**asdict(row), "recorded_at": recorded}} for row, recorded in store.truth.log()),
        *({"standing": each} for each in store.accounts.marked()),
    ]
    counts = {kind: sum(kind in record for record in records) for kind in _KINDS}
    header = {"mnemo": version, "schema": SCHEMA_VERSION, "exported_at": at, "counts": counts}
    for record in ({"header": header}, *records):
        yield json.dumps(record, ensure_ascii=False, sort_keys=True)


def import_lines(store: Store, lines: Iterable[str]) -> Imported:
    """Take in an export, all of it or nothing. What is there already stays as it is.

    Raises `Refused` with the number of the first line that cannot be read, and `LedgerConflict` for an id
    that the store holds with other content.
    """
    records = list(_parsed(lines))
    _check_header(records)
    added = 0
    with store.write() as tx:
        for number, record in enumerate(records[1:], 2):
            try:
                added += _take(store, tx, record)
            except (KeyError, TypeError, ValueError) as error:
                raise Refused(f"Line {number} is not a record of mnemo ({error!r}).", _UNCHANGED) from None
            except LedgerConflict as error:
                raise LedgerConflict(f"Line {number}: {error.message}", _UNCHANGED) from None
    return Imported(len(records) - 1, added)


_UNCHANGED = "Nothing was imported. Export the file again."


def _parsed(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            raise Refused(f"Line {number} is cut off or not JSON.", _UNCHANGED) from None
        if not isinstance(record, dict):
            raise Refused(f"Line {number} is not a record of mnemo.", _UNCHANGED)
        yield record


def _check_header(records: list[Mapping[str, Any]]) -> None:
    header = records[0].get("header") if records else None
    if not isinstance(header, dict) or not isinstance(header.get("counts"), dict):
        raise Refused("The first line is not the header of an export.", _UNCHANGED)
    if int(header.get("schema", 0)) > SCHEMA_VERSION:
        raise Refused(f"The export has schema {header['schema']}; this mnemo knows up to {SCHEMA_VERSION}.",
                      "Install the newer version of mnemo.")  # fmt: skip
    for kind in _KINDS:
        found, told = sum(kind in record for record in records), header["counts"].get(kind)
        if found != told:
            raise Refused(f"The header tells of {told} records {kind}, the file holds {found}.", _UNCHANGED)


def _take(store: Store, tx: Any, record: Mapping[str, Any]) -> int:
    if "episode" in record:
        given = dict(record["episode"])
        return len(store.episodes.add(tx, [Episode(**{**given, "role": Role(given["role"])})]))
    if "ledger" in record:
        given = dict(record["ledger"])
        recorded_at = given.pop("recorded_at")
        return store.truth.append(tx, [_row(given)], recorded_at)
    store.accounts.take_in(tx, record["standing"])
    return 0


def _row(given: dict[str, Any]) -> LedgerRow:
    """A ledger row as exported; its content must give its id, unless its text was erased."""
    given.pop("seq", None)
    operation, episodes = Operation(given["operation"]), tuple(given["episodes"])
    row = LedgerRow(**{**given, "operation": operation, "episodes": episodes})
    fresh = ledger_row(
        row.profile,
        row.memory,
        operation,
        body=row.body,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        known_at=row.known_at,
        source=row.source,
        cause=row.cause,
        episodes=episodes,
    )
    if row.body and fresh.id != row.id:
        raise ValueError(f"the content of {row.id} does not give its id")
    return row
