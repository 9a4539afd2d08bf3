"""The data folder: private, owned by this person, and by one process at a time."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from mnemo_mcp.errors import StoreBusy, StoreError

_log = logging.getLogger("mnemo")


def prepare(home: Path) -> None:
    """Make the data folder, or tighten one others could read. Raises `StoreError` where it cannot be ours."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = home.stat().st_uid
    except OSError as error:
        raise StoreError(
            f"The data folder {home} cannot be used ({error.strerror}).",
            "Set MNEMO_HOME to a folder you may write to.",
        ) from error
    if owner != os.geteuid():
        raise StoreError(
            f"The data folder {home} belongs to another user.", "Set MNEMO_HOME to a folder of your own."
        )
    loose = [path for path in _contents(home) if path.lstat().st_mode & 0o077]
    for path in loose:
        path.chmod(path.stat().st_mode & 0o700)
    if loose:
        _log.warning("made %d files and folders below %s private", len(loose), home)
    for name in ("run", "log", "inbox"):
        (home / name).mkdir(mode=0o700, exist_ok=True)


def _contents(home: Path) -> Iterator[Path]:
    yield home
    yield from (path for path in home.rglob("*") if not path.is_symlink() and not path.is_socket())


class Ownership:
    """An OS lock on the data folder for as long as this process lives; it cannot go stale.

    Raises `StoreBusy` when another process holds it.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "run" / "lock"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise StoreBusy(
                f"Another process of mnemo owns {home}.",
                "Use the `mnemo` commands, which talk to it, or end it with `mnemo stop`.",
            ) from None

    def holds(self) -> bool:
        """Whether the lock file is still the one that was locked: a folder may be moved away or removed."""
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        os.close(self._file)
