"""The worker: rounds of background work, more often while there is some."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from mnemo_mcp.daemon.resident import Resident
from mnemo_mcp.errors import MnemoError
from mnemo_mcp.settings import Settings

_log = logging.getLogger("mnemo")

_BUSY_PAUSE, _IDLE_PAUSE = 0.02, 0.5  # seconds between rounds
_QUIET, _LATEST = 0.7, 5.0  # seconds: without a hook, and after the start, until the search tables are opened


class Worker:
    """Takes in the inbox, embeds, feeds the search tables, and compacts them now and then."""

    def __init__(
        self, resident: Resident, settings: Settings, grounded: Callable[[], bool], lost: Callable[[], None]
    ) -> None:
        """`lost` is called once what the daemon stands on is gone, as `grounded` tells."""
        self._resident = resident
        self._grounded = grounded
        self._pause = settings.daemon.maintenance_seconds
        self._lost = lost
        self._began = self._maintained = time.monotonic()
        self._carrying = False
        self._told = ""

    async def run(self) -> None:
        """Rounds until cancelled. One that fails is told of, whatever failed; the next one tries again."""
        while True:
            (done,), _ = await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(self._round))])
            self._tell(done.exception())
            busy = done.exception() is None and done.result()
            await asyncio.sleep(_BUSY_PAUSE if busy else _IDLE_PAUSE)

    def _tell(self, error: BaseException | None) -> None:
        """Each trouble once, until another one or none takes its place."""
        told = f"{type(error).__name__}: {error}" if error else ""
        if told and told != self._told:
            known = isinstance(error, (MnemoError, OSError))
            _log.warning("background work: %s", told, exc_info=None if known else error)
        self._told = self._resident.trouble = told

    def _round(self) -> bool:
        if not self._grounded():
            self._lost()
            return False
        service = self._resident.service()
        busy = bool(service.take_inbox())
        service.index.catch_up()
        if not service.encoders.ready:
            return busy
        embedded = service.upkeep.embed(16)
        service.index.tidy()
        carried = service.upkeep.relay() if self._may_carry() else 0
        if carried or time.monotonic() - self._maintained > self._pause:
            service.tasks.maintain()
            service.upkeep.maintain()  # also long after the last change: old versions go when they are old
            self._maintained = time.monotonic()
        if busy or embedded or carried:
            return True
        if self._carrying:
            service.upkeep.reach_back()  # bit by bit, at the pace of an idle daemon
        return False

    def _may_carry(self) -> bool:
        """Importing LanceDB takes seconds of a core, so the first time it waits until no hook is asking."""
        if not self._carrying:
            now = time.monotonic()
            quiet = now - self._resident.hooked_at > _QUIET
            self._carrying = (quiet and now - self._began > _QUIET) or now - self._began > _LATEST
        return self._carrying
