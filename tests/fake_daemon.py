"""A scripted daemon: listens where the real one would and answers as a test wants it.

In a test's own process it is a `FakeDaemon`; run as a program it is what `-m mnemo_mcp.daemon` starts in the
installation of `test_thin.py`, told by the variable FAKE_DAEMON (JSON) how to behave.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO


@dataclass
class Request:
    """One HTTP request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Session:
    """One MCP connection: its first line and every message after it."""

    hello: dict[str, Any]
    connection: socket.socket
    messages: list[dict[str, Any]] = field(default_factory=list)

    def methods(self) -> list[str]:
        return [message.get("method", "") for message in self.messages]


class FakeDaemon:
    """Listens on the socket of a data folder until closed.

    `manner` is what becomes of a hook's request: answer, hang, drop (close at once), cut (half an answer)
    or endless (an answer that does not say how long it is); `drops` is how many are dropped first.
    """

    def __init__(
        self,
        data: Path,
        *,
        answer: bytes = b"",
        status: int = 200,
        manner: str = "answer",
        drops: int = 0,
        ready_after: float = 0.0,
        dies: bool = False,
    ) -> None:
        self.answer, self.status, self.manner, self.drops = answer, status, manner, drops
        self.ready_after, self.dies = ready_after, dies
        self.requests: list[Request] = []
        self.sessions: list[Session] = []
        run = data / "run"
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        (run / "mnemo.sock").unlink(missing_ok=True)
        self._ended = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(run)
        self._listener.bind("mnemo.sock")
        os.chdir(here)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and break every session, as a daemon that ends does."""
        _shut(self._listener)
        for session in self.sessions:
            _shut(session.connection)
        self._ended.set()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            first = stream.readline()
            if first.startswith(b"{"):
                self._serve_mcp(Session(json.loads(first), connection), stream)
            elif first:
                self._serve_http(connection, first, stream)
        except OSError:
            return  # the other side has gone
        finally:
            if self.manner != "hang":
                _shut(connection)

    def _serve_http(self, connection: socket.socket, first: bytes, stream: BinaryIO) -> None:
        headers = {}
        while line := stream.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        body = stream.read(int(headers["content-length"]))
        self.requests.append(Request(first.decode().split()[1], headers, body))
        if self.drops:
            self.drops -= 1
            return
        head = f"HTTP/1.1 {self.status} Whatever\r\nContent-Length: {len(self.answer)}\r\n\r\n".encode()
        if self.manner == "answer":
            connection.sendall(head + self.answer)
        elif self.manner == "cut":
            connection.sendall(head + self.answer[:-1])
        elif self.manner == "endless":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + self.answer)

    def _serve_mcp(self, session: Session, stream: BinaryIO) -> None:
        self.sessions.append(session)
        time.sleep(self.ready_after)
        session.connection.sendall(b'{"ready": true}\n')
        for line in stream:
            message = json.loads(line)
            session.messages.append(message)
            for answer in self._answers(message):
                session.connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answers(self, message: dict[str, Any]) -> list[Any]:
        identity, method = message.get("id"), message.get("method")
        given = message.get("params")
        params = given if isinstance(given, dict) else {}
        if params.get("name") == "never":
            return []
        if method == "tools/call":
            return self._called(identity, params.get("name"), params.get("arguments"))
        if method == "subscriptions/listen":
            return [{"jsonrpc": "2.0", "method": "notifications/acknowledged"}]
        if method is None:  # what the client answered to a question of ours
            return [{"jsonrpc": "2.0", "id": "ask", "result": message["result"]}]
        if identity is None:
            return []
        return [{"jsonrpc": "2.0", "id": identity, "result": {"from": "daemon", "params": params}}]

    def _called(self, identity: Any, name: Any, arguments: Any) -> list[Any]:
        content = [{"type": "text", "text": arguments}]
        done = {"jsonrpc": "2.0", "id": identity, "result": {"content": content}}
        if name == "stall":
            self._ended.wait(20)
        if name == "slow":
            time.sleep(0.5)
        if name == "die":
            if self.dies:
                os._exit(1)
            self.close()
        if name == "progress":
            return [{"jsonrpc": "2.0", "method": "notifications/progress"}, done]
        if name == "ask":
            return [{"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"}]
        if name == "babble":
            return [["no object"], done]
        return [done]


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def main() -> None:
    """Be the daemon of MNEMO_HOME, unless another one is, until a test has had time enough."""
    script = json.loads(os.environ.get("FAKE_DAEMON", "{}"))
    time.sleep(script.pop("start_after", 0.0))
    if code := script.pop("exit", 0):
        sys.exit(code)
    data = Path(os.environ["MNEMO_HOME"])
    if not data.parent.is_dir():
        sys.exit(0)  # the test is over
    data.mkdir(mode=0o700, exist_ok=True)
    lock = (data / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(0)
    with (data / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    (data / "environment.json").write_text(json.dumps(dict(os.environ)))
    streams = [os.fstat(descriptor).st_rdev for descriptor in (0, 1, 2)]
    (data / "streams.json").write_text(json.dumps(streams))
    FakeDaemon(data, answer=script.pop("answer", "").encode(), dies=True, **script)
    time.sleep(30)


if __name__ == "__main__":
    main()
