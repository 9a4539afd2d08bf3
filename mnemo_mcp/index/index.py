"""The index of every profile, kept level with the ledger, and saved so that a start reads one file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from mnemo_mcp import __version__
from mnemo_mcp.index.connecting import Connecting
from mnemo_mcp.index.frozen import Frozen
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.snapshot import Snapshot, Unusable, read
from mnemo_mcp.ledger.schema import SCHEMA_VERSION
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.vectors import Stored
from mnemo_mcp.models.encoder import Encoder
from mnemo_mcp.times import Clock, system_clock

_log = logging.getLogger("mnemo")

Embed = Callable[[Encoder, Sequence[str]], Sequence[Stored]]
"""Gives texts their int8 vectors, from the cache where they are there."""

WORTH_SAVING = 1_000
"""Memories and vectors taken in since the last snapshot; a start reads fewer from the ledger at once."""

_FITS = {"format": 1, "mnemo": __version__, "schema": SCHEMA_VERSION}
_PAGE = 2_000  # memories read from the ledger at once
_UNTIDY = 4_096  # new rows, at least, before they are sealed with the others
_SHARE = 16  # and one in so many of all


class Index:
    """One `ProfileIndex` a profile; nothing is shared between them. With a `folder`, snapshots lie there."""

    def __init__(
        self,
        store: Store,
        folder: Path | None = None,
        worth_saving: int = WORTH_SAVING,
        clock: Clock = system_clock,
    ) -> None:
        self._store = store
        self._connecting = Connecting(store, clock)
        self._connects_by: dict[str, str] = {}
        self._renamed = 0
        self._named_at = -1  # how many transactions had been committed when names were last looked at
        self._spellings: dict[str, frozenset[tuple[str, str]]] = {}
        self._file = folder / "snapshot" if folder else None
        self._worth_saving = worth_saving
        self._profiles: dict[str, ProfileIndex] = {}
        self._seq = 0
        self._unsaved = 0
        self._erasures = 0
        self._loaded = False
        self._lock = threading.Lock()
        self._tidying = threading.Lock()

    def profile(self, name: str) -> ProfileIndex:
        """The index of a profile, up to the last ledger row."""
        self.catch_up()
        with self._lock:
            return self._of(name)

    def profiles(self) -> list[ProfileIndex]:
        with self._lock:
            return list(self._profiles.values())

    def catch_up(self) -> None:
        """Take in what the ledger holds beyond what the index has seen."""
        with self._lock:
            if not self._loaded:
                self._load()
                self._loaded = True
            while self._take_in():
                pass
            if self._named_at != (written := self._store.database.commits):
                self._take_in_names()
                self._named_at = written

    def tidy(self) -> bool:
        """Seal what is newest where it has become much, and save where it is worth it; whether it was.

        For the background: answers go on meanwhile.
        """
        with self._tidying:
            for name, index in self._by_name():
                self._connecting.read(name, index)
            busy = [index for index in self.profiles() if index.untidy > max(_UNTIDY, len(index) // _SHARE)]
            for index in busy:
                index.tidy()
            busy += [index for index in self.profiles() if index.names.tidy()]
            if self._unsaved < max(self._worth_saving, sum(map(len, self.profiles())) // _SHARE):
                return bool(busy)
            self._save()
            return True

    def close(self) -> None:
        """Save what a start would else have to read from the ledger again."""
        with self._tidying:
            if self._unsaved >= self._worth_saving:
                self._save()

    def embed(self, encoder: Encoder, embed: Embed, most: int) -> int:
        """Give up to `most` memories a profile the vectors they lack; how many were given."""
        given = 0
        for name, index in self._by_name():
            with index.lock:
                rows = index.lacking(encoder.id, most)
                memories = [index.memory(row) for row in rows]
            if memories:
                vectors = embed(encoder, [memory.claim.text() for memory in memories])
                ids = [memory.id for memory in memories]
                with index.lock:
                    index.attach(encoder.id, encoder.dims, dict(zip(ids, vectors, strict=True)))
                # cosines of different encoders do not compare: the first one to come connects
                if self._connects_by.setdefault(name, encoder.id) == encoder.id:
                    self._connecting.connect(name, index, encoder.id, ids)
            given += len(memories)
        self._unsaved += given
        return given

    def _take_in(self) -> int:
        """The next page of the ledger's memories; how many there were."""
        newest, changed = self._store.truth.changed_since(self._seq, _PAGE)
        for memory in changed:
            index = self._of(memory.profile)
            with index.lock:
                index.apply(memory)
            if memory.erased:
                self._forget_snapshot()
        if len(changed) == _PAGE and self._tidying.acquire(blocking=False):
            try:  # a start reads a whole ledger, and nobody could be answered from half of it
                for index in self._profiles.values():
                    if index.untidy > max(_UNTIDY, len(index) // 4):
                        index.tidy()
            finally:
                self._tidying.release()
        self._seq = newest
        self._unsaved += len(changed)
        return len(changed)

    def _take_in_names(self) -> None:
        """Other names of entities, and those of entities that were merged."""
        self._renamed, profiles = self._store.entities.renamed_since(self._renamed)
        for name in profiles:
            names, before = self._of(name).names, self._spellings.get(name, frozenset())
            now = self._spellings[name] = self._store.entities.spellings(name)
            for pair in before - now:
                names.remove(*pair)
            for pair in now - before:
                names.add(*pair)

    def _by_name(self) -> list[tuple[str, ProfileIndex]]:
        with self._lock:
            return list(self._profiles.items())

    def _load(self) -> None:
        if self._file is None:
            return
        try:
            saved = read(self._file, _FITS)
            seq, row = saved.header["seq"], saved.header["row"]
            if self._store.truth.name_of(seq) != row:
                raise Unusable("it is of another ledger, or of a later state of this one")
            self._profiles = {
                name: ProfileIndex.restored(saved.under(f"{number}."))
                for number, name in enumerate(saved.header["profiles"])
            }
            self._seq = seq
        except FileNotFoundError:
            return
        except (Unusable, ValueError, KeyError, TypeError) as error:
            _log.warning("the index is made anew from the ledger; its snapshot is of no use: %s", error)

    def _save(self) -> None:
        """Write a snapshot of every profile, and seal the rows it holds."""
        if self._file is None or not self._seq:
            return
        try:
            self._write(self._file)
        except OSError as error:
            _log.warning("the index is not saved; the next start reads the ledger: %s", error)

    def _write(self, path: Path) -> None:
        with self._lock:
            profiles, seq, self._unsaved, erasures = dict(self._profiles), self._seq, 0, self._erasures
            frozen = [_frozen(index) for index in profiles.values()]
        header = {**_FITS, "seq": seq, "row": self._store.truth.name_of(seq), "profiles": list(profiles)}
        with Snapshot(path) as file:
            for number, (index, parts) in enumerate(zip(profiles.values(), frozen, strict=True)):
                made = parts.sealed()
                with index.lock:
                    index.adopt(parts, made)
                parts.save(file, f"{number}.", made, index.lock)
            file.finish(header)
            with self._lock:
                if self._erasures == erasures:
                    file.publish()

    def _forget_snapshot(self) -> None:
        """An erased text goes from the disk at once; the next snapshot will be without it."""
        self._erasures += 1
        if self._file is not None and self._file.exists():
            self._file.unlink()
            self._unsaved += self._worth_saving

    def _of(self, profile: str) -> ProfileIndex:
        if profile not in self._profiles:
            self._profiles[profile] = ProfileIndex()
        return self._profiles[profile]


def _frozen(index: ProfileIndex) -> Frozen:
    with index.lock:
        return index.freeze()
