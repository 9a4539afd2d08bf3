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


class EndpointError(ModelError):
    """A model behind an address was not asked or gave no usable answer. What follows is told by the class."""

    kind = "trouble"  # as it is kept on disk
    lasting = False  # it stays so until somebody changes the settings or the server
    of_endpoint = True  # every request would meet it, not this one alone
    asked = True  # the server was given work, so that trying again has its price

    def __init__(self, message: str, advice: str = "", retry_seconds: float | None = None) -> None:
        """`retry_seconds` is how long the server wants to be left alone, where it says so."""
        super().__init__(message, advice)
        self.retry_seconds = retry_seconds


class KeyRefused(EndpointError):
    """The server does not accept the key, or wants one (401, 403)."""

    kind, lasting, asked = "key", True, False


class ModelUnknown(EndpointError):
    """The server has no model of this name (404)."""

    kind, lasting, asked = "model", True, False


class RouteUnknown(EndpointError):
    """The server does not know this way of asking (404, 405, 501), or leads elsewhere (3xx)."""

    kind, lasting, asked = "route", True, False


class Unusable(EndpointError):
    """The endpoint cannot be asked as it is set: a key file or a proxy is not usable."""

    kind, lasting, asked = "settings", True, False


class RateLimited(EndpointError):
    """The server wants fewer requests, or its quota is used up (429)."""

    kind, asked = "limit", False


class Unreachable(EndpointError):
    """No server answers at this address."""

    kind, asked = "unreachable", False


class TimedOut(EndpointError):
    """The server took the request and did not answer in time."""

    kind = "slow"


class ServerFailed(EndpointError):
    """The server failed at the request (5xx)."""

    kind = "server"


class RequestRefused(EndpointError):
    """The server does not take this very request (400 and the like); the same one is not sent again."""

    kind, of_endpoint = "request", False


class CutOff(EndpointError):
    """The answer was cut off by the limit of tokens before anything of it was whole."""

    kind, of_endpoint = "cut", False


class NotUnderstood(EndpointError):
    """The answer is empty, or not what was asked for."""

    kind, of_endpoint = "answer", False


class Resting(EndpointError):
    """The endpoint is left alone for a while after failures, or until its settings change."""

    kind, asked = "resting", False


class CeilingReached(EndpointError):
    """The tokens of this day are used up."""

    kind, asked = "ceiling", False


class SettingsError(MnemoError):
    """A setting cannot be used as it is."""
