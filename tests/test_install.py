"""Installing into clients and taking it back: foreign files are never harmed, whatever is in them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product import ROOT, Product, alive, until

from mnemo_mcp.cli import main
from mnemo_mcp.clients import ours
from mnemo_mcp.clients.catalog import BY_NAME, Places
from mnemo_mcp.clients.entries import Entries, Original
from mnemo_mcp.clients.files import replace
from mnemo_mcp.clients.json_entries import JsonHooks, JsonServers
from mnemo_mcp.clients.launcher import Launcher
from mnemo_mcp.clients.toml_entries import TomlServer

SETTINGS = """{
  "model": "opus",
  "permissions": {"allow": ["Bash(ls:*)"]},
  "hooks": {
    "SessionStart": [{"matcher": "compact", "hooks": [{"type": "command", "command": "echo one"}]}],
    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo two"}]}],
    "Stop": [{"hooks": [{"type": "command", "command": "echo three"}]}]
  },
  "futureKey": [1, 2.50, {"x": null}]
}
"""
CODEX = """# top comment
model = "x"   # inline

[mcp_servers.alpha]
command = "npx"
args = [ "-y", "alpha" ]  # keep
startup_timeout_sec = 30
future_unknown_key = "keep-me"

[mcp_servers.alpha.env]
K = '1'

# last comment, no newline at the end"""
PROMPT = {"session_id": "s-1", "cwd": "/home/dev/atlas", "prompt": "why does atlas use postgres?"}


class Person:
    """Somebody with clients, and a mnemo that they have not seen yet."""

    def __init__(self, product: Product) -> None:
        self.product, self.home = product, product.home
        product.environ["PATH"] = "/usr/bin:/bin"  # no client's own program
        del product.environ["MNEMO_HOME"]
        product.data = self.home / ".local/share/mnemo"

    def file(self, path: str, content: str | bytes) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def both(self) -> None:
        self.file(".claude/settings.json", SETTINGS)
        self.file(".codex/config.toml", CODEX)

    def run(self, *arguments: str) -> str:
        """What a command prints that goes well."""
        code, out, err = self._command(*arguments)
        assert (code, err) == (0, "")
        return out

    def refused(self, *arguments: str) -> str:
        """What a command says that fails; it changes no file of a client's."""
        before = self.files()
        code, _, err = self._command(*arguments)
        assert code == 1
        assert self.files() == before
        return err

    def _command(self, *arguments: str) -> tuple[int, str, str]:
        """In this process: a command's own start would be most of it."""
        mask = os.umask(0o022)
        out, err = io.StringIO(), io.StringIO()
        try:
            with (
                mock.patch.dict(os.environ, self.product.environ, clear=True),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                return main([*arguments]), out.getvalue(), err.getvalue()
        finally:
            os.umask(mask)

    def files(self) -> dict[str, bytes]:
        """Everything in the home but the memory's own folder."""
        return {
            str(each.relative_to(self.home)): each.read_bytes() if each.is_file() else b"/"
            for each in self.home.rglob("*")
            if not each.is_relative_to(self.home / ".local")
        }

    def command(self, client: str, event: str) -> str:
        """The command of our hook, as it stands in the client's file."""
        file = self.home / {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}[client]
        groups = json.loads(file.read_text("utf-8-sig"))["hooks"][event]
        [command] = [each["command"] for group in groups for each in group["hooks"] if ours.is_hook(each)]
        return str(command)

    def shell(self, command: str, payload: Any = PROMPT, **environ: str) -> bytes:
        """What a hook's command prints in a bare environment; it always ends well and quietly."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(payload).encode(),
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **environ},
            cwd=self.home,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    yield Person(product)
    if (product.data / "run/mnemo.sock").exists():
        product.close()


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


# what runs


def test_hooks_run_as_the_client_runs_them_and_fall_silent_after(person: Person) -> None:
    person.both()
    person.run("install", "claude", "codex")
    person.product.remember("Atlas uses postgres because of PostGIS")
    commands = {client: person.command(client, "UserPromptSubmit") for client in ("claude", "codex")}
    traps = person.home / "traps"
    traps.mkdir()
    for name in ("python", "python3", "uv", "node"):
        (traps / name).write_text("#!/bin/sh\nexit 1\n")
        (traps / name).chmod(0o755)
    bad = dict.fromkeys(("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"), "/nowhere")
    for number, environ in enumerate(({}, {"PATH": f"{traps}:/usr/bin:/bin"}, bad)):
        for client, command in commands.items():
            answer = person.shell(command, {**PROMPT, "session_id": f"{client}-{number}"}, **environ)
            assert b"PostGIS" in answer
    pid = person.product.pid()
    server = person.product.stdio()
    server.open()
    assert server.call("recall", query="postgres")[0]
    told = person.run("uninstall")
    assert str(person.product.data) in told
    until(lambda: not alive(pid) and server.process.poll() is not None, 10)
    for command in commands.values():
        assert person.shell(command) == b""
    until(lambda: not alive(pid))
    assert not (person.product.data / "run/launch").exists()


def test_any_name_of_a_home(product: Product) -> None:
    """Spaces, brackets, quotes, letters of every kind; and a trap named like the part before the space."""
    product.home = product.home / "Zoë O'Brien (dev) & co"
    product.home.mkdir()
    trap = product.home.parent / "Zoë"
    trap.write_text(f"#!/bin/sh\n: >'{product.home.parent}/trapped'\n")
    trap.chmod(0o755)
    product.environ |= {"HOME": str(product.home), "MNEMO_ENCODERS": "off"}
    person = Person(product)
    outside = sorted(product.home.parent.iterdir())
    person.both()
    before = person.files()
    person.run("install", "claude", "codex")
    product.remember("Atlas uses postgres because of PostGIS")
    for client in ("claude", "codex"):
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
            answer = person.shell(person.command(client, event), {**PROMPT, "session_id": client})
            assert (b"PostGIS" in answer) == (event == "UserPromptSubmit")
    person.run("uninstall")
    assert person.files() == before
    assert sorted(product.home.parent.iterdir()) == outside


def test_command_and_limit_are_frozen(person: Person) -> None:
    """Codex binds its person's trust to them: a change would silently end what was trusted."""
    launcher = Launcher(Path("/d"))
    for client, folder in (("claude", "settings.json"), ("codex", "hooks.json")):
        parts = BY_NAME[client].parts(Places(Path("/h"), {}, False), launcher)
        [hooks] = [part.entries for part in parts if part.path.name == folder]
        assert isinstance(hooks, JsonHooks)
        run = "test ! -r /d/run/mnemo-run || /bin/sh /d/run/mnemo-run hook"
        assert {event: (each["command"], each["timeout"]) for event, each in hooks.handlers.items()} == {
            "SessionStart": (f"{run} {client} session-open", 5),
            "UserPromptSubmit": (f"{run} {client} pre-message", 5),
            "Stop": (f"{run} {client} turn-end", 5),
            "SessionEnd": (f"{run} {client} session-end", 3),
        }


def test_copies_of_the_launcher_are_one_file() -> None:
    copies = [ROOT / each for each in ("mnemo_mcp/clients", "claude_plugin/hooks", "codex_hooks/hooks")]
    assert len({(folder / "mnemo-run").read_bytes() for folder in copies}) == 1


# twice, or by two ways


def test_second_registration_is_noticed(person: Person) -> None:
    person.run("install", "claude")
    settings = person.home / ".claude/settings.json"
    told = json.loads(settings.read_text())
    told["hooks"]["Stop"] *= 2
    settings.write_text(json.dumps(told))
    person.run("install", "claude")
    assert person.command("claude", "Stop")  # one of them
    plugin = {"enabledPlugins": {"mnemo@mnemo": True}}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **plugin}))
    assert "already there: plugin mnemo@mnemo" in person.run("install", "claude")
    assert json.loads(settings.read_text()) == plugin
    assert not (person.home / ".claude.json").exists()
    person.run("uninstall")
    assert not settings.exists()


