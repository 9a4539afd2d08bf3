"""Entities: who and what memories are about, under which names, and which turned out to be one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.ledger.fold import fold_entity
from mnemo_mcp.memory import Entity, EntityRef, LedgerRow, Memory, Operation, identity, same_text

_COLUMNS = "id, profile, kind, name, aliases, merged_into"


def entity_id(profile: str, entity: EntityRef) -> str:
    """The id of an entity: same profile, kind and name (case and spacing aside) are the same entity."""
    return identity("n", profile, entity.kind, same_text(entity.name))


class Entities:
    """Kept in step with the memories that name them and with their own ledger rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def link(self, tx: Connection, memory: Memory) -> None:
        """Enter what a memory names; let go of what only its erased text named."""
        tx.execute("DELETE FROM links WHERE memory = ?", (memory.id,))
        tx.execute("DELETE FROM citations WHERE memory = ?", (memory.id,))
        if memory.erased:
            self._drop_orphans(tx)
            return
        for each in memory.claim.entities:
            name = entity_id(memory.profile, each)
            tx.execute(
                "INSERT INTO entities (id, profile, kind, name) VALUES (?,?,?,?) ON CONFLICT DO NOTHING",
                (name, memory.profile, each.kind, each.name),
            )
            self._name(tx, memory.profile, each.name, name)
            tx.execute(
                "INSERT INTO links (memory, entity, role) VALUES (?,?,?) ON CONFLICT DO NOTHING",
                (memory.id, name, each.role),
            )
        tx.executemany(
            "INSERT INTO citations (episode, memory) VALUES (?,?)",
            [(episode, memory.id) for episode in memory.episodes],
        )

    def refold(self, tx: Connection, entity: str, rows: Sequence[LedgerRow]) -> None:
        """Bring an entity level with its own ledger rows."""
        found = tx.execute(f"SELECT {_COLUMNS} FROM entities WHERE id = ?", (entity,)).fetchone()
        if found is None:
            return
        folded = fold_entity(_entity(found), rows)
        tx.execute(
            "UPDATE entities SET aliases = ?, merged_into = ? WHERE id = ?",
            (json.dumps(folded.aliases, ensure_ascii=False), folded.merged_into, entity),
        )
        tx.execute("DELETE FROM entity_names WHERE entity = ?", (entity,))
        for name in (folded.name, *folded.aliases):
            self._name(tx, folded.profile, name, entity)

    def named(self, tx: Connection, profile: str, name: str, kind: str | None = None) -> Entity:
        """The one entity with this name, alias or id. Raises `NotFound`, or `Refused` for several kinds."""
        rows = tx.execute(
            f"SELECT {_COLUMNS} FROM entities WHERE profile = ?1 AND (?3 IS NULL OR kind = ?3) AND (id = ?2"
            " OR id IN (SELECT entity FROM entity_names WHERE profile = ?1 AND key = ?4)) ORDER BY id",
            (profile, name, kind, same_text(name)),
        ).fetchall()
        found = [_entity(row) for row in rows]
        if not found:
            raise NotFound(
                f"There is no entity {name[:80]!r}.", "Entities come from memories that name them."
            )
        if len(found) > 1:
            kinds = ", ".join(f"{each.id} ({each.kind})" for each in found)
            raise Refused(f"Several entities are called {name!r}: {kinds}.", "Name the kind or the id.")
        return found[0]

    def names(self, tx: Connection, profile: str, name: str) -> frozenset[str]:
        """Every name, alias or merged entity's name that means the same as `name`, itself among them."""
        rows = tx.execute(
            "WITH RECURSIVE same (id) AS ("
            " SELECT entity FROM entity_names WHERE profile = ?1 AND key = ?2"
            " UNION SELECT merged_into FROM entities JOIN same USING (id) WHERE merged_into <> ''"
            " UNION SELECT entities.id FROM entities JOIN same ON merged_into = same.id)"
            " SELECT key FROM entity_names JOIN same ON entity = same.id",
            (profile, same_text(name)),
        )
        return frozenset(row[0] for row in rows) | {same_text(name)}

    def only_in(self, tx: Connection, memory: str) -> list[str]:
        """Ids of the entities that no other memory names."""
        rows = tx.execute(
            "SELECT DISTINCT entity FROM links l WHERE memory = ?1 AND NOT EXISTS"
            " (SELECT 1 FROM links o WHERE o.entity = l.entity AND o.memory <> ?1)",
            (memory,),
        )
        return [row[0] for row in rows]

    def of_profile(self, profile: str) -> list[Entity]:
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM entities WHERE profile = ? ORDER BY name, id", (profile,)
            ).fetchall()
        return [_entity(row) for row in rows]

    def spellings(self, profile: str) -> frozenset[tuple[str, str]]:
        """Names that mean an entity of another name, each with its key: aliases, and what was merged."""
        entities = {each.id: each for each in self.of_profile(profile)}
        one: dict[str, list[Entity]] = {}
        for each in entities.values():
            root, seen = each, {each.id}
            while root.merged_into in entities and root.merged_into not in seen:
                root = entities[root.merged_into]
                seen.add(root.id)
            one.setdefault(root.id, []).append(each)
        return frozenset(
            (name, key)
            for same in one.values()
            for key in {same_text(each.name) for each in same}
            for each in same
            for name in (each.name, *each.aliases)
            if same_text(name) != key
        )

    def renamed_since(self, seq: int) -> tuple[int, list[str]]:
        """The number of the last ledger row, and the profiles whose names changed after row `seq`."""
        with self._database.read() as connection:
            newest = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0]
            rows = connection.execute(
                "SELECT DISTINCT profile FROM ledger WHERE seq > ? AND operation IN (?,?,?,?)",
                (seq, Operation.ALIAS, Operation.MERGE, Operation.UNMERGE, Operation.ERASE),
            ).fetchall()
        return newest, [profile for (profile,) in rows]

    def _name(self, tx: Connection, profile: str, name: str, entity: str) -> None:
        tx.execute(
            "INSERT INTO entity_names (profile, key, entity) VALUES (?,?,?) ON CONFLICT DO NOTHING",
            (profile, same_text(name), entity),
        )

    def _drop_orphans(self, tx: Connection) -> None:
        """What no memory names any more is not known any more: its names rested on erased text."""
        orphans = "SELECT id FROM entities WHERE id NOT IN (SELECT entity FROM links)"
        tx.execute(f"DELETE FROM entity_names WHERE entity IN ({orphans})")
        tx.execute(f"DELETE FROM entities WHERE id IN ({orphans})")


def _entity(row: Any) -> Entity:
    name, profile, kind, called, aliases, merged_into = row
    return Entity(name, profile, kind, called, tuple(json.loads(aliases)), merged_into)
