"""Working off the queue: one task at a time, put back with its reason when it fails; how the queue stands."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from mnemo_mcp.errors import MnemoError
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.work import Queue, Task
from mnemo_mcp.memory import Instant, instant
from mnemo_mcp.models.connected import LanguageModels
from mnemo_mcp.times import Clock

_log = logging.getLogger("mnemo")

USES: Mapping[str, str] = {
    "distil": "extraction",
    "judge": "decisions",
    "consolidate": "decisions",
    "usage": "decisions",
}
"""Which endpoint a kind of task needs."""

_NOUNS = {
    "distil": ("thread", "threads"),
    "judge": ("memory", "memories"),
    "consolidate": ("search for repeats", "searches for repeats"),
    "usage": ("turn", "turns"),
}

Finish = Callable[[Connection], None]
"""Writes what came of a task, in the transaction that also ends it."""

Do = Callable[[Task], Finish]
"""Does a task, asking models as it needs to. It changes nothing: what is to be written, it gives back."""


class Tasks:
    """The queue of one store, and the language models its tasks need."""

    def __init__(
        self, store: Store, models: LanguageModels, clock: Clock, chance: Callable[[], float] = random.random
    ) -> None:
        """For the owner of the folder alone: tasks that still run are taken back."""
        store.work.recover(instant(clock()))  # whoever ran tasks of this folder before is gone
        self._store = store
        self._models = models
        self._clock = clock
        self._chance = chance
        self._served: dict[str, Do] = {}
        self._plans: list[Callable[[], None]] = []

    def serve(self, kind: str, do: Do, plan: Callable[[], None] | None = None) -> None:
        """From now on tasks of this kind are done by `do`; `plan`, called now and then, asks for them."""
        self._served[kind] = do
        if plan is not None:
            self._plans.append(plan)

    def work_off(self, *kinds: str) -> bool:
        """Do one task of each kind that is served (or of these alone); False where none can be done now."""
        did = [self.run(kind, do) for kind, do in self._served.items() if not kinds or kind in kinds]
        return any(did)

    def attempt(self, kind: str) -> None:
        """Do one task in the course of something else, which is to go on whatever becomes of it."""
        try:
            self.work_off(kind)
        except (MnemoError, OSError) as error:
            _log.warning("a task of the kind %s waits on: %s", kind, error)

    def run(self, kind: str, do: Do) -> bool:
        """Do the task of a kind that has waited longest; False where there is none that can be done now."""
        use = USES.get(kind)
        if use and self._models.rests(use):
            return False
        task = self._store.work.take(kind, self._now())
        if task is None:
            return False
        failure: MnemoError | None = MnemoError("It ended in an error of mnemo's own.", "See the log.")
        try:
            finish = do(task)
            with self._store.write() as tx:
                finish(tx)
                self._store.work.done(tx, task, self._now())
            failure = None
        except MnemoError as error:
            failure = error
        finally:
            if failure is not None:
                self._store.work.failed(task, failure, self._now(), self._chance())
        return True

    def status(self) -> Mapping[str, Any]:
        """How the tasks of each kind stand, and the models they need."""
        return {
            "tasks": {
                queue.kind: {
                    "waiting": queue.waiting,
                    "running": queue.running,
                    "stuck": queue.stuck,
                    "next_try": queue.next_try or None,
                    "error": queue.error or None,
                }
                for queue in self._store.work.queues(self._now())
            },
            "models": self._models.status(),
        }

    def problems(self) -> list[str]:
        """What keeps tasks from being done, each cause once, and those that were given up for the day."""
        queues = self._store.work.queues(self._now())
        waiting: dict[str, list[str]] = {}
        for queue in queues:
            if queue.kind in USES:
                waiting.setdefault(USES[queue.kind], []).append(_counted(queue, queue.waiting + queue.stuck))
        told = {use: ", ".join(parts) for use, parts in waiting.items()}
        return [
            *self._models.problems(told),
            *(
                f"{_counted(each, each.stuck)} failed too often and will be tried once a day: {each.error}"
                for each in queues
                if each.stuck
            ),
        ]

    def probe(self) -> list[dict[str, str]]:
        """Ask each endpoint for its models; where all is well, everything that failed is due again."""
        found = self._models.probe()
        for each in found:
            if not each.problem:
                self._store.calls.forget_refusals(each.endpoint)
        if found and not any(each.problem for each in found):
            self._store.work.revive(self._now())
        return [
            {"endpoint": each.endpoint, "url": each.url, "model": each.model, "problem": each.problem}
            for each in found
        ]

    def maintain(self) -> None:
        """Let go of what nobody will ask for again, and ask for tasks that are due."""
        self._store.calls.purge(self._now())
        self._store.connections.prune(self._now())
        for plan in self._plans:
            plan()

    def _now(self) -> Instant:
        return instant(self._clock())


def _counted(queue: Queue, count: int) -> str:
    one, many = _NOUNS.get(queue.kind, ("task", "tasks"))
    return f"{count} {one if count == 1 else many}"
