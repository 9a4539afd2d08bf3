"""The five verbs and the three moments, wired once. Everything outside talks to this."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mnemo_mcp import __version__
from mnemo_mcp import settings as configuration
from mnemo_mcp.capture.inbox import problems, waiting
from mnemo_mcp.capture.payload import clean
from mnemo_mcp.capture.privacy import Privacy
from mnemo_mcp.distil.distiller import Distiller
from mnemo_mcp.errors import MnemoError, Refused
from mnemo_mcp.index.index import Index
from mnemo_mcp.inject.injector import Injector
from mnemo_mcp.judge.afterwards import Afterwards
from mnemo_mcp.judge.judge import Judge
from mnemo_mcp.judge.writer import MODES, Writer, Writing, kind_named
from mnemo_mcp.ledger.folder import Ownership, prepare, shortage
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Claim, EntityRef, Episode, Instant, Outcome, instant
from mnemo_mcp.memory import moment as moment_of
from mnemo_mcp.models.connected import LanguageModels
from mnemo_mcp.models.cross_encoder import configured
from mnemo_mcp.models.moving import MovingPair
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.moments import Moments
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.recall.difference import Difference
from mnemo_mcp.recall.recall import Ask, Recaller
from mnemo_mcp.recall.reranking import Reranking
from mnemo_mcp.records import Records
from mnemo_mcp.standing.usage import Judging
from mnemo_mcp.tasks import Tasks
from mnemo_mcp.times import Clock, offset_of, parse_instant, system_clock, zone_named
from mnemo_mcp.upkeep import Upkeep

_log = logging.getLogger("mnemo")

EVERYWHERE = "*"
"""As a project: all of the profile's projects."""


