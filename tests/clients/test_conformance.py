"""The official MCP conformance suite and the Inspector against the real server, in both protocol eras.

The suite expects a server made for it, with tools, prompts and resources of given names. Only those of its
scenarios decide here that say something about a server with tools of its own.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import npm
import pytest
from product import Product
from stdio_http import Bridge

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]  # the first run installs both

Check = Mapping[str, Any]
Results = Mapping[str, Sequence[Check]]

STABLE, HANDSHAKE, MODERN = "stable", "2025-11-25", "2026-07-28"
SUITES = {STABLE: npm.CONFORMANCE, HANDSHAKE: npm.CONFORMANCE_NEXT, MODERN: npm.CONFORMANCE_NEXT}
TRANSPORT = ("server-sse-multiple-streams", "dns-rebinding-protection")
OVER_HTTP = {
    STABLE: ("server-initialize", "ping", "tools-list", *TRANSPORT),
    HANDSHAKE: ("server-initialize", "server-session-lifecycle", "ping", "tools-list", *TRANSPORT),
    MODERN: (
        "server-stateless",
        "tools-list",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "sep-2164-resource-not-found",
        *TRANSPORT,
    ),
}
OVER_STDIO = {
    HANDSHAKE: ("server-initialize", "ping", "tools-list"),
    MODERN: ("tools-list", "caching", "input-required-result-unsupported-methods"),
}
NOT_OURS = {
    "sep-2575-server-rejects-undeclared-capability": "wants the tool test_missing_capability",
    "sep-2575-missing-capability-http-400": "wants the tool test_missing_capability",
    "sep-2549-prompts-list-caching-hints": "mnemo has no prompts and says so",
    "sep-2549-resources-list-caching-hints": "mnemo has no resources and says so",
    "sep-2549-resources-templates-list-caching-hints": "mnemo has no resources and says so",
}
SCHEMA_CHECK = "wire-schema-valid"
TOOL_FAILED = 5  # the Inspector's exit code for a failed tool and for one that does not exist

Run = Callable[[str], Results]


def pairs(table: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(suite, scenario) for suite, scenarios in table.items() for scenario in scenarios]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("home"), MNEMO_ENCODERS="off") as product:
        yield product


@pytest.fixture(scope="module")
def over_http(memory: Product, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All that a suite finds out over HTTP, each run once; it sends no token."""
    url = memory.http("--no-token")

    @functools.cache
    def run(suite: str) -> Results:
        every = () if suite == STABLE else ("--suite", "all")
        return conformance(suite, url, memory, tmp_path_factory.mktemp("results"), *every)

    return run


def conformance(suite: str, url: str, memory: Product, folder: Path, *options: str) -> Results:
    """The checks of each scenario that was run."""
    program = npm.package(*SUITES[suite]) / "dist/index.js"
    version = () if suite == STABLE else ("--spec-version", suite)
    command = [npm.node(), program, "server", "--url", url, "--output-dir", folder, *version, *options]
    done = subprocess.run(
        command, env=memory.environ, capture_output=True, text=True, timeout=120, check=False
    )
    found = {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name): json.loads(file.read_text())
        for file in folder.glob("server-*/checks.json")
    }
    assert found, done.stdout + done.stderr
    return found


def failed(checks: Sequence[Check]) -> list[str]:
    return [
        f"{check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] == "FAILURE" and check["id"] not in NOT_OURS
    ]


@pytest.mark.parametrize(("suite", "scenario"), pairs(OVER_HTTP))
def test_http(over_http: Run, suite: str, scenario: str) -> None:
    checks = over_http(suite)[scenario]
    assert any(check["status"] == "SUCCESS" for check in checks)
    assert failed(checks) == []


@pytest.mark.parametrize("suite", [HANDSHAKE, MODERN])
def test_every_message_over_http_fits_the_schema(over_http: Run, suite: str) -> None:
    """In scenarios that want a fixture, too: what is refused is refused in a valid form."""
    seen = [
        (scenario, check["status"], check.get("errorMessage"))
        for scenario, checks in over_http(suite).items()
        for check in checks
        if check["id"] == SCHEMA_CHECK
    ]
    assert len(seen) > 20
    assert [each for each in seen if each[1] != "SUCCESS"] == []


@pytest.mark.parametrize(("suite", "scenario"), pairs(OVER_STDIO))
def test_stdio(memory: Product, tmp_path: Path, suite: str, scenario: str) -> None:
    with Bridge(memory.stdio) as bridge:
        found = conformance(suite, bridge.url, memory, tmp_path, "--scenario", scenario)
    [checks] = found.values()
    assert {"SUCCESS"} <= {check["status"] for check in checks}
    assert failed(checks) == []


class Inspector:
    """The Inspector's command line towards one server, in one protocol era."""

    def __init__(self, memory: Product, era: str, target: Sequence[str], options: Sequence[str]) -> None:
        package = npm.package(*npm.INSPECTOR)
        program = package / json.loads((package / "package.json").read_text())["bin"]["mcp-inspector"]
        self._command = [npm.node(), program, "--cli", *target, "--format", "json", "--quiet", *options]
        self._command += ["--protocol-era", era]
        self.memory = memory

    def run(self, method: str, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the result; {} where the Inspector itself refuses."""
        command = [*self._command, "--method", method, *options]
        done = subprocess.run(
            command, env=self.memory.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode in (0, TOOL_FAILED), done.stderr
        found = json.loads(done.stdout or "{}")
        return done.returncode, dict(found.get("result", {}))

    def call(self, tool: str, **arguments: Any) -> tuple[int, str]:
        code, result = self.run("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return code, "\n".join(block["text"] for block in result.get("content", []))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Product, str]]:
    """A mnemo behind a token, and its address."""
    with Product(tmp_path_factory.mktemp("guarded"), MNEMO_ENCODERS="off") as product:
        yield product, product.http()


@pytest.fixture(params=["stdio", "http"])
def inspector(request: pytest.FixtureRequest, guarded: tuple[Product, str], era: str) -> Inspector:
    memory, url = guarded
    if request.param == "stdio":
        return Inspector(memory, era, memory.stdio_command, ("-e", f"MNEMO_HOME={memory.data}"))
    token = (memory.data / "token").read_text().strip()
    options = ("--transport", "http", "--server-url", url, "--header", f"Authorization: Bearer {token}")
    return Inspector(memory, era, (), options)


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_inspector(inspector: Inspector) -> None:
    code, listed = inspector.run("tools/list", "--strict")  # refuses schemas that not every client can read
    assert code == 0 and len(listed["tools"]) == 5
    code, stored = inspector.call("remember", what="Spare keys hang behind the till", kind="fact")
    assert code == 0 and stored.split()[0] in ("added", "confirmed")
    code, found = inspector.call("recall", query="Where do the spare keys hang?", limit="3")
    assert code == 0 and "behind the till" in found
    assert inspector.call("recall") == (TOOL_FAILED, "`query` is missing or empty. Give `query` as a text.")
    assert inspector.call("no_such_tool")[0] == TOOL_FAILED
    assert inspector.memory.recall("Where do the spare keys hang?")[0]["what"].startswith("Spare keys")
