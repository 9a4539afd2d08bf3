"""Afterwards: memories that were stored unseen are compared, and repeats among them found, in the background.

Three tasks: `judge` compares one memory that was told directly; `consolidate` looks for memories that say the
same, among what is new ("recent", when a session ends or nothing has changed for a while) or among everything
("all", now and then). Each does a bounded part at a time and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from mnemo_mcp.errors import NotFound
from mnemo_mcp.judge.candidate import candidate_of
from mnemo_mcp.judge.judge import STALE, Decision, Judge
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.verdicts import Progress
from mnemo_mcp.ledger.work import ALL, CONSOLIDATE, JUDGE, RECENT, Task
from mnemo_mcp.memory import Instant, Memory, instant, moment
from mnemo_mcp.settings import Judging
from mnemo_mcp.times import Clock

_BATCH = 50  # memories a task looks at
_ASKED = 5  # of them that a model is asked about
_REST = 4  # times as long as a task took, before the next one

Finish = Callable[[Connection], None]


class Serve(Protocol):
    """Who works tasks off: `plan` is called now and then to ask for those that are due."""

    def __call__(
        self, kind: str, do: Callable[[Task], Finish], plan: Callable[[], None] | None = None
    ) -> None: ...


class Afterwards:
    """The background work of the judge over one store."""

    def __init__(self, store: Store, judge: Judge, constants: Judging, clock: Clock) -> None:
        self._store = store
        self._judge = judge
        self._constants = constants
        self._clock = clock

    def serve(self, serve: Serve) -> None:
        """Have the tasks done."""
        serve(JUDGE, self.compare)
        serve(CONSOLIDATE, self.consolidate, self.plan)

    def compare(self, task: Task) -> Finish:
        """Compare a memory with those known before it. Raises an `EndpointError`."""
        try:
            memory = self._store.truth.get(task.subject, task.profile)
        except NotFound:
            return _nothing
        if _gone(memory):
            return _nothing
        decision = self._judge.consider(candidate_of(memory))

        def finish(tx: Connection) -> None:
            if self._judge.apply(tx, decision).outcome == STALE:
                self._store.work.add(tx, JUDGE, task.profile, task.subject, self._now())

        return finish

    def consolidate(self, task: Task) -> Finish:
        """Look through the next part for memories that say the same. Raises an `EndpointError`."""
        profile, name, began = task.profile, task.subject, self._clock()
        progress = self._begun(profile, name)
        decisions: list[Decision] = []
        with self._store.database.read() as connection:
            batch = self._store.verdicts.changed_since(connection, profile, progress.reached, _BATCH)
        seen = progress.goal if len(batch) < _BATCH else batch[-1][0]
        for seq, memory in batch:
            decision = None if _gone(memory) else self._judge.repeats_of(memory)
            if decision is not None:
                decisions.append(decision)
                if len(decisions) == _ASKED:
                    seen = seq
                    break
        reached = replace(progress, reached=min(seen, progress.goal), at=self._now())

        def finish(tx: Connection) -> None:
            for decision in decisions:
                self._judge.apply(tx, decision)  # one that is stale by now is met again by the next pass
            self._store.verdicts.advance(tx, profile, name, reached)
            if reached.reached < reached.goal:
                now = self._clock()
                pause = _REST * (now - began)  # so that a large store takes a fifth of one core, no more
                self._store.work.add(tx, CONSOLIDATE, profile, name, instant(now + pause))

        return finish

    def plan(self) -> None:
        """Ask for a pass over what is new once nothing changes any more, and over everything now and then."""
        now, newest = self._now(), self._store.truth.newest()
        if not newest or now < _after(self._store.verdicts.last_change(), self._constants.idle_seconds):
            return
        for profile in self._store.verdicts.profiles():
            recent = self._store.verdicts.progress(profile, RECENT)
            everything = self._store.verdicts.progress(profile, ALL)
            due = [RECENT] if recent.goal < self._store.verdicts.newest_in(profile) else []
            if not everything.at or _after(everything.at, self._constants.full_days * 86_400) <= now:
                due.append(ALL)
            if due:
                with self._store.write() as tx:
                    for name in due:
                        self._store.work.add(tx, CONSOLIDATE, profile, name, now)

    def _begun(self, profile: str, name: str) -> Progress:
        """Where a pass stands; one that is through begins anew, that over what is new where it ended."""
        progress = self._store.verdicts.progress(profile, name)
        if progress.reached < progress.goal:
            return progress
        start = progress.reached if name == RECENT else 0
        return Progress(start, self._store.truth.newest(), progress.at)

    def _now(self) -> Instant:
        return instant(self._clock())


def _nothing(tx: Connection) -> None:
    """What was to be compared is gone."""


def _gone(memory: Memory) -> bool:
    return memory.retracted or memory.erased or bool(memory.merged_into)


def _after(at: Instant, seconds: float) -> Instant:
    return instant(moment(at) + timedelta(seconds=seconds))