class Service:
    """The memory of one data folder. Safe to call from several threads; owns the folder until closed."""

    def __init__(
        self,
        settings: configuration.Settings,
        clock: Clock = system_clock,
        *,
        background: bool = False,
        owned: bool = False,
    ) -> None:
        """With `background`, vectors and the search tables follow in `upkeep`; else before each answer.

        `owned` says that the caller has prepared the folder and holds its lock.
        """
        if not owned:
            prepare(settings.home)
        self.settings = settings
        self.clock = clock
        self.zone = zone_named(settings.zone)
        self.encoders = MovingPair(settings.encoders, settings.model_files)
        self._ownership = None if owned else Ownership(settings.home)
        try:
            self.store = Store(settings.database, clock())
        except MnemoError:
            self._release()
            raise
        self.encoders.begin(self.store.vectors.encoders())
        self.index = Index(self.store, settings.index, clock=clock)
        self.upkeep = Upkeep(settings, self.store, self.index, self.encoders, background=background)
        self._reranking = Reranking(configured(settings))
        search = (self.upkeep.passages, self._reranking, self.upkeep.findable)
        self._recaller = Recaller(self.store, self.index, self.encoders, settings, *search)
        self.records = Records(self.store)
        self.models = LanguageModels(settings.models, self.store, clock, self.zone)
        self.tasks = Tasks(self.store, self.models, clock)
        usage = Judging(self.store, self.index, self.encoders, settings.usage, clock, self.models.decider)
        self.tasks.serve("usage", usage.judge)
        self._writing = Writing(self.store, self.index, judged=self.models.decider is not None)
        level, decider = self.upkeep.before_answer, self.models.decider
        self.judge = Judge(self.store, self.index, self.encoders, settings.judging, clock, decider, level)
        Afterwards(self.store, self.judge, settings.judging, clock).serve(self.tasks.serve)
        self.privacy = Privacy(settings, self.store)
        about = (self.store, self.index, self.encoders, self.judge, self.models.chat)
        self.distiller = Distiller(*about, settings.distilling, clock, self.privacy)
        self.distiller.serve(self.tasks.serve)
        self._counter = TokenCounter(settings.budgets.token_scale)
        injector = Injector(
            self.store, self.index, self._recaller, settings.budgets, self._counter.count, clock
        )
        self._moments = Moments(
            settings, self.store, self.upkeep, injector, self.privacy, clock, self.zone, self._turn_ended
        )
        self._background = background
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        clock: Clock = system_clock,
        settings: configuration.Settings | None = None,
    ) -> Service:
        """The memory in a data folder, in this process, encoders loaded."""
        service = cls(settings or configuration.load(path), clock)
        service.encoders.load()
        return service

    def load(self) -> None:
        """Load the encoders, and what the first question needs of them."""
        self._counter.count("Counting is ready before the first block is rendered.")
        self.encoders.load()
        self._recaller.warm()

    # The five verbs

    def recall(
        self,
        question: str,
        *,
        limit: int | None = None,
        kinds: Sequence[str] = (),
        entities: Sequence[str] = (),
        project: str | None = None,
        valid_at: str | None = None,
        known_at: str | None = None,
        history: bool = False,
        explain: bool = False,
        profile: str | None = None,
    ) -> Answer:
        """What is known about a question. `project` None or "*" asks everywhere in the profile.

        With `explain` the answer carries how the question was read and what each channel found.
        """
        constants = self.settings.recall
        ask = Ask(
            text=clean(question),
            profile=self.profile_of(profile),
            now=self._now(),
            limit=max(1, min(limit or constants.limit, constants.limit_most)),
            projects=None if project in (None, EVERYWHERE) else frozenset({str(project)}),
            kinds=frozenset(kind_named(each) for each in kinds),
            entities=self._names(entities, self.profile_of(profile)),
            valid_at=self._instant(valid_at),
            known_at=self._instant(known_at),
            history=history,
            zone=self.zone,
            explain=explain,
        )
        self.upkeep.before_answer()
        return self._recaller.answer(ask)

    def remember(
        self,
        what: str,
        *,
        why: str = "",
        how: str = "",
        who: str = "",
        where: str = "",
        when: str = "",
        kind: str = "fact",
        entities: Sequence[EntityRef] = (),
        subject: str = "",
        field: str = "",
        valid_from: str | None = None,
        valid_to: str | None = None,
        replaces: Sequence[str] = (),
        correction: bool = False,
        at: str | None = None,
        project: str = "",
        profile: str | None = None,
        client: str = "local",
        session: str = "",
        by: str = "agent",
    ) -> Outcome:
        """Store one claim. `at` is when it was said, now if left out; times are read as of then and there.

        `subject` and `field` name what the claim is the value of (Ivan, city): values never overlap in time.
        """
        parts = {"what": what, "why": why, "how": how, "who": who, "where": where, "when": when}
        claim = Claim(
            **{name: clean(part) for name, part in parts.items()},
            kind=kind_named(kind),
            entities=tuple(entities),
            subject=clean(subject).strip(),
            field=clean(field).strip(),
        )
        writer = self.writer(profile, project, client, session, by, at)
        return self._writing.remember(
            claim,
            writer,
            valid_from=self._instant(valid_from, writer),
            valid_to=self._instant(valid_to, writer),
            replaces=replaces,
            correction=correction,
        )

    def forget(
        self,
        ids: str | Sequence[str],
        mode: str = "retract",
        reason: str = "",
        *,
        at: str | None = None,
        profile: str | None = None,
        client: str = "local",
        by: str = "agent",
    ) -> list[Outcome]:
        """Close (it stopped being true), retract (it never was) or erase (for good) by one id or several."""
        if mode not in MODES:
            raise Refused(f"There is no mode {mode!r}.", f"Use one of {', '.join(MODES)}.")
        writer = self.writer(profile, "", client, "", by, at)
        wanted = [ids] if isinstance(ids, str) else ids
        return self._writing.forget(wanted, MODES[mode], writer, clean(reason))

    def keep(self, memory_id: str, on: bool = True, *, profile: str | None = None) -> Outcome:
        """A person's word: this memory is never muted and never fades."""
        return self._writing.keep(memory_id, on, self.writer(profile, "", "local", "", "person", None))

    def recall_episode(
        self, name: str, around: int = 0, *, profile: str | None = None
    ) -> tuple[list[Episode], list[Episode]]:
        """The source with this id, or the sources of a memory; and what came before and after the first."""
        wall = self.profile_of(profile)
        if name.startswith("m"):
            memory = self.store.truth.get(name, wall)
            found = list(self.store.episodes.many(memory.episodes).values())
        else:
            found = [self.store.episodes.get(name, wall)]
        near = self.store.episodes.around(found[0], around, around) if found and around > 0 else []
        return found, near

    def diff(
        self, question: str, known_at: str, other: str, *, profile: str | None = None, **scope: Any
    ) -> Difference:
        """Why a question is answered differently by what was known at two instants."""
        zone, now = self.zone, self.clock()
        return self.records.difference(
            lambda known: self.recall(question, known_at=known, profile=profile, **scope),
            parse_instant(known_at, zone, now),
            parse_instant(other, zone, now),
            self.profile_of(profile),
        )

    # The three moments

    def hook(
        self,
        client: str,
        moment: str,
        raw: bytes,
        received: datetime | None = None,
        profile: str | None = None,
    ) -> str:
        """What a client's hook prints for the payload `raw`; "" for nothing.

        Episodes the payload brings are on disk when this returns.
        """
        return self._moments.hook(client, moment, raw, received, self.profile_of(profile))

    def _turn_ended(self) -> None:
        if not self._background:
            self.tasks.attempt("usage")

    # Around them

    def status(self) -> Mapping[str, Any]:
        """Counts, encoders, what waits, and every problem in words."""
        profile = self.settings.profile
        index = self.index.profile(profile)
        with index.lock:
            memories = index.states.standing()
        return {
            "version": __version__,
            "home": str(self.settings.home),
            "profile": profile,
            "memories": memories,
            "episodes": self.store.episodes.count(profile),
            "encoders": [encoder.id for encoder in self.encoders.ready_encoders()],
            "moving": self.upkeep.moving(),
            "queue": {**self.store.work.waiting(), **self.upkeep.waiting()},
            **self.tasks.status(),
            "distilling": self.distiller.told(),
            "problems": [
                *shortage(self.settings.home),
                *self.encoders.problems,
                *self.upkeep.problems(),
                *self._reranking.problems,
                *self.tasks.problems(),
                *problems(self.settings.inbox),
            ],
        }

    def check(self, *, repair: bool = False) -> list[str]:
        """Everything wrong with the store; `repair` folds the snapshot anew from the ledger."""
        if repair and not self.store.database.check():
            self.store.truth.rebuild()
        return self.store.check()

    def take_inbox(self) -> int:
        """Take in what hooks left behind while no daemon answered; how many payloads were taken."""
        taken = 0
        for each in waiting(self.settings.inbox):
            received = datetime.fromtimestamp(each.received_ns / 1e9, UTC)
            try:
                self.hook(each.client, each.moment, each.read(), received, each.profile or None)
                each.done()
            except Refused as error:
                _log.warning("%s in the inbox is set aside: %s", each.path.name, error)
                each.set_aside()
            taken += 1
        return taken

    def close(self) -> None:
        with self._closing:
            if not self._closed:
                self._closed = True
                self._reranking.close()
                self.upkeep.close()
                self.index.close()
                self.models.close()
                self.store.close()
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _release(self) -> None:
        if self._ownership is not None:
            self._ownership.release()

    def writer(
        self, profile: str | None, project: str, client: str, session: str, by: str, at: str | None
    ) -> Writer:
        known = self._instant(at) or self._now()
        zone = offset_of(at or "") or self.zone
        return Writer(self.profile_of(profile), project, client, session, known, self._now(), zone, by)

    def _names(self, entities: Sequence[str], profile: str) -> frozenset[str]:
        """Every name under which these entities are known."""
        with self.store.database.read() as connection:
            known = (self.store.entities.names(connection, profile, clean(name)) for name in entities)
            return frozenset(name for names in known for name in names)

    def profile_of(self, profile: str | None) -> str:
        """The wall that a call stands behind. Raises `Refused` for a name of nothing."""
        if profile is not None and not profile.strip():
            raise Refused("The profile has no name.", "Leave it out or name one.")
        return profile or self.settings.profile

    def _instant(self, text: str | None, said: Writer | None = None) -> Instant | None:
        """A time as meant now, or when and where something was `said`."""
        if not text:
            return None
        if said is None:
            return parse_instant(text, self.zone, self.clock())
        return parse_instant(text, said.zone, moment_of(said.known_at))

    def _now(self) -> Instant:
        return instant(self.clock())
