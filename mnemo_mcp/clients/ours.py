"""What of a client's settings is ours: entries that start mnemo, however they are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "mnemo"
"""What our server is called in every client."""

_SHELLS = re.compile(r"(?:ba|da|z|k)?sh|python[\d.]*|env|uv|uvx|pipx")
_OF_OURS = re.compile(r"(?:^|/)mnemo-run$|(?:^|/)mnemo_mcp[/.]|^mnemo_mcp\b|^mnemo-agent-memory\b")
_HOOK = re.compile(r"mnemo-run[\"']*\s+hook\b|(?:^|[\s/\"'])mnemo[\"']?\s+hook\s|mnemo_mcp/thin/hook\.py")


def is_server(entry: Any) -> bool:
    """Whether an entry of a list of MCP servers starts mnemo."""
    words = _words(entry)
    if not words:
        return False
    program = words[0].replace("\\", "/").rpartition("/")[2]
    if program == "mnemo":
        return "mcp" in words[1:]
    if program in ("mnemo-run", "mnemo-mcp"):
        return True
    return bool(_SHELLS.fullmatch(program)) and any(_OF_OURS.search(each) for each in words[1:])


def is_hook(handler: Any) -> bool:
    """Whether a handler of a hook runs mnemo."""
    return bool(_HOOK.search(_command(handler)))


def is_gone(entry: Any) -> bool:
    """Whether a server or handler of ours names a file that is no more."""
    if is_hook(entry):
        try:
            words = shlex.split(_command(entry))
        except ValueError:
            return True  # no shell would run that
    else:
        words = _words(entry)
    return any(each.startswith("/") and not Path(each).exists() for each in words)


def _command(handler: Any) -> str:
    command = handler.get("command") if isinstance(handler, Mapping) else None
    return command if isinstance(command, str) else ""


def _words(entry: Any) -> list[str]:
    """The command line of a server: clients write it as a text or a list, with arguments apart or not."""
    if not isinstance(entry, Mapping):
        return []
    command, arguments = entry.get("command"), entry.get("args")
    if isinstance(command, Mapping):
        arguments, command = command.get("args"), command.get("path")
    first = command if isinstance(command, list) else [command] if isinstance(command, str) else []
    return [str(each) for each in (*first, *(arguments if isinstance(arguments, list) else ()))]
