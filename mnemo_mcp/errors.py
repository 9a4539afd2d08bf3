"""One tree of errors. Each says what happened and what the person can do about it."""

from __future__ import annotations


class MnemoError(Exception):
    """Base of everything mnemo raises on purpose.

    `advice` is one sentence on what to do next; `str()` gives both, ready to be shown.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class Refused(MnemoError):
    """The request cannot be carried out as it is; nothing was changed."""


class NotFound(Refused):
    """No memory, episode or entity has this id."""


class StoreError(MnemoError):
    """The store cannot serve at the moment."""


class StoreBusy(StoreError):
    """Somebody else owns the store or holds its lock."""


class StoreDamaged(StoreError):
    """The store's file is not sound; nothing was written to it."""


class StoreTooNew(StoreError):
    """The store was written by a newer version of mnemo; nothing was written to it."""


class LedgerConflict(StoreError):
    """A row with this id exists with other content."""


class ModelError(MnemoError):
    """An encoder or model is missing or does not answer."""


class SettingsError(MnemoError):
    """A setting cannot be used as it is."""


class DaemonUnreachable(MnemoError):
    """No daemon answered in time."""
