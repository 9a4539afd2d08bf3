"""A real HTTP server that speaks `/v1/embeddings`, and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from mnemo_mcp.words import words

Answer = tuple[int, bytes]


class EmbeddingsServer:
    """Texts that share words get vectors near each other. `requests` holds what was asked."""

    def __init__(self, dims: int = 32) -> None:
        self.dims = dims
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Answer] = self.embed
        self.pause = 0.0  # seconds before each answer
        self.refuses_beyond = 1_000_000  # characters
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are written apart

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append({"path": self.path, **body})
                outer.headers.append(dict(self.headers))
                time.sleep(outer.pause)
                status, data = outer.answer(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if status in (301, 302, 307):
                    self.send_header("Location", outer.url + "/elsewhere")
                with suppress(ConnectionError):  # who asked may have gone
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._serving.start()

    @property
    def texts(self) -> list[str]:
        """Every text sent, in order."""
        return [text for request in self.requests for text in request["input"]]

    def embed(self, body: dict[str, Any]) -> Answer:
        if any(len(text) > self.refuses_beyond for text in body["input"]):
            return 400, b'{"error": {"message": "the input is too long for this model"}}'
        rows = [
            {"object": "embedding", "index": at, "embedding": self.vector(text)}
            for at, text in enumerate(body["input"])
        ]
        answer = {"object": "list", "model": body["model"], "data": rows[::-1]}
        return 200, json.dumps(answer).encode()

    def vector(self, text: str) -> list[float]:
        row = np.zeros(self.dims)
        for word in words(text) or ["nothing"]:
            digest = hashlib.sha256(word.encode()).digest()
            row += np.random.default_rng(int.from_bytes(digest[:8])).normal(size=self.dims)
        return [float(part) for part in row]

    def table(self, **more: Any) -> dict[str, Any]:
        """What describes this server in the settings."""
        return {"url": self.url, "model": "words", "dims": self.dims, **more}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()

    def __enter__(self) -> EmbeddingsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
