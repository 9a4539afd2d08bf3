"""The record: how a memory came to be, why answers changed, a subject's time, and copies of it all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mnemo_mcp import __version__
from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.judge.merging import Merging
from mnemo_mcp.judge.naming import Naming
from mnemo_mcp.judge.undoing import Undoing
from mnemo_mcp.judge.writer import Writer
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.transfer import Imported, export_lines, import_lines
from mnemo_mcp.ledger.verdicts import Verdict
from mnemo_mcp.memory import Entity, Instant, LedgerRow, Memory, Outcome
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.recall.difference import Difference, explain
from mnemo_mcp.recall.timeline import Span, ordered, spans


class Records:
    """Reads and copies the record of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._naming = Naming(store)
        self._merging = Merging(store)
        self._undoing = Undoing(store)

    def history(self, memory_id: str, profile: str) -> tuple[Memory, list[LedgerRow]]:
        """A memory as it stands, and every ledger row that made it so."""
        memory = self._store.truth.get(memory_id, profile)
        return memory, self._store.truth.history(memory.id)

    def verdicts(self, memory_id: str) -> list[Verdict]:
        """What the judge said of a memory, and of others when it was compared with them."""
        return self._store.verdicts.touching(memory_id)

    def undo(self, verdict: str, writer: Writer) -> Outcome:
        """Take back what came of a verdict."""
        return self._undoing.undo(verdict, writer)

    def difference(
        self, ask: Callable[[Instant], Answer], earlier: Instant, later: Instant, profile: str
    ) -> Difference:
        """Why `ask` is answered differently by what was known at two instants, given in either order."""
        earlier, later = sorted((earlier, later))

        def named(memory_id: str) -> Memory | None:
            try:
                return self._store.truth.get(memory_id, profile)
            except NotFound:
                return None

        return explain(ask(earlier), ask(later), earlier, later, self._store.truth.history, named)

    def timeline(self, subject: str, field: str | None, profile: str) -> list[Span]:
        """Every value of a subject, when it is true and when that was believed. Raises `NotFound`."""
        memories = self._store.truth.about(profile, subject, field)
        found = [span for each in memories for span in spans(each, self._store.truth.history(each.id))]
        if not found:
            raise NotFound(f"Nothing is known about {subject[:80]!r}.", "Name a subject as memories name it.")
        return ordered(found)

    def entity(self, name: str, profile: str, kind: str | None = None) -> tuple[Entity, list[LedgerRow]]:
        """An entity under any of its names, and the rows about its names."""
        with self._store.database.read() as connection:
            entity = self._store.entities.named(connection, profile, name, kind)
        return entity, self._store.truth.history(entity.id)

    def merge_memories(self, name: str, into: str, writer: Writer, reason: str = "") -> Outcome:
        """Let one memory stand for two that say the same."""
        return self._merging.merge(name, into, writer, reason)

    def unmerge_memories(self, name: str, writer: Writer) -> Outcome:
        """Take a merge of memories back."""
        return self._merging.unmerge(name, writer)

    def alias(self, name: str, alias: str, writer: Writer, kind: str | None = None) -> Entity:
        """Let an entity be found under a further name."""
        return self._naming.alias(name, alias, writer, kind)

    def merge(self, name: str, into: str, writer: Writer, kind: str | None = None) -> Entity:
        """Say that one entity is another one."""
        return self._naming.merge(name, into, writer, kind)

    def unmerge(self, name: str, writer: Writer, kind: str | None = None) -> Entity:
        """Take a merge of entities back."""
        return self._naming.unmerge(name, writer, kind)

    def export(self, file: Path, at: Instant) -> int:
        """Write everything to a new file that only its owner can read; how many records it holds."""
        count = 0
        with _fresh(file).open("w", encoding="utf-8") as out:
            for line in export_lines(self._store, at, __version__):
                out.write(line + "\n")
                count += 1
        return count - 1

    def take_in(self, file: Path) -> Imported:
        """Read an export into this store. Raises `Refused` when the file cannot be read as a whole."""
        try:
            with file.open(encoding="utf-8") as given:
                return import_lines(self._store, given)
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{file} cannot be read: {error}.", "Nothing was imported.") from None

    def backup(self, file: Path) -> None:
        """A consistent copy of the database in a new file."""
        self._store.database.copy_to(_fresh(file))


def _fresh(file: Path) -> Path:
    """A new private file; one that exists is never overwritten."""
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise Refused(f"{file} exists already.", "Choose another name.") from None
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from None
    return file
