"""A scripted local stand-in for the Responses API: it keeps what Codex asks and answers from a script."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """An answer that calls a tool. `tokens` is what the model says it has read: enough make Codex compact."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    tokens: int = 100


Answer = str | Call


class FakeResponses:
    """A server on a free port of 127.0.0.1. Once the script is used up the answer is "Done."."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self._script: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, answers: Sequence[Answer]) -> None:
        """What to answer from here on; forgets what was asked before."""
        with self._lock:
            self._script = deque(answers)
            self.requests = []

    def events(self, body: Json) -> Iterator[Json]:
        """The answer to a request, as the API streams it."""
        with self._lock:
            self.requests.append(body)
            answer = self._script.popleft() if self._script else "Done."
            item, number = self._item(answer), next(self._ids)
        tokens = answer.tokens if isinstance(answer, Call) else 100
        response = {
            "id": f"resp_{number:06}",
            "object": "response",
            "created_at": 0,
            "model": body.get("model"),
        }
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 10,
        }
        begun = {**response, "status": "in_progress", "output": []}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.completed", "response": done}

    def _item(self, answer: Answer) -> Json:
        number = next(self._ids)
        if isinstance(answer, str):
            content = [{"type": "output_text", "text": answer, "annotations": []}]
            head = {"type": "message", "id": f"msg_{number:06}", "role": "assistant", "status": "completed"}
            return {**head, "content": content}
        called = {
            "name": answer.tool,
            "call_id": f"call_{number:06}",
            "arguments": json.dumps(dict(answer.input)),
        }
        if answer.namespace:
            called["namespace"] = answer.namespace
        return {"type": "function_call", "id": f"fc_{number:06}", "status": "completed", **called}

    def __enter__(self) -> FakeResponses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: FakeResponses


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/responses"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a client may hang up once it has what it wants
            for event in self.server.model.events(body):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: stderr belongs to the tests."""
