"""Naming: aliases of an entity, and two entities that turn out to be one. All of it can be taken back."""

from __future__ import annotations

from mnemo_mcp.errors import Refused
from mnemo_mcp.judge.writer import Writer
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Entity, Operation, identity


class Naming:
    """What a person says about names. Likeness of names alone never merges anything."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def alias(self, name: str, alias: str, writer: Writer, kind: str | None = None) -> Entity:
        """Let an entity be found under a further name."""
        if not alias.strip():
            raise Refused("The alias is empty.", "Give the other name.")
        with self._store.write() as tx:
            entity = self._store.entities.named(tx, writer.profile, name, kind)
            self._append(tx, entity, Operation.ALIAS, writer, alias=alias.strip())
            return self._store.entities.named(tx, writer.profile, entity.id)

    def merge(self, name: str, into: str, writer: Writer, kind: str | None = None) -> Entity:
        """Say that one entity is another one: the same under all names of both."""
        with self._store.write() as tx:
            entity = self._store.entities.named(tx, writer.profile, name, kind)
            other = self._store.entities.named(tx, writer.profile, into)
            if entity.id == other.id or other.merged_into == entity.id:
                raise Refused(f"{entity.name!r} and {other.name!r} are one already.", "Nothing was changed.")
            self._append(tx, entity, Operation.MERGE, writer, into=other.id)
            return self._store.entities.named(tx, writer.profile, entity.id)

    def unmerge(self, name: str, writer: Writer, kind: str | None = None) -> Entity:
        """Take a merge back: both are as they were."""
        with self._store.write() as tx:
            entity = self._store.entities.named(tx, writer.profile, name, kind)
            if not entity.merged_into:
                raise Refused(f"{entity.name!r} was not merged into anything.", "Nothing was changed.")
            self._append(tx, entity, Operation.UNMERGE, writer)
            return self._store.entities.named(tx, writer.profile, entity.id)

    def _append(
        self, tx: Connection, entity: Entity, operation: Operation, writer: Writer, **body: str
    ) -> None:
        row = ledger_row(
            writer.profile,
            entity.id,
            operation,
            body=body,
            known_at=writer.known_at,
            source=identity("r", entity.id, str(operation), writer.known_at, body),
            cause=writer.cause,
            episodes=(),
        )
        self._store.truth.append(tx, [row], writer.recorded_at)
