"""The daemon's hold on its service: opened at once where the store allows it, else tried again when asked."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import Any

from mnemo_mcp.daemon.unserved import unserved
from mnemo_mcp.errors import MnemoError
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

_log = logging.getLogger("mnemo")


class Resident:
    """One service for all doors. A store that cannot be opened is told of in every answer, never replaced."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._service: Service | None = None
        self._told = ""
        self._lock = threading.Lock()
        self.loader: threading.Thread | None = None
        self.trouble = ""  # what background work last failed at
        self.hooked_at = float("-inf")  # when a hook last called, by the monotonic clock

    def service(self) -> Service:
        """The open service. Raises what keeps the store from being opened."""
        with self._lock:
            if self._service is None:
                self._service = self._open()
            return self._service

    def status(self) -> Mapping[str, Any]:
        """The service's status, or what keeps it from working; never raises."""
        pid, home = os.getpid(), str(self._settings.home)
        try:
            status = {**self.service().status(), "pid": pid, "home": home}
            trouble = [f"Background work: {self.trouble}"] if self.trouble else []
            return {**status, "problems": [*status["problems"], *trouble]}
        except MnemoError as error:
            return unserved(str(error), home, pid)

    def close(self) -> None:
        with self._lock:
            if self._service is not None:
                self._service.close()

    def _open(self) -> Service:
        try:
            service = Service(self._settings, background=True, owned=True)
        except MnemoError as error:
            if str(error) != self._told:  # once a cause, not once a request
                self._told = str(error)
                _log.error("the store cannot be opened: %s", error)
            raise
        self.loader = threading.Thread(target=service.load, name="encoders", daemon=True)
        self.loader.start()
        return service
