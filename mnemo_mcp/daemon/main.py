"""The daemon from start to end: lock, socket, doors, worker, and a clean way out."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from mnemo_mcp import __version__
from mnemo_mcp import settings as configuration
from mnemo_mcp.daemon.installation import Installation
from mnemo_mcp.daemon.labour import Labour
from mnemo_mcp.daemon.local import LocalDoor
from mnemo_mcp.daemon.resident import Resident
from mnemo_mcp.daemon.worker import Worker
from mnemo_mcp.errors import MnemoError, StoreBusy
from mnemo_mcp.ledger.folder import Ownership, prepare
from mnemo_mcp.thin.link import SOCKET, write_pointer

_log = logging.getLogger("mnemo")

_BACKLOG = 512
_LINE_BYTES = 16 << 20
_FAREWELL_SECONDS = 3.0
_LOG_BYTES = 1 << 20

Door = Callable[[Resident], Awaitable[None]]
"""A further door that stands open as long as the daemon lives (HTTP)."""


def main() -> int:
    """Serve the data folder until idle or stopped; 0 also when another daemon serves it already."""
    try:
        serve()
    except StoreBusy:
        return 0
    except MnemoError as error:
        print(f"mnemo: {error}", file=sys.stderr)
        return 1
    return 0


def serve(door: Door | None = None) -> None:
    """Serve the data folder until stopped; without a further door, which somebody asked for, or until idle.

    Raises `StoreBusy` when another process owns the folder, `MnemoError` when it cannot be used.
    """
    os.umask(0o077)
    settings = configuration.load()
    tightened = prepare(settings.home)
    ownership = Ownership(settings.home)
    try:
        _log_to(settings.log / "daemon.log")
        if tightened:
            _log.warning("%s", tightened)
        asyncio.run(_serve(settings, ownership, door))
    finally:
        ownership.release()


async def _serve(settings: configuration.Settings, ownership: Ownership, door: Door | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    installation = Installation()

    def end() -> None:
        loop.call_soon_threadsafe(ended.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    resident = Resident(settings)
    local = LocalDoor(resident, end)
    os.chdir(settings.run)
    _remove_stale(Path(SOCKET))
    listening = await asyncio.start_unix_server(local.accept, SOCKET, limit=_LINE_BYTES, backlog=_BACKLOG)
    Path(SOCKET).chmod(0o600)
    _note_launch(settings.home)
    _log.info("mnemo %s serves %s (pid %d)", __version__, settings.home, os.getpid())
    worker = Worker(resident, settings, lambda: _grounded(ownership, installation), end)
    staying = _watch_idle(local, settings, ended) if door is None else door(resident)
    parts = (worker.run(), Labour(resident).run(), staying)
    tasks = [asyncio.create_task(_guarded(each, ended)) for each in parts]
    await ended.wait()
    listening.close()
    Path(SOCKET).unlink(missing_ok=True)
    for task in tasks:
        task.cancel()
    done, _ = await asyncio.wait(tasks, timeout=_FAREWELL_SECONDS)
    for task in done:
        if not task.cancelled() and (fault := task.exception()):
            _log.error("a part of the daemon failed, so all of it ends", exc_info=fault)
    await local.close(_FAREWELL_SECONDS)
    resident.close()
    _log.info("mnemo ends (pid %d)", os.getpid())


def _grounded(ownership: Ownership, installation: Installation) -> bool:
    """Whether the folder is there to be served, and what serves it to be imported."""
    if not ownership.holds():
        _log.warning("the data folder was moved away or removed")
        return False
    if not installation.holds():
        _log.warning("mnemo was removed or replaced; the next who asks starts what is installed then")
        return False
    return True


async def _watch_idle(local: LocalDoor, settings: configuration.Settings, ended: asyncio.Event) -> None:
    """End when nobody has been connected for the configured time."""
    last = time.monotonic()
    while True:
        await asyncio.sleep(min(1.0, settings.daemon.idle_seconds / 4))
        if local.connections or local.served:
            last, local.served = time.monotonic(), False
        if time.monotonic() - last > settings.daemon.idle_seconds:
            ended.set()


async def _guarded(part: Awaitable[None], ended: asyncio.Event) -> None:
    """A part the daemon is not whole without: where it stops, all stops, and the next caller starts anew."""
    try:
        await part
    finally:
        ended.set()


def _remove_stale(socket: Path) -> None:
    """Make room for the socket. Only the lock's owner gets here: whatever lies there is nobody's."""
    if socket.is_dir() and not socket.is_symlink():
        socket.rmdir()
    else:
        socket.unlink(missing_ok=True)


def _note_launch(home: Path) -> None:
    try:
        write_pointer(str(home))
    except OSError as error:
        _log.warning("launchers will not find this installation: %s", error)


def _log_to(file: Path) -> None:
    handler = RotatingFileHandler(file, maxBytes=_LOG_BYTES, backupCount=2, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for noisy in ("mcp", "uvicorn", "lance", "openai", "httpx2"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    threading.excepthook = _log_fault


def _log_fault(fault: threading.ExceptHookArgs) -> None:
    if fault.exc_value is not None:
        _log.error("a thread failed: %s", fault.exc_value, exc_info=fault.exc_value)
