"""Claude Code installs plugins itself, where its program and ours as a plugin are there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mnemo_mcp
from mnemo_mcp.clients import json_entries, json_text
from mnemo_mcp.clients.catalog import Places
from mnemo_mcp.clients.doubt import Doubt
from mnemo_mcp.clients.entries import Original
from mnemo_mcp.clients.files import content_of, decoded

PLUGIN = "mnemo@mnemo"
_MARKETPLACE = "mnemo"
_SECONDS = 120
_TRACES = (("enabledPlugins", PLUGIN), ("extraKnownMarketplaces", _MARKETPLACE))


@dataclass(frozen=True, slots=True)
class Plugins:
    """The client's own commands for plugins."""

    program: str
    places: Places

    def install(self, marketplace: Path) -> str:
        """Register the plugin; what went wrong, "" if nothing did."""
        return self._run("marketplace", "add", str(marketplace)) or self._run("install", PLUGIN)

    def uninstall(self) -> None:
        """Take it away; where it is not there, nothing happens."""
        self._run("uninstall", PLUGIN)
        self._run("marketplace", "remove", _MARKETPLACE)

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self.program, "plugin", *arguments],
                env=dict(self.places.environ),
                cwd=self.places.home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return (done.stderr.strip() or done.stdout.strip() or "it failed") if done.returncode else ""


def marketplace() -> Path | None:
    """Where our plugin lies: beside the program under a name that stays, or in the clone that runs."""
    app = Path(sys.prefix).parent
    clone = Path(mnemo_mcp.__file__).resolve().parent.parent
    for folder in (app / "plugin", clone):
        if (folder / ".claude-plugin/marketplace.json").is_file():
            return folder
    return None


def is_plugged(settings: Path) -> bool:
    """Whether the plugin is on in these settings of the client."""
    try:
        text = decoded(content_of(settings))[0]
        enabled = json_text.parse(text or "{}").value
    except Doubt:
        return False
    plugins = enabled.get("enabledPlugins") if isinstance(enabled, Mapping) else None
    return isinstance(plugins, Mapping) and bool(plugins.get(PLUGIN))


class Traces:
    """What the client's own commands write into its settings."""

    def holds(self, text: str | None) -> bool:
        """Whether our plugin or its marketplace is named."""
        return any(name in _value(text).get(place, {}) for place, name in _TRACES)

    def add(self, text: str | None) -> str:
        """The client's own commands do that."""
        return text or ""

    def remove(self, text: str | None, original: Original) -> str | None:
        """Without them; as it was before, if nothing else is new in it."""
        for place, name in _TRACES:
            text = json_entries.without(text, (place, name), original)
        same = original.known and _value(original.text) == _value(text)
        return original.text if same else text


def _value(text: str | None) -> Mapping[str, Any]:
    value = json_text.parse(text).value if text and text.strip() else {}
    return value if isinstance(value, Mapping) else {}
