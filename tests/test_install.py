"""Installing into clients and taking it back: what is in foreign files is never harmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from person import CODEX, SETTINGS, Person
from product import ROOT

from mnemo_mcp.clients import files, ours
from mnemo_mcp.clients.entries import Original
from mnemo_mcp.clients.exchange import exchange
from mnemo_mcp.clients.files import replace
from mnemo_mcp.clients.json_entries import JsonServers

# what is in the files already


def test_hooks_and_settings_survive(person: Person) -> None:
    person.both()
    before = person.files()
    told = person.run("install", "claude", "codex", "--dry-run")
    assert person.files() == before
    person.run("install", "claude", "codex")
    installed = person.files()
    after = json.loads(installed[".claude/settings.json"])
    was = json.loads(SETTINGS)
    assert {**after, "hooks": {}} == {**was, "hooks": {}} and list(after) == list(was)
    for event, groups in was["hooks"].items():
        assert (
            after["hooks"][event][: len(groups)] == groups and len(after["hooks"][event]) == len(groups) + 1
        )
    for line in installed[".codex/config.toml"].decode().splitlines():
        assert line in CODEX.splitlines() or f"+{line}" in told
    person.run("install", "claude", "codex")
    assert person.files() == installed
    person.run("uninstall")
    assert person.files() == before
    person.run("uninstall")
    assert person.files() == before


def test_first_state_is_kept_for_good(person: Person) -> None:
    file = person.file(".claude/settings.json", SETTINGS)
    person.run("install", "claude")
    [backup] = person.product.data.glob("backups/clients/*-first-settings.json")
    assert backup.read_text() == SETTINGS and backup.stat().st_mode & 0o777 == 0o600
    person.run("uninstall")
    file.write_text(later := SETTINGS.replace("opus", "sonnet"))
    person.run("install", "claude")
    person.run("uninstall")
    assert file.read_text() == later
    assert backup.read_text() == SETTINGS


def test_change_of_somebody_else_is_kept(person: Person) -> None:
    person.both()
    person.run("install", "claude", "codex")
    file = person.home / ".claude/settings.json"
    file.write_text(file.read_text().replace('"opus"', '"sonnet"'))
    config = person.home / ".codex/config.toml"
    config.write_text(config.read_text() + '\n\n[projects."/x"]\ntrust_level = "trusted"\n')
    hooks = json.loads((person.home / ".codex/hooks.json").read_text())
    hooks["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "echo mine"}]})
    person.file(".codex/hooks.json", json.dumps(hooks))
    person.run("uninstall")
    assert file.read_text() == SETTINGS.replace('"opus"', '"sonnet"')
    wanted = {**tomllib.loads(CODEX), "projects": {"/x": {"trust_level": "trusted"}}}
    assert tomllib.loads(config.read_text()) == wanted
    left = json.loads((person.home / ".codex/hooks.json").read_text())
    assert left == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo mine"}]}]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"hooks": {},}', "line 1: there is a comma before }"),
        ('// my notes\n{"hooks": {}}', "line 1: there is a comment"),
        ('{\n"hooks": {"Stop": [\n', "line 3: the file ends in the middle"),
        ("[]", "it is not an object"),
        ('{"model": 1,\n "hooks": []}', "line 2: `hooks` is not an object"),
        ('{"hooks": {"Stop": "echo"}}', "`hooks.Stop` is not a list"),
        ('{"model": 1, "model": 2}', "the key 'model' is there twice"),
        (b'{"model": "\xff"}', "not in UTF-8"),
    ],
)
def test_file_that_is_not_what_it_should_be_is_left_alone(person: Person, content: Any, said: str) -> None:
    file = person.file(".claude/settings.json", content)
    person.file(".codex/config.toml", CODEX)
    told = person.refused("install", "codex", "claude")  # not into the other one either
    assert said in told and str(file) in told and "mnemo install codex claude" in told
    person.run("uninstall")
    assert file.read_bytes() == (content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    "content",
    ["", " \n", '\ufeff{"model": "opus"}', "{}", "{\n}", '{"hooks": {}}', '{"hooks":{"Stop":[]}}\r\n'],
)
def test_file_that_is_well_comes_back(person: Person, content: str) -> None:
    file = person.file(".claude/settings.json", content)
    before = person.files()
    person.run("install", "claude")
    assert person.command("claude", "Stop")
    assert file.read_bytes().startswith(content[:1].encode() if content[:1] == "\ufeff" else b"{")
    person.run("uninstall")
    assert person.files() == before


@pytest.mark.parametrize("content", [CODEX, CODEX.replace("\n", "\r\n"), CODEX + "\n", "\n", "", None])
def test_codex_file_comes_back(person: Person, content: str | None) -> None:
    if content is not None:
        person.file(".codex/config.toml", content)
    before = person.files()
    person.run("install", "codex")
    text = (person.home / ".codex/config.toml").read_bytes()
    assert text.startswith((content or "").encode())
    assert not content or ("\r\n" in content) == (b"\r\n" in text.removeprefix(content.encode()))
    server = tomllib.loads(text.decode())["mcp_servers"]["mnemo"]
    assert server["startup_timeout_sec"] == 20
    assert [server["command"], *server["args"]] == ["/bin/sh", f"{person.product.data}/run/mnemo-run", "mcp"]
    installed = person.files()
    person.run("install", "codex")
    assert person.files() == installed
    person.run("uninstall")
    assert person.files() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = \n", "line 1: it is no valid TOML"),
        ('[a]\nb = 1\n[mcp_servers.mnemo]\ncommand = "x"\n', "line 3: another server is called 'mnemo'"),
        ('mcp_servers = {x = {command = "y"}}\n', "written in braces"),
        ("mcp_servers = 5\n", "`mcp_servers` is not a table"),
    ],
)
def test_codex_file_that_leaves_a_doubt_is_left_alone(person: Person, content: str, said: str) -> None:
    person.file(".codex/config.toml", content)
    assert said in person.refused("install", "codex")


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("mnemo", {"args": ["mcp"], "command": "mnemo"}),
        ("memory", {"command": "/opt/x/bin/mnemo", "args": ["mcp"]}),
        ("m", {"command": "python3", "args": ["-m", "mnemo_mcp.cli", "mcp"]}),
        ("m", {"command": "uvx", "args": ["--from", "mnemo-agent-memory", "mnemo", "mcp"]}),
        ("m", {"command": "sh", "args": ["/x y/hooks/mnemo-run", "mcp"]}),
    ],
)
def test_entry_of_ours_is_known_in_any_spelling(name: str, entry: dict[str, Any]) -> None:
    servers = JsonServers(("mcpServers",), {"command": "/bin/sh", "args": ["/y/mnemo-run", "mcp"]})
    text = json.dumps({"mcpServers": {name: entry, "other": {"command": "x"}}}, indent=2)
    assert servers.holds(text)
    gone = ours.is_gone(entry)
    changed = servers.add(text)
    assert (changed == text) == (not gone)
    assert json.loads(changed)["mcpServers"].keys() == {name, "other"}
    assert json.loads(servers.remove(changed, Original(text)) or "") == {
        "mcpServers": {"other": {"command": "x"}}
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "mnemo", "args": ["serve"]},
        {"command": "npx", "args": ["-y", "mnemo"]},
        {"url": "http://127.0.0.1:1/mcp"},
        {"command": "mnemonic", "args": ["mcp"]},
        None,
        "mnemo mcp",
    ],
)
def test_entry_of_another_is_not_ours(entry: Any) -> None:
    assert not ours.is_server(entry)
    with_ours = JsonServers(("mcpServers",), {"command": "mnemo", "args": ["mcp"]})
    text = json.dumps({"mcpServers": {"x": entry}})
    assert with_ours.remove(with_ours.add(text), Original(text)) == text


# links, modes, other programs at work


def test_link_stays_a_link_and_a_mode_stays(person: Person) -> None:
    real = person.file("dotfiles/settings.json", SETTINGS)
    real.chmod(0o640)
    (person.home / ".claude").mkdir()
    (person.home / ".claude/settings.json").symlink_to(real)
    person.run("install", "claude")
    assert (person.home / ".claude/settings.json").is_symlink()
    assert "mnemo-run" in real.read_text() and real.stat().st_mode & 0o777 == 0o640
    person.run("uninstall")
    assert real.read_text() == SETTINGS and real.stat().st_mode & 0o777 == 0o640


def test_file_that_cannot_be_written_is_told(person: Person) -> None:
    person.both()
    (person.home / ".codex").chmod(0o500)
    if os.access(person.home / ".codex", os.W_OK):
        pytest.skip("this user may write anywhere")
    told = person.refused("install", "codex")
    assert "cannot be written" in told and "mnemo install codex" in told
    (person.home / ".codex").chmod(0o700)
    person.run("install", "codex")


def test_another_program_at_work_loses_nothing(person: Person) -> None:
    file = person.file(".claude/settings.json", '{"n": 0}')
    started = threading.Event()

    def rewrite() -> None:
        for number in range(1, 51):
            told = json.loads(file.read_text())
            fresh = file.with_suffix(".other")
            fresh.write_text(json.dumps({**told, "n": number}))
            fresh.replace(file)
            started.set()

    other = threading.Thread(target=rewrite)
    other.start()
    started.wait(10)
    done = person.product.run("install", "claude")
    other.join()
    told = json.loads(file.read_text())
    assert told["n"] == 50
    assert done.returncode == 1 or "SessionStart" in told["hooks"]
    assert [each.name for each in file.parent.iterdir()] == ["settings.json"]


def test_last_word_of_another_program_is_never_lost(tmp_path: Path) -> None:
    """It writes without reading, as fast as it can, while ours is put in again and again."""
    file = tmp_path / "settings.json"
    for _ in range(20):
        file.write_text('{"n": 0}')

        def rewrite() -> None:
            for number in range(1, 31):
                fresh = file.with_suffix(".other")
                fresh.write_text(json.dumps({"n": number}))
                fresh.replace(file)

        other = threading.Thread(target=rewrite)
        other.start()
        while other.is_alive():
            before = file.read_bytes()
            replace(file, before, json.dumps({**json.loads(before), "ours": True}).encode())
        other.join()
        assert json.loads(file.read_text())["n"] == 30


@pytest.mark.parametrize("times", range(1, 6))
def test_what_another_program_writes_at_every_step_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    file = tmp_path / "settings.json"
    file.write_text("0")
    written = iter(range(1, times + 1))

    def crossed(one: Path, other: Path) -> bool:
        if number := next(written, None):
            file.with_suffix(".other").write_text(str(number))
            file.with_suffix(".other").replace(file)
        return exchange(one, other)

    monkeypatch.setattr(files, "exchange", crossed)
    assert not replace(file, b"0", b"ours")
    assert file.read_text() == str(times)


def test_full_disk_leaves_what_works(person: Person) -> None:
    """Full as the second client's file is written: that one is as it was, and the first one works."""
    person.both()
    code = (
        "import errno, os\n"
        "from mnemo_mcp.clients import files\n"
        "make = files.tempfile.mkstemp\n"
        "def full(dir, prefix):\n"
        "    if prefix.startswith('.settings.json'):\n"
        "        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "    return make(dir=dir, prefix=prefix)\n"
        "files.tempfile.mkstemp = full\n"
        "from mnemo_mcp.cli import main\n"
        "raise SystemExit(main(['install', 'codex', 'claude']))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=person.product.environ, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 1
    told = done.stderr.decode()
    assert "settings.json cannot be written: No space left" in told and "mnemo install codex claude" in told
    assert (person.home / ".claude/settings.json").read_text() == SETTINGS
    assert person.command("codex", "Stop")
    person.run("install", "codex", "claude")
    assert person.command("claude", "Stop")


def test_interrupted_installation_leaves_what_works(person: Person) -> None:
    """Killed after the first file was written: it runs, and installing again completes it."""
    person.both()
    code = (
        "import os, signal\n"
        "from mnemo_mcp.clients import files\n"
        "write = files.replace\n"
        "def once(*given):\n"
        "    write(*given)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.replace = once\n"
        "from mnemo_mcp.cli import main\n"
        "main(['install', 'codex', 'claude'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=person.product.environ, cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert (person.home / ".claude/settings.json").read_text() == SETTINGS
    server = tomllib.loads((person.home / ".codex/config.toml").read_text())["mcp_servers"]["mnemo"]
    assert Path(server["args"][0]).is_file()
    person.run("install", "codex", "claude")
    assert person.command("claude", "Stop") and person.command("codex", "Stop")
    person.run("uninstall")
    assert (person.home / ".codex/config.toml").read_text() == CODEX
