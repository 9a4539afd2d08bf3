"""The instruction files of a project, which an agent is given anyway: what they say is no news."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mnemo_mcp.distil.likeness import content
from mnemo_mcp.settings import expanded

_NAMES = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md")
_OF_PERSON = ("~/.claude/CLAUDE.md", "~/.codex/AGENTS.md", "~/.gemini/GEMINI.md")
_MOST_BYTES = 128 * 1024
_COVERED = 0.85  # of a claim's words in one line of a file


def instruction_lines(folder: str) -> list[str]:
    """The lines of the instruction files that hold in a folder: its own, those above it, the person's."""
    return [line for text in _texts(folder) for line in re.split(r"\n+", text) if line.strip()]


def restates(claim: str, lines: Sequence[str]) -> str:
    """The line of an instruction file that says what a claim says, or ""."""
    words = content(claim)
    for line in lines if words else ():
        if len(words & content(line)) >= _COVERED * len(words):
            return line.strip()
    return ""


def _texts(folder: str) -> Iterator[str]:
    place = Path(folder) if folder.startswith("/") and "\0" not in folder else None
    files = [each / name for each in _up(place) for name in _NAMES] if place else []
    for file in (*files, *map(expanded, _OF_PERSON)):
        try:
            with file.open("rb") as opened:
                yield opened.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            continue


def _up(folder: Path) -> Iterator[Path]:
    """A folder and those above it, up to the checkout it lies in."""
    for place in (folder, *folder.parents):
        yield place
        if (place / ".git").exists():
            return
