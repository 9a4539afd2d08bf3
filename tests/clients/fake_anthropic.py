"""A scripted local stand-in for the Messages API: it keeps what clients ask and answers from a script.

Enough for a real client to hold whole sessions without a network: text and tool calls, streamed or not.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """An answer that calls a tool, named by the end of its name."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)


Answer = str | Call


class FakeAnthropic:
    """A server on a free port of 127.0.0.1. What it is asked is in `requests` and, line by line, in `log`.

    A request that offers tools is the conversation itself and takes the next answer of the script; any other
    is a side errand (a title, a check) and gets `aside`. Once the script is used up the answer is "Done.".
    """

    aside = '{"title": "A session"}'

    def __init__(self, log: Path) -> None:
        self.requests: list[Json] = []
        self._log = log
        self._script: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(self, answers: Sequence[Answer]) -> None:
        """What to answer from here on; forgets what was asked before."""
        with self._lock:
            self._script = deque(answers)
            self.requests = []

    def message(self, body: Json) -> Json:
        """The whole answer to a request."""
        with self._lock:
            self._keep(body)
            content, stop = self._content(body)
        usage = {
            "input_tokens": len(json.dumps(body)) // 4,
            "output_tokens": len(json.dumps(content)) // 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        return {
            "id": f"msg_{next(self._ids):08}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def _keep(self, body: Json) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(body) + "\n")
        if body.get("tools"):
            self.requests.append(body)

    def _content(self, body: Json) -> tuple[list[Json], str]:
        if not body.get("tools"):
            return [{"type": "text", "text": self.aside}], "end_turn"
        answer = self._script.popleft() if self._script else "Done."
        if isinstance(answer, str):
            return [{"type": "text", "text": answer}], "end_turn"
        name = next(each["name"] for each in body["tools"] if each["name"].endswith(answer.tool))
        call = {
            "type": "tool_use",
            "id": f"toolu_{next(self._ids):08}",
            "name": name,
            "input": dict(answer.input),
        }
        return [call], "tool_use"

    def __enter__(self) -> FakeAnthropic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def text_of(content: Any) -> str:
    """All the text of a message's content, tool results included."""
    if isinstance(content, str):
        return content
    parts = [block.get("text") or text_of(block.get("content")) for block in content or []]
    return "\n".join(part for part in parts if part)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: FakeAnthropic


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._send({"input_tokens": len(json.dumps(body)) // 4})
        elif path != "/v1/messages":
            self._send({"type": "error", "error": {"type": "not_found_error", "message": "not here"}}, 404)
        elif body.get("stream"):
            self._stream(self.server.model.message(body))
        else:
            self._send(self.server.model.message(body))

    def do_HEAD(self) -> None:
        self._send({})

    do_GET = do_HEAD

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: stderr belongs to the tests."""

    def _send(self, value: Json, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, message: Json) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a client may hang up once it has what it wants
            for event in _events(message):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def _events(message: Json) -> Iterator[Json]:
    """A message as the API streams it: an empty one, its blocks piece by piece, its end."""
    usage = {**message["usage"], "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None, "usage": usage},
    }
    for index, block in enumerate(message["content"]):
        empty, delta = _in_pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _in_pieces(block: Json) -> tuple[Json, Json]:
    """A block as it begins, and what is then added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    pieces = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": pieces}
