"""Puts a stdio server behind streamable HTTP on loopback, for suites that speak nothing else.

Messages pass unread but for their ids. A session of the handshake era has a process of its own, and so has
each request of the newer era, which knows no sessions.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from product import Stdio

Json = dict[str, Any]


class Bridge:
    """Serves at `url` until closed; `start` starts one server process."""

    def __init__(self, start: Callable[[], Stdio]) -> None:
        self._start = start
        self._sessions: dict[str, tuple[Stdio, threading.Lock]] = {}
        self._numbers = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.bridge = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

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

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for name in list(self._sessions):
            self.end(name)


def _exchange(server: Stdio, message: Json) -> Json | None:
    server.write(json.dumps(message).encode() + b"\n")
    return server.answer(message["id"]) if "id" in message and "method" in message else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    bridge: Bridge


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        message, bridge = self._body(), self.server.bridge
        name = self.headers.get("mcp-session-id", "")
        if message.get("method") == "initialize" and "_meta" not in message.get("params", {}):
            name = bridge.begin()
        if name and not bridge.knows(name):
            self._reply(404)
            return
        answer = bridge.exchange(name, message)
        self._reply(202 if answer is None else 200, answer, name)

    def do_DELETE(self) -> None:
        self.server.bridge.end(self.headers["mcp-session-id"])
        self._reply(200)

    def do_GET(self) -> None:
        self._reply(405)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: stderr belongs to the tests."""

    def _body(self) -> Json:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(message, dict)
        return message

    def _reply(self, status: int, answer: Json | None = None, session: str = "") -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        if content:
            self.send_header("content-type", "application/json")
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(content)
