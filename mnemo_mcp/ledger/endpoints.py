"""The state of each model endpoint on disk: whether it may be asked, and what was learned of its ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant

NEVER: Instant = "9999-12-31T23:59:59.999Z"
"""As the next try: not before something is changed."""

_COLUMNS = "fingerprint, failures, since, retry_at, problem, problem_kind, manners"


@dataclass(frozen=True, slots=True)
class EndpointState:
    """How an endpoint stands. `since` is when its present trouble began, `retry_at` when it rests until."""

    fingerprint: str = ""
    failures: int = 0
    since: Instant = ""
    retry_at: Instant = ""
    problem: str = ""
    problem_kind: str = ""
    manners: Mapping[str, Any] = field(default_factory=dict)


class Endpoints:
    """Reading and keeping these states. One under another fingerprint is of other settings, so void."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self, name: str, fingerprint: str) -> EndpointState:
        with self._database.read() as connection:
            return _state(connection, name, fingerprint)

    def admit(self, name: str, fingerprint: str, now: Instant, next_at: Instant) -> EndpointState | None:
        """None where the endpoint may be asked now, else the state that forbids it.

        After a rest the first one to ask is let through; whoever comes next waits until `next_at`.
        """
        state = self.state(name, fingerprint)
        if not state.retry_at:
            return None
        with self._database.write() as tx:
            state = _state(tx, name, fingerprint)
            if state.retry_at > now:
                return state
            if state.retry_at:
                tx.execute("UPDATE endpoints SET retry_at = ? WHERE name = ?", (next_at, name))
        return None

    def answered(self, name: str, fingerprint: str) -> None:
        """The endpoint works: its troubles are over."""
        if self.state(name, fingerprint).failures:
            with self._database.write() as tx:
                manners = _state(tx, name, fingerprint).manners
                _put(tx, name, EndpointState(fingerprint, manners=manners))

    def failed(
        self,
        name: str,
        fingerprint: str,
        now: Instant,
        problem: tuple[str, str],
        rest: Callable[[int], Instant],
    ) -> None:
        """One more failure in a row, of a kind and in words; `rest` tells until when it then rests."""
        with self._database.write() as tx:
            before = _state(tx, name, fingerprint)
            count = before.failures + 1
            state = EndpointState(
                fingerprint, count, before.since or now, rest(count), problem[1], problem[0], before.manners
            )
            _put(tx, name, state)

    def learn(self, name: str, fingerprint: str, **manners: Any) -> None:
        """Keep what was found out about how the endpoint wants to be asked."""
        with self._database.write() as tx:
            state = _state(tx, name, fingerprint)
            _put(tx, name, replace(state, manners={**state.manners, **manners}))

    def reset(self, name: str) -> None:
        """Begin anew, as if the endpoint had just been set."""
        with self._database.write() as tx:
            tx.execute("DELETE FROM endpoints WHERE name = ?", (name,))


def _state(connection: Connection, name: str, fingerprint: str) -> EndpointState:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM endpoints WHERE name = ? AND fingerprint = ?", (name, fingerprint)
    ).fetchone()
    if row is None:
        return EndpointState(fingerprint)
    kept, failures, since, retry_at, problem, kind, manners = row
    return EndpointState(kept, failures, since, retry_at, problem, kind, json.loads(manners))


def _put(tx: Connection, name: str, state: EndpointState) -> None:
    tx.execute("DELETE FROM endpoints WHERE name = ?", (name,))
    tx.execute(
        f"INSERT INTO endpoints (name, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)",
        (
            name,
            state.fingerprint,
            state.failures,
            state.since,
            state.retry_at,
            state.problem,
            state.problem_kind,
            json.dumps(state.manners),
        ),
    )
