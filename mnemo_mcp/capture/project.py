"""The identity of a code base: one function decides it, for writing and for reading."""

from __future__ import annotations

import re
from pathlib import Path

_ORIGIN = re.compile(r'^\s*\[remote "origin"\]\s*$(?:\n(?!\s*\[).*)*?\n\s*url\s*=\s*(\S+)', re.MULTILINE)
_URL = re.compile(r"^(?:\w[\w+.-]*://)?(?:[^@/]*@)?([^/:]+)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*$")


def project_of(folder: str | None) -> str:
    """The project a working folder belongs to; "" for none.

    A checkout is known by its origin (so that it may move and be cloned anew), else by the path of its
    main checkout (a worktree is its main checkout); any other folder by its own path, links resolved.
    """
    if not folder or "\0" in folder or not Path(folder).is_absolute():
        return ""
    try:
        path = Path(folder).resolve()
        git = _repository(path)
    except (OSError, RuntimeError, ValueError):  # unreadable, a loop of links, or a .git that is none
        return folder
    if git is None:
        return str(path)
    return _origin(git) or str(git.parent)


def in_repository(folder: str) -> bool:
    """Whether a folder lies inside a checkout; elsewhere a working folder proves no project."""
    try:
        return _repository(Path(folder).resolve()) is not None
    except (OSError, RuntimeError, ValueError):
        return False


def _repository(path: Path) -> Path | None:
    """The .git folder of the main checkout that `path` lies in."""
    for place in (path, *path.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            return _main_checkout(git)
    return None


def _main_checkout(pointer: Path) -> Path:
    """A worktree's .git is a file that leads to the main checkout's .git; a submodule's leads to its own."""
    target = Path(pointer.read_text("utf-8").removeprefix("gitdir:").strip())
    folder = (pointer.parent / target).resolve()
    common = folder / "commondir"
    return (folder / common.read_text("utf-8").strip()).resolve() if common.is_file() else folder


def _origin(git: Path) -> str:
    try:
        found = _ORIGIN.search((git / "config").read_text("utf-8", errors="replace"))
    except OSError:
        return ""
    if found is None or (url := _URL.match(found[1])) is None:
        return ""
    return f"{url[1].lower()}/{url[2]}"