def test_two_hooks_at_the_same_moment_say_it_once(person: Person) -> None:
    person.run("install", "claude")
    person.product.remember("Atlas uses postgres because of PostGIS")
    command = person.command("claude", "UserPromptSubmit")
    for number in range(5):
        payload = {**PROMPT, "session_id": f"s-{number}", "prompt_id": "p"}
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(partial(person.shell, command), [payload, payload]))
        assert sorted(b"PostGIS" in answer for answer in answers) == [False, True]
        assert len(person.product.episodes(f"s-{number}")) == 1


# memories


def test_memories_are_deleted_only_when_that_is_said_twice(person: Person) -> None:
    person.both()
    before = person.files()
    person.run("install", "claude", "codex")
    person.product.remember("Atlas uses postgres because of PostGIS")
    kept = person.product.data / "notes of my own.txt"
    kept.write_text("mine")
    installed = person.files()
    assert "--yes" in person.refused("uninstall", "--delete-memories")
    assert person.files() == installed and (person.product.data / "mnemo.db").exists()
    person.run("uninstall", "--delete-memories", "--yes")
    assert person.files() == before
    assert [*person.product.data.iterdir()] == [kept]
    kept.unlink()
    person.run("uninstall", "--delete-memories", "--yes")
    assert not person.product.data.exists()


@pytest.mark.parametrize("content", ["[]", '{"hooks": []}', '{"hooks": {"Stop": [1, {"hooks": 2}]}}', "{"])
def test_odd_files_of_codex_are_no_obstacle_to_leaving(person: Person, content: str) -> None:
    file = person.file(".codex/hooks.json", content)
    config = person.file(".codex/config.toml", "hooks = 1\nplugins = 2\n")
    person.run("uninstall")
    assert b"Traceback" not in person.product.run("doctor").stderr
    person.product.run("install", "codex")
    assert config.read_text() == "hooks = 1\nplugins = 2\n" or "mnemo" in config.read_text()
    person.run("uninstall")
    assert file.read_text() == content and config.read_text() == "hooks = 1\nplugins = 2\n"


