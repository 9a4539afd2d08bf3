"""The product as its users meet it: commands, hooks and stdio servers over one throw-away data folder."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from mnemo_mcp.thin import link

ROOT = Path(__file__).resolve().parent.parent
HOOK = ROOT / "mnemo_mcp/thin/hook.py"
PLUGIN = ROOT / "claude_plugin"
EVENTS = {
    "session-open": "SessionStart",
    "pre-message": "UserPromptSubmit",
    "turn-end": "Stop",
    "session-end": "SessionEnd",
}


class Product:
    """One person's mnemo. Every process it starts is gone when it is closed."""

    def __init__(self, home: Path, **environ: str) -> None:
        self.home = home
        self.data = home / "data"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MNEMO", "CLAUDE", "XDG", "PYTHON"))
        }
        self.environ = {**kept, "HOME": str(home), "MNEMO_HOME": str(self.data), **environ}
        self.stdio_command = [sys.executable, "-m", "mnemo_mcp.cli", "mcp"]
        self._servers: list[Stdio] = []
        self._daemons: list[subprocess.Popen[str]] = []

    # commands

    def run(self, *arguments: str, given: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "mnemo_mcp.cli", *arguments],
            input=given,
            timeout=120,
            capture_output=True,
            env={**self.environ, **environ},
            cwd=ROOT,
        )

    def json(self, *arguments: str, **environ: str) -> dict[str, Any]:
        """What a command that succeeds prints with --json."""
        done = self.run(*arguments, "--json", **environ)
        assert done.returncode == 0, done.stderr.decode()
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    def ask(self, verb: str, **given: Any) -> dict[str, Any]:
        """What the daemon that runs answers to a verb, asked without a process in between."""
        path, body = f"/api/{verb}", json.dumps(given).encode()
        status, answer = link.request(str(self.data), path, body, time.monotonic() + 30, start=False)
        assert status == 200, answer
        return dict(json.loads(answer))

    def remember(self, what: str, **more: Any) -> dict[str, Any]:
        done = self.run("remember", "--json", json.dumps({"what": what, **more}))
        assert done.returncode == 0, done.stderr.decode()
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    def recall(self, question: str, *arguments: str) -> list[dict[str, Any]]:
        """The memories recalled, best first."""
        memories = self.json("recall", question, *arguments)["memories"]
        assert isinstance(memories, list)
        return memories

    # hooks

    def hook_raw(
        self, moment: str, payload: bytes, client: str = "claude", **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-I", "-S", str(HOOK), client, moment]
        return subprocess.run(
            command, input=payload, capture_output=True, timeout=60, env={**self.environ, **environ}
        )

    def hook(self, moment: str, *, session: str = "s-1", cwd: str = "/home/dev/atlas", **fields: Any) -> str:
        """The context a hook injects for a payload, "" for none; it always ends well and quietly."""
        payload = {"session_id": session, "cwd": cwd, "hook_event_name": EVENTS[moment], **fields}
        done = self.hook_raw(moment, json.dumps(payload).encode())
        assert done.returncode == 0
        assert done.stderr == b""
        return injected(done.stdout)

    def shell(
        self, moment: str, payload: bytes, *, plugin: Path = PLUGIN, cwd: Path = ROOT, **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """A hook as Claude Code runs it: the plugin's command, in /bin/sh."""
        command = ["/bin/sh", "-c", command_of(moment, plugin)]
        return subprocess.run(
            command, input=payload, capture_output=True, timeout=60, cwd=cwd, env={**self.environ, **environ}
        )

    def episodes(self, session: str | None = None) -> list[dict[str, Any]]:
        """What is stored on disk, of one session or of all, in order."""
        with closing(sqlite3.connect(f"file:{self.data}/mnemo.db?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute("SELECT * FROM episodes ORDER BY seq").fetchall()
        return [dict(row) for row in rows if session in (None, row["session"])]

    def log(self) -> list[str]:
        """The lines of the hooks' log, wherever it is."""
        files = [self.data / "log/hooks.log", self.home / ".local/state/mnemo/hooks.log"]
        return [line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()]

    # servers

    def stdio(self, **environ: str) -> Stdio:
        server = Stdio(self.stdio_command, {**self.environ, **environ})
        self._servers.append(server)
        return server

    def http(self, *options: str) -> str:
        """Serve MCP over HTTP as well, from a daemon in the foreground; its address."""
        command = [sys.executable, "-m", "mnemo_mcp.cli", "serve", "--http", "127.0.0.1:0", *options]
        daemon = subprocess.Popen(command, stderr=subprocess.PIPE, env=self.environ, cwd=ROOT, text=True)
        self._daemons.append(daemon)
        assert daemon.stderr
        for line in daemon.stderr:
            if found := re.search(r"http://\S+/mcp", line):
                return found[0]
        raise AssertionError("it does not serve")

    def pid(self) -> int:
        return int(self.json("status")["pid"])

    def kill(self) -> None:
        """SIGKILL the daemon."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))

    def settled(self) -> dict[str, Any]:
        """The status once encoders are loaded and nothing waits to be embedded or carried."""
        found: dict[str, Any] = {}

        def quiet() -> bool:
            found.update(self.json("status"))
            return len(found["encoders"]) == 2 and not found["queue"]["embed"] and not found["queue"]["relay"]

        until(quiet, 120)
        return found

    def close(self) -> None:
        for server in self._servers:
            server.end()
        self.run("stop")
        for daemon in self._daemons:
            daemon.communicate(timeout=30)
            assert daemon.returncode == 0

    def __enter__(self) -> Product:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stdio:
    """A stdio MCP client that speaks plain JSON lines."""

    def __init__(self, command: list[str], environ: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            cwd=ROOT,
        )
        self._number = 0
        self._buffer = b""

    def send(self, method: str, params: Any = None, *, notify: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not notify:
            self._number += 1
            message["id"] = self._number
        self.write(json.dumps(message).encode() + b"\n")
        return self._number

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def read(self, seconds: float = 30) -> dict[str, Any]:
        """The next message; fails when none comes in time."""
        assert self.process.stdout
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, "no answer in time"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, "the server closed its output"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def answer(self, number: int, seconds: float = 30) -> dict[str, Any]:
        """The answer to a request; messages of other kinds are passed over."""
        while True:
            message = self.read(seconds)
            if message.get("id") == number and "method" not in message:
                return message

    def open(self) -> dict[str, Any]:
        """The handshake of the older era; its result."""
        number = self.send(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        result = self.answer(number)["result"]
        self.send("notifications/initialized", notify=True)
        return dict(result)

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether a tool call went well, and its text."""
        result = self.answer(self.send("tools/call", {"name": tool, "arguments": arguments}))["result"]
        return not result.get("isError", False), result["content"][0]["text"]

    def end(self) -> None:
        if self.process.poll() is None:
            if self.process.stdin:
                self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def command_of(moment: str, plugin: Path = PLUGIN) -> str:
    """The shell command of a hook in the plugin, its one placeholder replaced."""
    hooks = json.loads((plugin / "hooks/hooks.json").read_text("utf-8"))["hooks"]
    command = hooks[EVENTS[moment]][0]["hooks"][0]["command"]
    return str(command).replace("${CLAUDE_PLUGIN_ROOT}", str(plugin))


def injected(stdout: bytes) -> str:
    """The context in a hook's output; the output is nothing at all or exactly the one accepted shape."""
    if not stdout:
        return ""
    given = json.loads(stdout)
    assert list(given) == ["hookSpecificOutput"]
    assert set(given["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    text = given["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    return text


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition, at most so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether any thread of a process runs (a dead one that nobody has collected yet does not)."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return any(map(_runs, Path(f"/proc/{pid}/task").iterdir()))
    return False


def _runs(task: Path) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return "\nState:\tZ" not in (task / "status").read_text()
    return False
