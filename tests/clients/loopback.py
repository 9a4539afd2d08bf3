"""Local servers that stand in for others: on a free port of 127.0.0.1, quiet, closed with the test."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Json = dict[str, Any]
Answer = TypeVar("Answer")


class Loopback:
    """Serves until closed; the handler of each request finds it as `self.server.stand_in`."""

    def __init__(self, handler: type[Handler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.stand_in = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class Scripted(Loopback, Generic[Answer]):
    """A model. What it is asked is in `requests`; once the script is used up it answers "Done."."""

    def __init__(self, handler: type[Handler]) -> None:
        self.requests: list[Json] = []
        self._script: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        super().__init__(handler)

    def script(self, answers: Sequence[Answer]) -> None:
        """What to answer from here on; forgets what was asked before."""
        with self._lock:
            self._script = deque(answers)
            self.requests = []

    def _next(self) -> Answer | str:
        return self._script.popleft() if self._script else "Done."


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    stand_in: Any


class Handler(BaseHTTPRequestHandler):
    """Reads and writes JSON, and streams events."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def body(self) -> Json:
        found = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(found, dict)
        return found

    def send(self, status: int, value: Any = None, **headers: str) -> None:
        """`headers` by their names with `_` for `-`; without a value the body is empty."""
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        if content:
            self.send_header("content-type", "application/json")
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def stream(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Events as they come, named by their type."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a client may hang up once it has what it wants
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: stderr belongs to the tests."""