def test_nothing_installed_is_nothing_to_take_away(person: Person) -> None:
    person.both()
    before = person.files()
    person.run("uninstall")
    assert person.files() == before
    for arguments in (["install", "emacs"], ["install"], ["uninstall", "codex", "--delete-memories"]):
        done = person.product.run(*arguments)
        assert (done.returncode, done.stdout) == (2, b"") and b"client" in done.stderr
    assert person.files() == before


# every client


@pytest.mark.parametrize("name", BY_NAME)
def test_every_client_comes_back(person: Person, name: str) -> None:
    launcher = Launcher(person.product.data)
    places = Places(person.home, {"HOME": str(person.home)}, sys.platform == "darwin")
    parts = BY_NAME[name].parts(places, launcher)
    assert all(part.path.is_relative_to(person.home) for part in parts)
    before = person.files()
    told = json.loads(person.run("install", name, "--json"))["changes"]
    assert [each["where"] for each in told] == [str(part.path) for part in parts]
    assert all(part.entries.holds(part.path.read_text()) for part in parts)
    person.run("uninstall", name)
    assert person.files() == before


# any file at all

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
SERVER = {"command": "/bin/sh", "args": ["/d/run/mnemo-run", "mcp"]}
LISTED = JsonServers(("mcpServers",), SERVER, comments=True)
PLAIN = JsonServers(("a", "b"), SERVER)
HOOKS = JsonHooks(
    {event: {"type": "command", "command": f"mnemo hook claude {event}"} for event in ("A", "B")}
)
SPACE = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", " /* c, } */ ", " // a, ] comment\n", "\n\n    "])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """JSON with comments, as untidy as the language allows."""

    def told(value: Any) -> str:
        before, after = draw(SPACE), draw(SPACE)
        if isinstance(value, dict):
            parts = [
                f"{draw(SPACE)}{json.dumps(key)}{draw(SPACE)}:{told(each)}" for key, each in value.items()
            ]
            return f"{before}{{{joined(parts)}{draw(SPACE)}}}{after}"
        if isinstance(value, list):
            return f"{before}[{joined([told(each) for each in value])}{draw(SPACE)}]{after}"
        return f"{before}{json.dumps(value)}{after}"

    def joined(parts: list[str]) -> str:
        return ",".join(parts) + ("," if parts and draw(st.booleans()) else "")

    value = draw(st.dictionaries(st.sampled_from(["mcpServers", "hooks", "x", "é"]), VALUES, max_size=4))
    for name in ("mcpServers", "hooks"):
        if name in value:
            value[name] = draw(
                st.dictionaries(st.sampled_from("ABC"), st.lists(VALUES, max_size=2), max_size=3)
            )
    return told(value)


def comes_back(entries: Entries, text: str) -> str:
    changed = entries.add(text)
    assert entries.holds(changed) and entries.add(changed) == changed
    assert entries.remove(changed, Original(text)) == text
    return changed


@given(documents())
@settings(deadline=None, max_examples=80)
def test_any_document_with_comments_comes_back(text: str) -> None:
    comes_back(LISTED, text)


@given(st.dictionaries(st.sampled_from("xyz"), VALUES), st.sampled_from([None, 1, 2, "\t"]), st.booleans())
@settings(deadline=None, max_examples=80)
def test_any_json_comes_back(value: dict[str, Any], indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(comes_back(PLAIN, text)) == {**value, "a": {"b": {"mnemo": SERVER}}}


@given(
    st.dictionaries(
        st.sampled_from("ABC"),
        st.lists(st.fixed_dictionaries({"hooks": st.lists(VALUES, max_size=2)}) | VALUES, max_size=3),
    ),
    st.sampled_from([None, 2, "\t"]),
)
@settings(deadline=None, max_examples=80)
def test_any_hooks_come_back(hooks: dict[str, Any], indent: Any) -> None:
    comes_back(HOOKS, json.dumps({"hooks": hooks, "z": 1}, indent=indent))


TOML_LINES = st.sampled_from(
    [
        "",
        "# a comment",
        "[a]",
        "b = 1",
        "[c.d]",
        "[mcp_servers.x]",
        'command = "y"',
        "[[e]]",
        "f = [ 1,",
        "]",
        "'''",
    ]
)


@given(st.lists(TOML_LINES, max_size=10), st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(deadline=None, max_examples=80)
def test_any_toml_comes_back(lines: list[str], newline: str, ended: bool) -> None:
    text = newline.join(lines) + (newline if ended else "")
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    changed = comes_back(TomlServer(SERVER), text)
    assert changed.startswith(text)
    expected = {**before, "mcp_servers": {**before.get("mcp_servers", {}), "mnemo": SERVER}}
    assert tomllib.loads(changed) == expected


@pytest.fixture(autouse=True)
def nothing_beside(tmp_path: Path) -> Iterator[None]:
    """No file is left half written, whatever happens."""
    yield
    assert not list(tmp_path.rglob(".*.mnemo-*"))
