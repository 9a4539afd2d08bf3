"""The clients mnemo knows: where their settings lie, and how an MCP server looks in them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemo_mcp.clients.entries import Entries
from mnemo_mcp.clients.json_entries import JsonHooks, JsonServers
from mnemo_mcp.clients.launcher import Launcher
from mnemo_mcp.clients.toml_entries import TomlServer
from mnemo_mcp.settings import expanded

_EVENTS = {
    "SessionStart": "session-open",
    "UserPromptSubmit": "pre-message",
    "Stop": "turn-end",
    "SessionEnd": "session-end",
}
# A hook of ours is done within 2.5 s; the clients' limits only catch what cannot be. Codex gives the end of a
# session 3 s at most (0.171.0), and binds its trust to every figure here.
_HOOK_SECONDS = 5
_LAST_HOOK_SECONDS = 3
# Codex's servers get few variables of the person's: these say which memory is meant.
_VARIABLES = ["MNEMO_HOME", "MNEMO_PROFILE", "XDG_DATA_HOME"]


@dataclass(frozen=True, slots=True)
class Places:
    """One person's folders."""

    home: Path = field(default_factory=lambda: expanded("~"))
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    macos: bool = sys.platform == "darwin"

    def config(self) -> Path:
        """Where programs keep settings."""
        chosen = self.environ.get("XDG_CONFIG_HOME", "")
        return Path(chosen) if chosen.startswith("/") else self.home / ".config"

    def application(self) -> Path:
        """Where desktop programs keep settings."""
        return self.home / "Library/Application Support" if self.macos else self.config()

    def moved(self, variable: str, usual: str) -> Path:
        """A folder in the home that a variable may move."""
        return Path(self.environ.get(variable) or self.home / usual)

    def has(self, program: str) -> str | None:
        return shutil.which(program, path=self.environ.get("PATH"))


@dataclass(frozen=True, slots=True)
class Part:
    """What mnemo has in one file of a client."""

    path: Path
    entries: Entries


@dataclass(frozen=True, slots=True)
class Client:
    """One client. `folder` shows that it is in use here; `parts` are written in their order."""

    name: str
    title: str
    program: str
    folder: Callable[[Places], Path]
    parts: Callable[[Places, Launcher], Sequence[Part]]
    hooks: bool = False

    def is_here(self, places: Places) -> bool:
        return bool(self.program and places.has(self.program)) or self.folder(places).is_dir()


def _claude(places: Places, launcher: Launcher) -> Sequence[Part]:
    folder = places.moved("CLAUDE_CONFIG_DIR", ".claude")
    state = folder if "CLAUDE_CONFIG_DIR" in places.environ else places.home
    entry = {**_stdio(launcher.server), "alwaysLoad": True}
    return (
        Part(state / ".claude.json", JsonServers(("mcpServers",), entry)),
        Part(folder / "settings.json", JsonHooks(_handlers("claude", launcher))),
    )


def _codex(places: Places, launcher: Launcher) -> Sequence[Part]:
    folder = places.moved("CODEX_HOME", ".codex")
    entry = {
        **_plain(launcher.server),
        "env_vars": _VARIABLES,
        "startup_timeout_sec": 20,
        "tool_timeout_sec": 60,
    }
    return (
        Part(folder / "config.toml", TomlServer(entry)),
        Part(folder / "hooks.json", JsonHooks(_handlers("codex", launcher))),
    )


def _handlers(client: str, launcher: Launcher) -> dict[str, dict[str, Any]]:
    """Codex binds a person's trust to each of these words and figures: they never change."""
    return {
        event: {
            "type": "command",
            "command": launcher.hook(client, moment),
            "timeout": _LAST_HOOK_SECONDS if moment == "session-end" else _HOOK_SECONDS,
        }
        for event, moment in _EVENTS.items()
    }


def _plain(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _stdio(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _zed(command: Sequence[str]) -> dict[str, Any]:
    return {"source": "custom", **_plain(command), "env": {}}


def _opencode(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(command), "enabled": True}


def _listed(
    files: Callable[[Places], Sequence[Path]],
    *path: str,
    entry: Callable[[Sequence[str]], dict[str, Any]] = _plain,
    comments: bool = False,
) -> Callable[[Places, Launcher], Sequence[Part]]:
    """Of a client with one JSON file for its servers: the first of `files` that is there, else the first."""

    def parts(places: Places, launcher: Launcher) -> Sequence[Part]:
        found = files(places)
        file = next((each for each in found if each.exists()), found[0])
        return (Part(file, JsonServers(path or ("mcpServers",), entry(launcher.server), comments)),)

    return parts


CLIENTS: Sequence[Client] = (
    Client(
        "claude",
        "Claude Code",
        "claude",
        lambda at: at.moved("CLAUDE_CONFIG_DIR", ".claude"),
        _claude,
        hooks=True,
    ),
    Client("codex", "Codex", "codex", lambda at: at.moved("CODEX_HOME", ".codex"), _codex, hooks=True),
    Client(
        "cursor",
        "Cursor",
        "cursor",
        lambda at: at.home / ".cursor",
        _listed(lambda at: [at.home / ".cursor/mcp.json"]),
    ),
    Client(
        "vscode",
        "VS Code",
        "code",
        lambda at: at.application() / "Code/User",
        _listed(lambda at: [at.application() / "Code/User/mcp.json"], "servers", entry=_stdio, comments=True),
    ),
    Client(
        "gemini",
        "Gemini CLI",
        "gemini",
        lambda at: at.home / ".gemini",
        _listed(lambda at: [at.home / ".gemini/settings.json"], comments=True),
    ),
    Client(
        "opencode",
        "OpenCode",
        "opencode",
        lambda at: at.config() / "opencode",
        _listed(
            lambda at: [at.config() / "opencode" / each for each in ("opencode.json", "opencode.jsonc")],
            "mcp",
            entry=_opencode,
            comments=True,
        ),
    ),
    Client(
        "windsurf",
        "Windsurf",
        "windsurf",
        lambda at: at.home / ".codeium/windsurf",
        _listed(lambda at: [at.home / ".codeium/windsurf/mcp_config.json"]),
    ),
    Client(
        "zed",
        "Zed",
        "zed",
        lambda at: at.config() / "zed",
        _listed(lambda at: [at.config() / "zed/settings.json"], "context_servers", entry=_zed, comments=True),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        "",
        lambda at: at.application() / "Claude",
        _listed(lambda at: [at.application() / "Claude/claude_desktop_config.json"]),
    ),
    Client(
        "qwen",
        "Qwen Code",
        "qwen",
        lambda at: at.home / ".qwen",
        _listed(lambda at: [at.home / ".qwen/settings.json"], comments=True),
    ),
)

BY_NAME: Mapping[str, Client] = {client.name: client for client in CLIENTS}
