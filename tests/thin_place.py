"""What the tests of the daemon's clients stand on: an installation of their own and a place to run it in."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fake_daemon import FakeDaemon

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "claude_plugin"
ENVELOPE = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
OPENING = {
    "initialize": {
        "2025-06-18": {"from": "file", "protocolVersion": "2025-06-18"},
        "2025-11-25": {"from": "file", "protocolVersion": "2025-11-25"},
    },
    "discover": {"from": "file", "supportedVersions": ["2026-07-28"]},
    "tools": {"legacy": {"from": "file"}, "modern": {"from": "file", "resultType": "complete"}},
}


def make_installation(folder: Path, *, opening: bool = True, customisation: str = "") -> Path:
    """A virtual environment that holds the clients and, for a daemon, the fake one; its interpreter."""
    base = Path(sys.executable).resolve()
    site = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (site / "mnemo_mcp/daemon").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    shutil.copy(ROOT / "mnemo_mcp/__init__.py", site / "mnemo_mcp")
    shutil.copytree(
        ROOT / "mnemo_mcp/thin",
        site / "mnemo_mcp/thin",
        ignore=shutil.ignore_patterns("__pycache__", "opening.json"),
    )
    if opening:
        (site / "mnemo_mcp/thin/opening.json").write_text(json.dumps(OPENING))
    (site / "mnemo_mcp/daemon/__init__.py").touch()
    fake = ROOT / "tests/fake_daemon.py"
    (site / "mnemo_mcp/daemon/__main__.py").write_text(
        f"import runpy\nrunpy.run_path({str(fake)!r}, run_name='__main__')\n"
    )
    if customisation:
        (site / "sitecustomize.py").write_text(customisation)
    return folder / "bin/python"


@functools.cache
def installation() -> Path:
    """The one installation most tests share."""
    folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_installation(folder / "env")


def scripts_of(python: Path) -> Path:
    """The folder of thin clients of an installation."""
    return next((python.parent.parent / "lib").glob("python*")) / "site-packages/mnemo_mcp/thin"


@dataclass
class Ran:
    """What a process left behind."""

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def silent(self) -> bool:
        return (self.code, self.out, self.err) == (0, b"", b"")


def run(command: Sequence[str | Path], stdin: bytes, environ: Mapping[str, str], **options: Any) -> Ran:
    """Run to the end: also of its output, which a child left behind would keep open."""
    began = time.monotonic()
    done = subprocess.run(
        command, input=stdin, env=environ, capture_output=True, timeout=20, check=False, **options
    )
    return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


class Place:
    """A home with a data folder, where hooks and pipes run and whose daemons end with the test."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mnemo-"))
        self.data = self.home / "data"
        self.python = installation()
        self.environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "MNEMO_HOME": str(self.data)}
        self._daemons: list[FakeDaemon] = []
        self._pipes: list[Client] = []

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.kill()
        for daemon in self._daemons:
            daemon.close()
        for pids in self.home.rglob("pids"):
            for pid in pids.read_text().split():
                end(int(pid))
        shutil.rmtree(self.home, ignore_errors=True)

    def daemon(self, **script: Any) -> FakeDaemon:
        """A daemon in this process."""
        self._daemons.append(FakeDaemon(self.data, **script))
        return self._daemons[-1]

    def script(self, **script: Any) -> None:
        """How a daemon that a client starts is to behave."""
        self.environ["FAKE_DAEMON"] = json.dumps(script)

    def hook(self, moment: str, stdin: bytes, *, client: str = "claude", **options: Any) -> Ran:
        """One hook, as its launcher runs it."""
        hook = scripts_of(self.python) / "hook.py"
        return run([self.python, "-I", "-S", hook, client, moment], stdin, self.environ, **options)

    def pipe(
        self, *, python: Path | None = None, command: Sequence[str | Path] = (), **environ: str
    ) -> Client:
        """One pipe with a client at its end."""
        command = command or [python or self.python, "-I", "-m", "mnemo_mcp.thin.pipe"]
        self._pipes.append(Client(command, self.environ | environ, self.home))
        return self._pipes[-1]

    def pids(self) -> list[int]:
        """The daemons that clients have started here, in order."""
        try:
            return [int(pid) for pid in (self.data / "pids").read_text().split()]
        except FileNotFoundError:
            return []

    def kept(self) -> list[Path]:
        """The payloads in the inbox, in order."""
        return sorted((self.data / "inbox").glob("*"))

    def log(self) -> list[str]:
        """The lines of the hooks' log, wherever it is."""
        files = [self.data / "log/hooks.log", self.home / ".local/state/mnemo/hooks.log"]
        return [line for file in files if file.is_file() for line in file.read_text().splitlines()]


class Client:
    """A client of the stdio pipe."""

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command,
            env=environ,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._rest = b""

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self, seconds: float = 8.0) -> Any:
        """The next message; None at the end of the stream. Fails when neither comes in time."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "no line came in time"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, identity: int | str = 1, **params: Any) -> Any:
        """Send a request and return the next message."""
        self.send(request(method, identity, **params))
        return self.receive()

    def close(self, seconds: float = 5.0) -> tuple[int, list[Any], str]:
        """Close stdin: the exit code, the messages that still came, and what was said on stderr."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        code = self.process.wait(seconds)
        left = []
        while (message := self.receive()) is not None:
            left.append(message)
        return code, left, self.process.stderr.read().decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue


def request(method: str, identity: int | str = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def call(tool: str, identity: int | str, text: str = "") -> dict[str, Any]:
    return request("tools/call", identity, name=tool, arguments=text)


def text_of(message: dict[str, Any]) -> str:
    return str(message["result"]["content"][0]["text"])


def until(condition: Callable[[], Any], seconds: float = 8.0) -> Any:
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
