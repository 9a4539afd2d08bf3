"""Codex runs a hook only if its person trusts it: which of ours are trusted, and how a person says so."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mnemo_mcp import __version__
from mnemo_mcp.clients import json_text, ours, toml_text
from mnemo_mcp.clients.catalog import Places
from mnemo_mcp.clients.doubt import Doubt
from mnemo_mcp.clients.files import content_of, decoded, resolved
from mnemo_mcp.errors import Refused

_ANSWER_SECONDS = 20.0
_SNAKE = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_prompt_submit",
    "Stop": "stop",
    "SessionEnd": "session_end",
}


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of ours as Codex names it: `key` holds its place in the file, `digest` what it does."""

    key: str
    command: str
    digest: str


def declared(file: Path) -> list[Hook]:
    """Our hooks in a hooks.json. Raises `Refused` where that cannot be read."""
    hooks = _inside(_read(file, lambda text: json_text.parse(text).value), "hooks")
    return [
        Hook(f"{file}:{_SNAKE[event]}:{group}:{place}", handler["command"], _digest(_SNAKE[event], handler))
        for event, groups in hooks.items()
        if event in _SNAKE and isinstance(groups, list)
        for group, place, handler in _handlers(groups)
    ]


def is_plugged(config: Path) -> bool:
    """Whether our plugin is on in this config.toml. Raises `Refused` where that cannot be read."""
    return bool(_inside(_read(config, toml_text.parse), "plugins", "mnemo@mnemo").get("enabled"))


def untrusted(places: Places) -> list[str]:
    """Our hooks that Codex passes over without a word, as problems; [] where it has none of ours."""
    folder = places.moved("CODEX_HOME", ".codex")
    try:
        hooks = declared(folder / "hooks.json")
        document = _read(folder / "config.toml", toml_text.parse)
    except Refused as refused:
        return [str(refused)]
    state = _inside(document, "hooks", "state")
    trusted = {(_place(key), _inside(state, key).get("trusted_hash")) for key in state}
    off = [hook for hook in hooks if (_place(hook.key), hook.digest) not in trusted]
    if not off:
        return []
    return [
        f"Codex does not run {len(off)} of mnemo's {len(hooks)} hooks: they are declared, but you have not"
        " trusted them yet. Start `codex` and choose to trust them (or type /hooks there), or run"
        " `mnemo install codex --trust-hooks`."
    ]


def _place(key: str) -> str:
    """A key without the folder, which Codex may know by another name."""
    return key.rpartition("/")[2]


def asked(places: Places, file: Path) -> Mapping[str, str]:
    """From Codex itself: key and hash of each hook of ours in `file`. Raises `Refused` without a Codex."""
    program = places.has("codex")
    if program is None:
        raise Refused(
            "`codex` is not on PATH, so its hooks cannot be trusted from here.",
            "Start Codex and trust them there.",
        )
    known = {hook.key for hook in declared(file)}
    with AppServer(program, places) as server:
        listed = server.call("hooks/list", {"cwds": [str(places.home)]})
    try:
        hooks = [each for entry in listed["data"] for each in entry["hooks"] if ours.is_hook(each)]
        found = {str(each["key"]): str(each["currentHash"]) for each in hooks if _is_in(each, file, known)}
    except (KeyError, TypeError, AttributeError):
        raise _silent() from None
    if not found:
        raise Refused(f"Codex does not see the hooks in {file}.", "Start Codex and look at /hooks there.")
    return found


def _is_in(hook: Mapping[str, Any], file: Path, known: Container[str]) -> bool:
    return hook["key"] in known or resolved(Path(hook["sourcePath"])) == resolved(file)


class AppServer:
    """Codex's own server for other programs, over lines of JSON."""

    def __init__(self, program: str, places: Places) -> None:
        self._process = subprocess.Popen(
            [program, "app-server"],
            env=dict(places.environ),
            cwd=places.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._rest = b""
        self._number = 0

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request. Raises `Refused`."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            message = self._message(deadline)
            if message.get("id") == self._number and "method" not in message:
                break
        if not isinstance(message.get("result"), dict):
            raise Refused(f"Codex refused {method}.", "Start Codex and trust the hooks there.")
        return dict(message["result"])

    def _message(self, deadline: float) -> dict[str, Any]:
        try:
            message = json.loads(self._line(deadline))
        except ValueError:
            raise _silent() from None
        return message if isinstance(message, dict) else {}

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise _silent() from None

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise _silent()
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise _silent()
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def __enter__(self) -> Self:
        try:
            self.call("initialize", {"clientInfo": {"name": "mnemo", "version": __version__}})
            self._send({"method": "initialized"})
        except Refused:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._process.terminate()
        self._process.wait()


def _silent() -> Refused:
    return Refused("Codex does not answer as it should.", "Start Codex and trust the hooks there.")


def _inside(value: Any, *path: str) -> Mapping[str, Any]:
    """The table at a path, {} where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _read(file: Path, parse: Callable[[str], Any]) -> Any:
    """What a file holds, {} for none or a blank one. Raises `Refused`."""
    try:
        text = decoded(content_of(file))[0]
        return parse(text) if text and text.strip() else {}
    except Doubt as doubt:
        where = f", line {doubt.line}" if doubt.line else ""
        raise Refused(f"{file}{where}: {doubt.message}", doubt.advice) from None


def _handlers(groups: list[Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    for group, each in enumerate(groups):
        handlers = each.get("hooks") if isinstance(each, Mapping) else None
        for place, handler in enumerate(handlers if isinstance(handlers, list) else []):
            if ours.is_hook(handler):
                yield group, place, handler


def _digest(event: str, handler: Mapping[str, Any]) -> str:
    """What Codex (0.171.0) takes of a handler that has neither a matcher nor a message."""
    told = {name: handler.get(name) for name in ("command", "timeout", "type")}
    body = {"event_name": event, "hooks": [{"async": bool(handler.get("async")), **told}]}
    compact = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"
