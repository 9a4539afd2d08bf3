"""Trouble of LanceDB's, told apart from faults of ours; a panic in its Rust has a class no import names."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

_RAISED = (RuntimeError, ValueError, OSError)  # all that LanceDB 0.40 raised, whichever file was damaged
_PANICS = ("pyo3_async_runtimes", "pyo3_runtime")  # rows damaged under an open table made it panic


class Translated:
    """Raises what `explained` makes of trouble in its place."""

    def __init__(self, explained: Callable[[BaseException], Exception]) -> None:
        self._explained = explained

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and _is_trouble(error):
            raise self._explained(error) from error


class PassedOver:
    """Lets what follows try again after trouble."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return error is not None and _is_trouble(error)


def _is_trouble(error: BaseException) -> bool:
    return isinstance(error, _RAISED) or type(error).__module__ in _PANICS
