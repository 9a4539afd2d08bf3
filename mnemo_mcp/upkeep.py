"""Upkeep: what follows the truth. Vectors for the RAM index, and the search tables behind it.

In a daemon it runs in the background, and an answer waits only for what was said a moment ago; in
process, everything is brought level before each answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta

from mnemo_mcp.errors import ModelError, StoreDamaged, StoreError
from mnemo_mcp.index.index import Index
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.models.embeddings import EndpointEncoder
from mnemo_mcp.models.encoder import Encoder
from mnemo_mcp.models.moving import MovingPair
from mnemo_mcp.recall.answer import RecalledEpisode
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.episodes import most_told, told
from mnemo_mcp.recall.question import Question
from mnemo_mcp.recall.recall import Ask
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.search.episodes import search_episodes
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.relay import BATCH_ROWS, Relay
from mnemo_mcp.settings import Settings

_log = logging.getLogger("mnemo")

_FRESH = 8  # memories embedded in an answer's way, about 20 ms each
_FRESH_SECONDS = 0.2  # a batch embedded in the background may be in the way for so long
_MOVING_ROWS = 16  # a larger encoder takes seconds for them, and other background work waits
_FAREWELL_SECONDS = 5.0  # for a batch that is being embedded
_BACKLOG = 64  # vectors; with more to be made an answer waits for none of them and says so
_BATCH = 64


class Upkeep:
    """Keeps vectors and search tables level with the store."""

    def __init__(
        self, settings: Settings, store: Store, index: Index, encoders: MovingPair, *, background: bool
    ) -> None:
        self._settings = settings
        self._store = store
        self._index = index
        self._encoders = encoders
        self._background = background
        self._ending = threading.Event()
        self._embedding = CachedEmbedding(store.vectors, self._ending.is_set)
        self._projection: Projection | None = None
        self._relay: Relay | None = None
        self._level: tuple[object, ...] | None = None  # what the tables reflected when last all was carried
        self._embedding_now: dict[str, threading.Lock] = {}
        self._restoring = False  # vectors that serve are still being given
        self._unembedded: dict[str, str] = {}  # why an encoder gave no vectors last time
        self._opening = threading.RLock()
        self._carrying = threading.Lock()  # taken before `_opening`; a search waits for neither
        self._problem = self._told = ""
        self._rows = 0  # carried to the search tables so far

    def before_answer(self) -> None:
        """Embed what was just said; in process, everything that has no vector yet."""
        self._index.catch_up()
        if not self._background:
            while self.embed(_BATCH):
                pass
            while self._encoders.moving and self.relay():
                pass
        elif self._lacking(self._encoders.serving()) <= _BACKLOG:
            for encoder in self._encoders.serving():
                if not isinstance(encoder, EndpointEncoder):  # nobody waits for what another machine does
                    self._embed(encoder, _FRESH, _FRESH_SECONDS)

    def embed(self, most: int = _BATCH) -> int:
        """Give up to `most` memories of each profile the vectors they lack; how many were given.

        Encoders that are still to take over come after the ones that serve.
        """
        serving = self._encoders.serving()
        coming = [encoder for encoder in self._encoders.ready_encoders() if encoder not in serving]
        given = sum(self._embed(encoder, most) for encoder in serving)
        self._restoring = given > 0
        return given or sum(self._embed(encoder, most) for encoder in coming)

    def _embed(self, encoder: Encoder, most: int, patience: float = -1) -> int:
        """As `embed` with one encoder; nothing where it is at work longer than `patience` (-1: no limit)."""
        lock = self._embedding_now.setdefault(encoder.id, threading.Lock())
        if not lock.acquire(timeout=patience):
            return 0
        try:
            given = self._index.embed(encoder, self._embedding.stored, most)
            self._unembedded.pop(encoder.id, None)
            return given
        except ModelError as error:
            self._unembedded[encoder.id] = str(error)
            return 0
        finally:
            lock.release()

    def relay(self) -> int:
        """Carry the next batch to the search tables; how many rows were carried."""
        with self._carrying:
            reached = self._reached()
            if reached == self._level:
                self._settle()
                return 0  # asking the tables costs a hundred times as much as asking the store
            try:
                most = _MOVING_ROWS if self._encoders.moving else BATCH_ROWS
                carried = self._tables()[1].step(most)
            except StoreDamaged as error:
                self._rebuild(self._projection, error)
                return 0
            self._rows += carried
            problem = self._relay.problem if self._relay else ""
            if problem and problem != self._told:
                _log.warning("the search tables fall behind: %s", problem)  # once a cause, not once a round
            self._told = problem
            if not carried and not problem:
                self._level = reached
            if not carried:
                self._settle()
            return carried

    def _settle(self) -> None:
        """Let encoders that have all their vectors take over; vectors nobody asks by leave memory."""
        encoders = self._encoders
        if not encoders.ready:
            return
        self._index.catch_up()
        coming, relay = encoders.coming, self._relay
        complete = relay is not None and relay.has_all(coming) and not self._lacking(coming)
        if encoders.moving and encoders.whole and complete:
            encoders.arrive()
        used = {encoder.id for encoder in encoders.ready_encoders()}
        for unused in set(self._unembedded) - used:
            del self._unembedded[unused]
        for index in self._index.profiles() if used else ():
            with index.lock:
                for unused in set(index.matrices) - used:
                    del index.matrices[unused]

    def _carried(self) -> Sequence[Encoder]:
        """The encoders whose vectors the search tables get: those that serve are first whole in memory."""
        if self._encoders.moving and self._restoring:
            return self._encoders.serving()
        return self._encoders.ready_encoders()

    def reach_back(self) -> None:
        """Hold more of the older episodes in RAM, as far as there is room."""
        with self._carrying:
            try:
                self._tables()[0].reach_back()
            except StoreDamaged as error:
                self._rebuild(self._projection, error)
            except StoreError as error:
                self._problem = str(error)

    def moving(self) -> str:
        """How far a change of encoders is, in words; empty where there is none."""
        if not self._encoders.moving:
            return ""
        indexes = self._index.profiles()
        coming = self._encoders.coming
        total = sum(map(len, indexes))
        done = min((total - self._lacking([encoder]) for encoder in coming), default=0)
        then = "; episodes follow" if done == total else ""
        return f"moving {self._encoders.route}: {done:,} of {total:,} memories{then}"

    def passages(
        self, ask: Ask, question: Question, meaning: Meaning | None, weak: bool = False
    ) -> list[RecalledEpisode]:
        """Passages of episodes in scope that answer a question, best first: three, or up to the limit of one
        who asks for more than is usual. `weak` also gives those that are merely nearest, and marks them.
        """
        most = most_told(ask, self._settings.recall.limit)
        if not self._background:
            while self.relay():
                pass
        projects = None if ask.projects is None else [*ask.projects, ""]
        vector = (meaning.encoder, meaning.vector) if meaning else None
        projection = self._tables()[0]
        try:
            hits = search_episodes(
                projection,
                question.words,
                vector,
                profile=ask.profile,
                projects=projects,
                exclude_session=None,
                limit=most if weak else 4 * most,
                period=question.time.period if question.time else None,
            )
        except StoreDamaged as error:
            with self._carrying:
                self._rebuild(projection, error)
            return []
        except StoreError as error:
            self._problem = str(error)
            return []
        return told(self._store.episodes, hits, ask, question, meaning, most, weak)

    def maintain(self) -> None:
        """Compact the search tables and drop versions nobody can be reading any more."""
        older = timedelta(seconds=self._settings.daemon.keep_versions_seconds)
        with self._carrying:
            try:
                self._tables()[0].maintain(older)
                self._problem = ""
            except StoreDamaged as error:
                self._rebuild(self._projection, error)
            except StoreError as error:
                self._problem = f"Maintenance failed: {error}"
                _log.warning("%s", self._problem)

    def waiting(self) -> dict[str, int]:
        """How much is still to be done."""
        return {"embed": self._lacking(self._encoders.ready_encoders()), "relay": self._lag()}

    def findable(self) -> tuple[int, int]:
        """Changes whenever more can be found, also where nothing was written for it."""
        return self._lacking(self._encoders.ready_encoders()), self._rows

    def _lacking(self, encoders: Sequence[Encoder]) -> int:
        """How many vectors of `encoders` there are still to be made."""
        return sum(index.lacks(encoder.id) for index in self._index.profiles() for encoder in encoders)

    def _reached(self) -> tuple[object, ...]:
        """What the search tables are to reflect: the last row, the last episode, the encoders."""
        encoders = (encoder.id for encoder in self._carried())
        return (self._store.truth.newest(), self._store.episodes.newest(), *encoders)

    def _lag(self) -> int:
        """Rows and episodes the search tables do not reflect yet; all of them until the tables are opened."""
        if self._relay is not None:
            if behind := self._relay.lag():
                self._level = None  # tables that were level and are no more have been damaged: look at them
            return behind
        return self._store.truth.newest() + self._store.episodes.newest()

    def problems(self) -> list[str]:
        relay = self._relay.problem if self._relay else ""
        found = (self._problem, *self._unembedded.values(), relay)
        return [problem for problem in dict.fromkeys(found) if problem]

    def close(self) -> None:
        self._ending.set()
        for encoder in self._encoders.ready_encoders():
            if isinstance(encoder, EndpointEncoder):
                encoder.close()
        for lock in list(self._embedding_now.values()):
            if lock.acquire(timeout=_FAREWELL_SECONDS):  # who is embedding ends with its batch
                lock.release()
        with self._carrying:
            self._projection = self._relay = None

    def _tables(self) -> tuple[Projection, Relay]:
        """The projection and its relay, made at first use: importing LanceDB takes a second or two."""
        with self._opening:
            if self._projection is None or self._relay is None:
                dims = {encoder.id: encoder.dims for encoder in self._encoders.ready_encoders()}
                memory = self._settings.daemon.episodes_mib
                self._projection = Projection(self._settings.search, dims, memory_mib=memory)
                self._relay = Relay(self._store, self._projection, self._carried, self._embedding)
            return self._projection, self._relay

    def _rebuild(self, damaged: Projection | None, error: StoreDamaged) -> None:
        """The search tables hold nothing of their own: damaged, they are made anew from the store."""
        with self._opening:
            if damaged is None or damaged is not self._projection:
                return  # another thread has seen to it
            _log.warning("%s It is rebuilt.", error)
            damaged.reset()
            self._projection = self._relay = self._level = None
