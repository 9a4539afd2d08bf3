"""The real Claude Code where mnemo is in its files and not a plugin: the same memory, by another way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import npm
import pytest
from fake_anthropic import Call, FakeAnthropic
from product import Product
from test_claude_code import DEAD, ClaudeCode

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]  # the first run installs the client

SETTINGS = '{"permissions": {"allow": ["mcp__mnemo"]}, "cleanupPeriodDays": 9}\n'


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaudeCode]:
    program, home = npm.claude(), tmp_path_factory.mktemp("home")
    with Product(home, PATH="/usr/bin:/bin") as product, FakeAnthropic(home / "requests.jsonl") as model:
        client = ClaudeCode(program, product, model)
        (home / ".claude").mkdir()
        (home / ".claude/settings.json").write_text(SETTINGS)
        assert product.run("install", "claude").returncode == 0
        product.settled()
        yield client
        assert product.run("uninstall").returncode == 0
        assert (home / ".claude/settings.json").read_text() == SETTINGS
        assert "mnemo" not in json.dumps(state(home).get("mcpServers", {}))


def state(home: Path) -> Mapping[str, object]:
    found = json.loads((home / ".claude.json").read_text())
    assert isinstance(found, dict)
    return found


def test_memory_of_one_session_is_in_the_next_one_s_request(claude: ClaudeCode) -> None:
    claim = {"what": "Invoices are rendered by the paperwork service", "why": "the ledger must not wait"}
    stored = claude.turn("Remember who renders invoices.", Call("mcp__mnemo__remember", claim), "Stored.")
    assert "added m" in json.dumps(stored.requests[-1]["messages"])
    turn = claude.turn("Which service renders the invoices?", "The paperwork service.")
    [note] = turn.notes("UserPromptSubmit")
    assert claim["what"] in note


def test_server_is_connected(claude: ClaudeCode) -> None:
    [line] = [each for each in claude.run("mcp", "list").stdout.splitlines() if each.startswith("mnemo:")]
    assert line.endswith("Connected")


def test_private_session_is_neither_stored_nor_told_anything(claude: ClaudeCode) -> None:
    claude.product.remember("The cafeteria opens at seven", project=str(claude.project))
    first = claude.turn("Good day.", "Good day.")
    claude.turn("mnemo private", "It is.", session=first.session)
    asked = claude.turn("When does the cafeteria open?", "I do not know.", session=first.session)
    assert asked.notes("UserPromptSubmit") == [""]
    told = {each["text"] for each in claude.product.episodes(first.session)}
    assert told == {"Good day."}


def test_plugin_is_used_where_the_client_can_install_it(tmp_path: Path) -> None:
    program = npm.claude()
    settings = tmp_path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "HTTPS_PROXY": DEAD}
    with Product(tmp_path, PATH="/usr/bin:/bin", **quiet) as product:
        assert product.run("install", "claude").returncode == 0
        assert "mnemo-run" in settings.read_text()
        product.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
        assert b"added: plugin mnemo@mnemo" in product.run("install", "claude").stdout
        assert "mnemo-run" not in settings.read_text()  # one way is enough
        assert json.loads(settings.read_text())["enabledPlugins"] == {"mnemo@mnemo": True}
        assert b"already there: plugin mnemo@mnemo" in product.run("install", "claude").stdout
        assert product.run("uninstall").returncode == 0
    assert settings.read_text() == SETTINGS
