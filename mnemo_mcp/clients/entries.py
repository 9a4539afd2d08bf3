"""What mnemo has in one file of a client: a thing that can be added, found and taken out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mnemo_mcp.clients.doubt import Doubt


@dataclass(frozen=True, slots=True)
class Original:
    """The text of a file before mnemo came (None: there was no file), if that was noted."""

    text: str | None
    known: bool = True

    @property
    def blank(self) -> bool:
        return self.known and not (self.text or "").strip()


class Entries(Protocol):
    """What mnemo has in one file."""

    def holds(self, text: str | None) -> bool:
        """Whether any of it is there."""

    def add(self, text: str | None) -> str:
        """The text with all of it. Raises `Doubt`."""

    def remove(self, text: str | None, original: Original) -> str | None:
        """The text without it: what it was before, if nobody has changed anything else. Raises `Doubt`."""


def verified(entries: Entries, text: str | None, changed: str) -> str:
    """`changed` if nothing but entries of ours tells it from `text`. Raises `Doubt`."""
    before = Original(text)
    if not entries.holds(changed) or entries.remove(changed, before) != entries.remove(text, before):
        raise Doubt("mnemo cannot be put in without touching something else.")
    return changed
