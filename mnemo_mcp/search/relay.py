"""The relay: carries what is new in the store to the search tables, in order, from where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mnemo_mcp.errors import EndpointError, MnemoError, ModelError, StoreDamaged, StoreError
from mnemo_mcp.ledger.fold import fold
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Episode
from mnemo_mcp.models.encoder import Encoder, Matrix
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.rows import Row, episode_row, memory_row
from mnemo_mcp.search.tables import EPISODES, MEMORIES, Table

BATCH_ROWS = 200


@dataclass(frozen=True, slots=True)
class _Batch:
    """What comes next in one table: ids of all of it, rows of what has a text, and the place after it."""

    ids: Sequence[str]
    rows: Sequence[Row]
    reached: int


class Relay:
    """Keeps the search tables level with the store. One relay a projection, one step at a time.

    The place it reached is in the tables themselves. It stops at the first row that fails, says which and
    why in `problem`, and begins with that row next time. The two tables do not wait for each other.
    """

    def __init__(
        self,
        store: Store,
        projection: Projection,
        encoders: Callable[[], Sequence[Encoder]],
        embedding: CachedEmbedding | None = None,
    ) -> None:
        """`encoders` gives those that are ready. Rows carried before one is ready get its vectors later."""
        self._store = store
        self._projection = projection
        self._encoders = encoders
        self._embedding = embedding or CachedEmbedding(store.vectors)
        self._complete: set[tuple[Table, str]] = set()
        self._problems: list[str] = []

    @property
    def problem(self) -> str:
        """What stopped the last step, in words; empty when nothing did."""
        return " ".join(dict.fromkeys(self._problems))

    def step(self, most: int = BATCH_ROWS) -> int:
        """Carry up to `most` memories and `most` episodes; how many were carried, 0 when all is level.

        Raises `StoreDamaged` when the projection has to be reset first.
        """
        self._problems = []
        encoders = self._encoders()
        try:
            carried = sum(self._carry(table, encoders, most) for table in (MEMORIES, EPISODES))
            return carried or self._fill(encoders, most)
        except StoreDamaged as error:
            self._problems.append(str(error))
            raise
        except MnemoError as error:
            self._problems.append(str(error))
            return 0

    def has_all(self, encoders: Sequence[Encoder]) -> bool:
        """Whether every row was found to have its vectors of these encoders."""
        return all((table, each.id) in self._complete for table in (MEMORIES, EPISODES) for each in encoders)

    def lag(self) -> int:
        """How many ledger rows and episodes the search tables are behind."""
        newest_of = {MEMORIES: self._store.truth.newest(), EPISODES: self._store.episodes.newest()}
        behind = 0
        for table, newest in newest_of.items():
            try:
                behind += max(0, newest - self._projection.place(table))
            except StoreError:
                behind += newest  # nothing there can be read
        return behind

    def _carry(self, table: Table, encoders: Sequence[Encoder], most: int) -> int:
        batch = self._next_memories(most) if table == MEMORIES else self._next_episodes(most)
        if batch is None:
            return 0
        ready, vectors = self._embedded(batch.rows, encoders)
        if len(ready) < len(batch.rows):
            before = batch.ids.index(batch.rows[len(ready)].id)
            return self._carry(table, encoders, before) if before else 0
        self._put(table, ready, vectors, batch.reached)
        return len(batch.ids)

    def _next_memories(self, most: int) -> _Batch | None:
        newest = self._store.truth.newest()
        place = self._place(MEMORIES, newest)
        if place == newest:
            return None
        last, memories = self._store.truth.changed_since(place, most)
        # a batch that is not full has seen all there was when it was read, rows without a memory included
        reached = last if len(memories) == most else max(last, newest)
        self._forget(place)
        rows = [memory_row(each) for each in memories if not each.erased]
        return _Batch([each.id for each in memories], rows, reached)

    def _next_episodes(self, most: int) -> _Batch | None:
        place = self._place(EPISODES, self._store.episodes.newest())
        batch = self._store.episodes.after(place, most)
        if not batch:
            return None
        episodes = [episode for _, episode in batch]
        return _Batch([each.id for each in episodes], self._episode_rows(episodes), batch[-1][0])

    def _place(self, table: Table, newest: int) -> int:
        place = self._projection.place(table)
        if place > newest:
            raise StoreDamaged(
                f"The search table {table} reflects row {place} of a store that has only {newest}.",
                "It belongs to another store, or to this one before a backup was put back; it is made anew.",
            )
        return place

    def _forget(self, place: int) -> None:
        """Take out what ledger rows after `place` erase, also out of what follows it in its thread."""
        erased = self._erased(place)
        for table in (MEMORIES, EPISODES):
            if held := self._projection.held(table, erased):
                followers = self._followers(held) if table == EPISODES else []
                # without vectors, which are filled in later: erasing waits for no encoder
                self._put(table, followers, {}, self._projection.place(table))
                self._projection.remove(table, held)

    def _followers(self, episodes: Iterable[str]) -> list[Row]:
        gone = self._store.episodes.many(episodes).values()
        return self._episode_rows(
            each for episode in gone for each in self._store.episodes.around(episode, 0, 1)[1:]
        )

    def _erased(self, place: int) -> list[str]:
        return self._store.truth.erased_since(place)

    def _episode_rows(self, episodes: Iterable[Episode]) -> list[Row]:
        told = [each for each in episodes if each.text]
        numbers = self._store.episodes.numbers(each.id for each in told)
        return [episode_row(each, numbers[each.id], self._before(each)) for each in told]

    def _before(self, episode: Episode) -> Episode | None:
        """The episode before this one in its thread."""
        first = self._store.episodes.around(episode, 1, 0)[0]
        return first if first.id != episode.id else None

    def _embedded(
        self, rows: Sequence[Row], encoders: Sequence[Encoder]
    ) -> tuple[Sequence[Row], Mapping[str, Matrix]]:
        """The rows before the first that cannot be embedded, with their vectors."""
        try:
            return rows, self._vectors(rows, encoders)
        except ModelError:
            pass  # which row it was is found out one by one
        for index, row in enumerate(rows):
            try:
                self._vectors([row], encoders)
            except ModelError as error:
                self._problems.append(f"{row.id} could not be carried to the search tables: {error}")
                return rows[:index], self._vectors(rows[:index], encoders)
        return rows, self._vectors(rows, encoders)

    def _vectors(self, rows: Sequence[Row], encoders: Sequence[Encoder]) -> dict[str, Matrix]:
        """Vectors of an encoder behind an address that does not answer are left to be filled in later."""
        texts = [row.embedded for row in rows]
        vectors: dict[str, Matrix] = {}
        for encoder in encoders if texts else ():
            try:
                vectors[encoder.id] = self._embedding.get(encoder, texts)
            except EndpointError as error:
                self._problems.append(str(error))
        return vectors

    def _put(self, table: Table, rows: Sequence[Row], vectors: Mapping[str, Matrix], reached: int) -> None:
        self._projection.put(table, rows, vectors, reached)
        if rows:
            self._complete = {each for each in self._complete if each[0] != table or each[1] in vectors}

    def _fill(self, encoders: Sequence[Encoder], most: int) -> int:
        """Give rows that were carried while an encoder was not ready their vectors."""
        for table in (MEMORIES, EPISODES):
            for encoder in encoders:
                if (table, encoder.id) in self._complete:
                    continue
                rows = self._rows(table, self._projection.lacking(table, encoder.id, most))
                if rows:
                    ready, vectors = self._embedded(rows, encoders)
                    if encoder.id not in vectors:
                        continue
                    if ready:
                        self._put(table, ready, vectors, self._projection.place(table))
                    return len(ready)
                self._complete.add((table, encoder.id))
        return 0

    def _rows(self, table: Table, ids: Sequence[str]) -> list[Row]:
        if table == EPISODES:
            return self._episode_rows(self._store.episodes.many(ids).values())
        memories = (fold(self._store.truth.history(each)) for each in ids)
        return [memory_row(each) for each in memories if each is not None and not each.erased]
