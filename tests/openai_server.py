"""A model's server for tests: speaks the OpenAI protocol over real HTTP, and answers as a test tells it.

    with ModelServer(lambda request: says('{"memories": []}')) as server:
        ... server.url goes into the settings ...
        assert server.asked("/chat/completions")[0].text ...

`answer` is a function from a `Request` to a `Reply`; `in_turn(a, b)` makes one that gives each reply once
and the last one from then on. Routes nobody answers for are 404, as on real servers.
"""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MODEL = "test-model"


@dataclass(frozen=True)
class Request:
    """One request as it arrived. `path` is without the /v1."""

    method: str
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The contents of the messages, one after the other."""
        return "\n".join(each["content"] for each in self.body.get("messages", ()))


@dataclass(frozen=True)
class Reply:
    """What the server sends: `body` as JSON, or bytes as they are. `endless` repeats the bytes for ever.

    With `hang` nothing is sent until the server ends; with `gate` nothing until the gate is opened.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    gate: threading.Event | None = None
    endless: bool = False


Answer = Callable[[Request], Reply]


def says(text: str | None, finish: str = "stop", usage: tuple[int, int] | None = (100, 20)) -> Reply:
    """A completion with this text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return Reply(_with_usage({"id": "c", "model": MODEL, "choices": [choice]}, usage))


def token(shares: Mapping[str, float], usage: tuple[int, int] | None = (100, 1)) -> Reply:
    """A completion of one token, with the probabilities of those it could have been."""
    tops = [{"token": each, "logprob": math.log(share)} for each, share in shares.items()]
    best = max(shares, key=lambda each: shares[each])
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": best},
        "finish_reason": "length",
        "logprobs": {"content": [{"token": best, "logprob": math.log(shares[best]), "top_logprobs": tops}]},
    }
    return Reply(_with_usage({"id": "c", "model": MODEL, "choices": [choice]}, usage))


def decided(request: Request, shares: Mapping[str, Any], usage: tuple[int, int] | None = (100, 5)) -> Reply:
    """The answer of `/decisions` or `/systemone`, whichever was asked.

    `shares` gives by question's name a probability, a table of probabilities, or None for a refusal.
    """
    if request.path == "/decisions":
        answers: Any = [_openai_answer(each, shares[each["name"]]) for each in request.body["questions"]]
    else:
        answers = {name: _systemone_answer(shares[name]) for name in request.body["questions"]}
    return Reply(_with_usage({"model": MODEL, "answers": answers}, usage))


def fails(status: int, message: str = "", code: str = "", **headers: str) -> Reply:
    """A refusal in the form of the OpenAI protocol; `retry_after="120"` becomes that header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"error": {"message": message, "code": code}}, status, named)


def in_turn(*replies: Reply) -> Answer:
    """Each reply once, then the last one for ever."""
    left, lock = list(replies), threading.Lock()

    def answer(request: Request) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


class ModelServer:
    """The server, listening on a port of this machine while the context is open.

    It answers `/models` by itself, and `/decisions` and `/systemone` only where `routes` name them.
    """

    def __init__(
        self,
        answer: Answer,
        routes: tuple[str, ...] = ("/chat/completions",),
        models: tuple[str, ...] = (MODEL,),
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.routes = routes
        self.models = models
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def asked(self, path: str = "/chat/completions") -> list[Request]:
        """The requests of one route, in order."""
        return [each for each in self.requests if each.path == path]

    def settings(self, **more: Any) -> dict[str, Any]:
        """The table of an endpoint in config.toml that leads here."""
        return {"url": self.url, "model": MODEL, **more}

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.path == "/models":
            return Reply({"object": "list", "data": [{"id": each} for each in self.models]})
        if request.path not in self.routes:
            return Reply({"detail": "Not Found"}, 404)
        return self.answer(request)

    def pieces(self, reply: Reply, data: bytes) -> Iterator[bytes]:
        yield data
        while reply.endless and not self._closing.is_set():
            yield data

    def wait(self, reply: Reply) -> None:
        if reply.gate is not None:
            while not reply.gate.wait(0.02) and not self._closing.is_set():
                pass
        if reply.hang:
            self._closing.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        for each in self.connections:
            with suppress(OSError):  # closed by the other side
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes: the second waited 40 ms

        def setup(self) -> None:
            super().setup()
            server.connections.append(self.connection)

        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _serve(self, body: Mapping[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Request(self.command, self.path.removeprefix("/v1"), body, headers))
            server.wait(reply)
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self._send(reply, data)
            except OSError:
                self.close_connection = True  # whoever asked is gone

        def _send(self, reply: Reply, data: bytes) -> None:
            self.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            if reply.endless:
                self.close_connection = True
            else:
                self.send_header("content-length", str(len(data)))
            self.end_headers()
            for piece in server.pieces(reply, data):
                self.wfile.write(piece)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return Handler


def _with_usage(body: dict[str, Any], usage: tuple[int, int] | None) -> dict[str, Any]:
    if usage is None:
        return body
    tokens_in, tokens_out = usage
    return {**body, "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}}


def _openai_answer(question: Mapping[str, Any], share: Any) -> dict[str, Any]:
    name = question["name"]
    if share is None:
        return {"type": "refusal", "name": name}
    if question["type"] == "predicate":
        return {"type": "predicate", "name": name, "probability": share}
    pairs = [{"value": value, "probability": each} for value, each in share.items()]
    best = max(share, key=lambda each: share[each])
    return {
        "type": "choice",
        "name": name,
        "choice": best,
        "confidence": share[best],
        "probabilities": pairs,
    }


def _systemone_answer(share: Any) -> dict[str, Any]:
    if share is None:
        return {"type": "refusal"}
    if not isinstance(share, Mapping):
        return {"type": "noul", "noul": share}
    best = max(share, key=lambda each: share[each])
    return {"type": "choice", "choice": best, "confidence": share[best], "probabilities": dict(share)}
