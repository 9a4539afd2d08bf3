"""What is not remembered: excluded folders and sessions that were declared private.

Nothing from them is stored, sent to a model or told to the agent; its own `remember` is refused there.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mnemo_mcp import settings as configuration
from mnemo_mcp.capture.payload import HookCall
from mnemo_mcp.errors import Refused, SettingsError
from mnemo_mcp.ledger.private import PrivateSessions
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Instant

MARKER = ".mnemo-exclude"
"""A file of this name keeps its folder, with all folders inside, out of the memory."""

_DECLARED = re.compile(r"/?mnemo[:\s]\s*private(?P<end>\s+off)?\s*", re.IGNORECASE)
_WILD = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
_CASE = re.IGNORECASE if sys.platform == "darwin" else re.NOFLAG


class Privacy:
    """The exclusions of one data folder, read anew whenever its `config.toml` has changed."""

    def __init__(self, settings: configuration.Settings, store: Store) -> None:
        self._home, self._store = settings.home, store
        self._sessions = PrivateSessions(store.database)
        self._exclude = settings.exclude
        self._read = self._stamp()

    def hides(self, call: HookCall, profile: str, at: Instant) -> bool:
        """Whether a hook's call stays unheard. A person's word that a session is private is taken here."""
        if call.moment == "pre-message" and not call.subagent:
            declared = _DECLARED.fullmatch((call.prompt or "").strip())
            if declared:
                self._declare(profile, call.session, None if declared["end"] else at)
                return True
        return self.excludes(call.cwd) or self._sessions.has(profile, call.session)

    def check(self, folders: Iterable[str], profile: str, session: str) -> None:
        """Raise `Refused` where nothing is to be remembered: in one of `folders`, or in this session."""
        if any(map(self.excludes, folders)):
            raise Refused("This project is excluded from memory, so nothing is stored here.")
        if session and self._sessions.has(profile, session):
            raise Refused("This session is private, so nothing of it is stored.")

    def excludes(self, folder: str) -> bool:
        """Whether a working folder is excluded, by whichever of its names."""
        if not folder.startswith("/") or "\0" in folder:
            return False
        places = list(_places(Path(folder)))
        if any(_is_there(place / MARKER) for place in places):
            return True
        names = [str(place) for place in places]
        return any(pattern.fullmatch(name) for pattern in self._patterns() for name in names)

    def _declare(self, profile: str, session: str, since: Instant | None) -> None:
        with self._store.write() as tx:
            if since is None:
                self._sessions.remove(tx, profile, session)
            else:
                self._sessions.add(tx, profile, session, since)

    def _patterns(self) -> list[re.Pattern[str]]:
        stamp = self._stamp()
        if stamp != self._read:
            try:
                self._exclude = configuration.load(self._home).exclude
            except SettingsError:  # half written: what was excluded stays so until it can be read
                stamp = self._read
            self._read = stamp
        return [pattern for each in self._exclude if each.strip() for pattern in _compiled(each)]

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = (self._home / "config.toml").stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _places(folder: Path) -> Iterator[Path]:
    """A folder and all above it: as it is called, and as it is with links resolved."""
    yield from (folder, *folder.parents)
    try:
        real = folder.resolve()
    except (OSError, RuntimeError):
        return
    if real != folder:
        yield from (real, *real.parents)


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:
        return False  # a folder nobody may look into


def _compiled(pattern: str) -> Iterator[re.Pattern[str]]:
    """A pattern for a folder: ~ is the home, ** any folders, * and ? within one name; links resolved too."""
    path = str(configuration.expanded(pattern.removesuffix("/**").rstrip("/") or "/"))
    names = path.split("/")
    fixed = next((count for count, name in enumerate(names) if "*" in name or "?" in name), len(names))
    base, wild = "/".join(names[:fixed]), "".join(f"/{_translated(name)}" for name in names[fixed:])
    spellings = {base}
    with contextlib.suppress(OSError, RuntimeError):
        spellings.add(str(Path(base or "/").resolve()).rstrip("/"))
    for spelling in spellings:
        yield re.compile(re.escape(spelling) + wild, _CASE | re.DOTALL)


def _translated(wild: str) -> str:
    parts = re.split(r"(\*\*|\*|\?)", wild)
    return "".join(_WILD.get(part) or re.escape(part) for part in parts)
