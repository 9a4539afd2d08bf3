"""A hub of models on this machine: real HTTP with ranges, and ways to break off or send what is wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HubServer:
    """Serves `files` by path. `seen` holds each request's path and Range."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.seen: list[tuple[str, str]] = []
        self.breaks_after = 0  # bytes of one answer, 0 for all of it
        self.ranges = True
        self.status = 0  # of every answer, 0 for what fits
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range", "")
                outer.seen.append((self.path, asked))
                data = outer.files.get(self.path.partition("/resolve/main/")[2])
                if data is None or outer.status:
                    return self.send_error(outer.status or 404)
                start = int(asked.removeprefix("bytes=").removesuffix("-") or 0) if outer.ranges else 0
                if start and start >= len(data):
                    return self.send_error(416)
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
                self.send_header("Content-Length", str(len(data) - start))
                self.end_headers()
                most = outer.breaks_after or len(data)
                self.wfile.write(data[start : start + most])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._serving.start()

    def table(self, **more: Any) -> dict[str, Any]:
        """What describes the files as a model in the settings."""
        files = [
            {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in self.files.items()
        ]
        return {"repo": "lab/tiny", "revision": "main", "files": files, "path": "onnx/model.onnx", **more}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()

    def __enter__(self) -> HubServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
