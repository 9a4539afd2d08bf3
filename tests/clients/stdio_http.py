"""Puts a stdio server behind streamable HTTP on loopback, for suites that speak nothing else.

Messages pass unread but for their ids. A session of the handshake era has a process of its own, and so has
each request of the newer era, which knows no sessions.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from types import TracebackType

from loopback import Handler, Json, Loopback
from product import Stdio


class Bridge(Loopback):
    """Serves at `url` until closed; `start` starts one server process."""

    def __init__(self, start: Callable[[], Stdio]) -> None:
        self._start = start
        self._sessions: dict[str, tuple[Stdio, threading.Lock]] = {}
        self._numbers = itertools.count(1)
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    def begin(self) -> str:
        name = f"session-{next(self._numbers)}"
        self._sessions[name] = self._start(), threading.Lock()
        return name

    def knows(self, name: str) -> bool:
        return name in self._sessions

    def exchange(self, name: str, message: Json) -> Json | None:
        """The answer to a message of a session, "" for one of none; None where there is no answer."""
        if not name:
            server = self._start()
            answer = _exchange(server, message)
            server.end()
            return answer
        server, turn = self._sessions[name]
        with turn:
            return _exchange(server, message)

    def end(self, name: str) -> None:
        server, _ = self._sessions.pop(name)
        server.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        for name in list(self._sessions):
            self.end(name)


def _exchange(server: Stdio, message: Json) -> Json | None:
    server.write(json.dumps(message).encode() + b"\n")
    return server.answer(message["id"]) if "id" in message and "method" in message else None


class _Handler(Handler):
    def do_POST(self) -> None:
        message, bridge = self.body(), self.server.stand_in
        name = self.headers.get("mcp-session-id", "")
        if message.get("method") == "initialize" and "_meta" not in message.get("params", {}):
            name = bridge.begin()
        if name and not bridge.knows(name):
            self.send(404)
            return
        answer = bridge.exchange(name, message)
        named = {"mcp_session_id": name} if name else {}
        self.send(202 if answer is None else 200, answer, **named)

    def do_DELETE(self) -> None:
        self.server.stand_in.end(self.headers["mcp-session-id"])
        self.send(200)

    def do_GET(self) -> None:
        self.send(405)
