"""The data folder: private, owned by this person, and by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemo_mcp.errors import StoreBusy, StoreError

_NO_FOLDER = (errno.EEXIST, errno.ENOTDIR)
_MARKS = {"mnemo.db", "config.toml"}
CONTENTS = {*_MARKS, "token", "search", "index", "models", "run", "log", "inbox", "backups"}
_ROOM_BYTES = 8 << 20  # LanceDB needs a few MB to write a small table anew


def prepare(home: Path) -> str:
    """Make the data folder, or tighten one others could read; what was tightened, in words, "" for nothing.

    Raises `StoreError` where the folder cannot be ours.
    """
    with _usable(home):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.stat().st_uid != os.geteuid():
            raise StoreError(
                f"The data folder {home} belongs to another user.", "Set MNEMO_HOME to a folder of your own."
            )
        if _is_for_something_else(home):
            raise StoreError(
                f"The data folder {home} is in use for other things, and all in it would be made private.",
                "Set MNEMO_HOME to a folder for mnemo alone; one that is missing is made.",
            )
        loose = sum(map(_tightened, _contents(home)))
        for name in ("run", "log", "inbox"):
            (home / name).mkdir(mode=0o700, exist_ok=True)
    return f"made {loose} files and folders in {home} private" if loose else ""


def shortage(home: Path) -> list[str]:
    """What is short in the folder, in words: a store on a full disk serves on and takes nothing in."""
    free = shutil.disk_usage(home).free
    if free >= _ROOM_BYTES:
        return []
    return [f"The disk of {home} has {free >> 20} MB left: free some space, or nothing more is stored."]


def _is_for_something_else(home: Path) -> bool:
    """Whether a folder holds other things and nothing that shows it to be mnemo's: a home folder, `/`."""
    names = {each.name for each in home.iterdir() if not each.name.startswith(".")}
    return not names <= CONTENTS and not names & _MARKS


def _contents(home: Path) -> Iterator[Path]:
    yield home
    for folder, folders, files in os.walk(home):
        yield from (Path(folder, name) for name in (*folders, *files))


def _tightened(path: Path) -> bool:
    """Whether a file or folder was open to others; it no longer is."""
    try:
        mode = path.lstat().st_mode
        loose = bool(mode & 0o077) and not (stat.S_ISLNK(mode) or stat.S_ISSOCK(mode))
        if loose:
            path.chmod(mode & 0o700)
    except FileNotFoundError:
        return False  # whoever owns the folder meanwhile has removed it
    return loose


@contextmanager
def _usable(home: Path) -> Iterator[None]:
    """Trouble with the folder or what is in it as a `StoreError`."""
    try:
        yield
    except OSError as error:
        cause = "it is not a folder" if error.errno in _NO_FOLDER else error.strerror
        where = f" at {error.filename}" if error.filename and Path(error.filename) != home else ""
        raise StoreError(
            f"The data folder {home} cannot be used ({cause}{where}).",
            "Set MNEMO_HOME to a folder you may write to, or mend this one.",
        ) from error


class Ownership:
    """An OS lock on the data folder for as long as this process lives; it cannot go stale.

    Raises `StoreBusy` when another process holds it, `StoreError` when the folder cannot be written to.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "run" / "lock"
        with _usable(home):
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
