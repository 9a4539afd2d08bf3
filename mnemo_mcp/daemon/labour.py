"""Tasks that may wait minutes for a model: on a thread of their own, so that they hold nothing else up."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress

from mnemo_mcp.daemon.resident import Resident
from mnemo_mcp.errors import MnemoError

_log = logging.getLogger("mnemo")

_BUSY_PAUSE, _IDLE_PAUSE, _FAULT_PAUSE = 0.02, 1.0, 10.0  # seconds between rounds
_REST, _MOST_REST = 40.0, 4.0  # times the processor's time a round took, and seconds: answers go first


class Labour:
    """Works off the queue. A task under way when the daemon ends is taken up again by the next one."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident
        self._ending = threading.Event()
        self._told = ""

    async def run(self) -> None:
        """Work until cancelled. A fault of our own ends a thread, not the work: another one takes over."""
        try:
            while True:
                ended = asyncio.get_running_loop().create_future()
                # no pool: its threads are waited for at the end, and a server may be silent for minutes
                threading.Thread(target=self._rounds, args=(ended,), name="labour", daemon=True).start()
                await ended
                await asyncio.sleep(_FAULT_PAUSE)
        finally:
            self._ending.set()

    def _rounds(self, ended: asyncio.Future[None]) -> None:
        pause = _IDLE_PAUSE
        try:
            while not self._ending.wait(pause):
                began = time.thread_time()  # which waiting for a model does not add to
                busy = self._round()
                rest = min(_MOST_REST, _REST * (time.thread_time() - began))
                pause = max(_BUSY_PAUSE, rest) if busy else _IDLE_PAUSE
        finally:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                ended.get_loop().call_soon_threadsafe(_end, ended)

    def _round(self) -> bool:
        told = ""
        try:
            return self._resident.service().tasks.work_off()
        except (MnemoError, OSError) as error:
            told = str(error)
            if told != self._told:  # once a cause, not once a round
                _log.warning("tasks: %s", told)
            return False
        finally:
            self._told = told


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
