"""Files of other programs: read whole, replaced whole by one rename, their first state kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mnemo_mcp.clients.doubt import Doubt
from mnemo_mcp.clients.entries import Entries, Original
from mnemo_mcp.clients.exchange import exchange
from mnemo_mcp.errors import Refused

_ATTEMPTS = 20
_PAUSE_SECONDS = 0.02  # longer after each attempt that another program has crossed
_QUIET_SECONDS = 0.3  # for so long nobody else may have written before a race counts as over
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Change:
    """What an edit does to one file."""

    path: Path
    before: bytes | None
    after: bytes | None


class Backups:
    """What files were before mnemo touched them, in a folder of its own.

    `first` is never overwritten. `last` is the state before the present entries, until they are taken away.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, path: Path, content: bytes | None) -> None:
        """Note the state of a file, if it holds nothing of ours yet."""
        first, last = self._place(path, "first"), self._place(path, "last")
        if _noted(first) is None:
            self._note(path, first, content)
        if _noted(last) is None or b"mnemo" not in (content or b""):
            self._note(path, last, content)

    def original(self, path: Path) -> Original:
        """The state before the present entries, if it was noted."""
        noted = _noted(self._place(path, "last"))
        return Original(decoded(noted[0])[0]) if noted else Original(None, known=False)

    def done(self, path: Path) -> None:
        """Nothing of ours is left in a file; if it is gone, folders that were made for it go too."""
        kept, absent = _spellings(self._place(path, "last"))
        if absent.exists() and not path.exists():
            for folder in absent.read_text("utf-8").splitlines():
                with contextlib.suppress(OSError):  # somebody else has put something in
                    Path(folder).rmdir()
        for each in (kept, absent):
            each.unlink(missing_ok=True)

    def first(self, path: Path) -> Path:
        """Where the first state of a file is kept."""
        return self._place(path, "first")

    def _place(self, path: Path, state: str) -> Path:
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        return self._folder / f"{name}-{state}-{path.name}"

    def _note(self, path: Path, place: Path, content: bytes | None) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept, absent = _spellings(place)
        if content is None:
            missing = "\n".join(str(each) for each in path.parents if not each.exists())
            write(absent, missing.encode("utf-8", "surrogateescape"), 0o600)
            kept.unlink(missing_ok=True)
        else:
            write(kept, content, 0o600)
            absent.unlink(missing_ok=True)


def change(path: Path, entries: Entries, backups: Backups, *, adding: bool) -> Change:
    """What adding or removing entries would do to the file at `path` as it is now; nothing is written."""
    target = resolved(path)
    before = content_of(target)
    return Change(target, before, _edited(target, before, entries, backups, adding))


def apply(path: Path, entries: Entries, backups: Backups, *, adding: bool) -> Change | None:
    """Add or remove entries; None where there was nothing to do.

    Another program's change in between is never lost: the edit is made anew on what it wrote, and once more
    looked after when it has become quiet. Raises `Refused` where it does not.
    """
    target = resolved(path)
    made: Change | None = None
    raced = False
    for attempt in range(_ATTEMPTS):
        before = content_of(target)
        after = _edited(target, before, entries, backups, adding)
        if after == before and not raced:
            return made
        if after == before:
            raced = False
            time.sleep(_QUIET_SECONDS)
            continue
        if adding and not entries.holds(decoded(before)[0]):
            backups.keep(target, before)
        raced = raced or made is not None
        if replace(target, before, after):
            made = made or Change(target, before, after)
        else:
            raced = True
            time.sleep(_PAUSE_SECONDS * attempt)
    raise Refused(
        f"{target} is changed by another program all the time, so mnemo could not change it safely.",
        "Close the client, then run this again.",
    )


def _edited(
    target: Path, before: bytes | None, entries: Entries, backups: Backups, adding: bool
) -> bytes | None:
    try:
        text, mark = decoded(before)
        changed = entries.add(text) if adding else entries.remove(text, backups.original(target))
    except Doubt as doubt:
        raise doubt.in_file(target) from None
    return before if changed == text else None if changed is None else (mark + changed).encode()


def decoded(content: bytes | None) -> tuple[str | None, str]:
    """A file's text, and the byte order mark before it, if there is one."""
    if content is None:
        return None, ""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Doubt("it is not in UTF-8.", line, "Save it in UTF-8, then run this again.") from None
    return (text[1:], _BOM) if text.startswith(_BOM) else (text, "")


def resolved(path: Path) -> Path:
    """The file that is meant: links followed, so that they stay links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise Refused(f"{path} is a link that leads nowhere.", "Remove it, then run this again.") from None


def content_of(path: Path) -> bytes | None:
    """What a file holds, None where there is none. Raises `Refused` where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(
            f"{path} cannot be read: {error.strerror}.", "Mend that, then run this again."
        ) from None


def replace(path: Path, before: bytes | None, after: bytes | None) -> bool:
    """Put `after` in the place of `before` (None: no file), whole or not at all.

    False, with nothing changed, if the file holds something else by now.
    """
    if after is None:
        if content_of(path) != before:
            return False
        path.unlink()
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o7777 if before is not None else 0o600
        with _fresh(path, after, mode) as fresh:
            return content_of(path) == before and _put(fresh, path, before, after)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror}. It is as it was.", "Mend that, then run this again."
        ) from None


def _put(fresh: Path, path: Path, before: bytes | None, after: bytes) -> bool:
    """Put a file in the place of another that holds `before`; what somebody wrote meanwhile is put back."""
    if before is None:
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            return False
        except OSError:  # not every file system has links
            fresh.replace(path)
    elif not exchange(fresh, path):
        fresh.replace(path)
    elif fresh.read_bytes() != before:
        _give_back(fresh, path, after)
        return False
    return True


def _give_back(fresh: Path, path: Path, put: bytes) -> None:
    """Put back what somebody wrote, and whatever they write meanwhile, until nothing but `put` was there."""
    newest = fresh.read_bytes()
    while exchange(fresh, path) and (taken := fresh.read_bytes()) != put:
        put, newest = newest, taken


def write(path: Path, content: bytes, mode: int) -> None:
    """Write a file of ours, whole or not at all."""
    with _fresh(path, content, mode) as fresh:
        fresh.replace(path)


@contextlib.contextmanager
def _fresh(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """A file beside `path`, on disk, to be put in its place; what is left of it is removed in the end."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.mnemo-")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(mode)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not every file system can sync a folder
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _spellings(place: Path) -> tuple[Path, Path]:
    """Where a state is noted: its bytes, or that there was no file."""
    return place, place.with_name(f"{place.name}.absent")


def _noted(place: Path) -> tuple[bytes | None] | None:
    kept, absent = _spellings(place)
    if kept.exists():
        return (kept.read_bytes(),)
    return (None,) if absent.exists() else None
