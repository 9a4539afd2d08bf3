"""The inbox: payloads that hooks left as files because no daemon took them in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mnemo_mcp.thin.inbox import read_name

_SET_ASIDE = ".refused"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One payload left behind, and when its hook received it (nanoseconds since 1970)."""

    path: Path
    received_ns: int
    client: str
    moment: str
    profile: str

    def read(self) -> bytes:
        return self.path.read_bytes()

    def done(self) -> None:
        self.path.unlink(missing_ok=True)

    def set_aside(self) -> None:
        """Keep what cannot be taken in as it is, without trying it again."""
        self.path.rename(f"{self.path}{_SET_ASIDE}")


def waiting(folder: Path) -> Iterator[Waiting]:
    """What waits in the inbox, oldest first. Files that no hook of ours has written are left alone."""
    for path in sorted(folder.glob("*.json")):
        if name := read_name(path.name):
            yield Waiting(path, *name)


def problems(folder: Path) -> list[str]:
    """What could not be taken in, in words."""
    count = len([*folder.glob(f"*{_SET_ASIDE}")])
    return [f"{count} payloads of hooks were refused and lie in {folder}."] if count else []
