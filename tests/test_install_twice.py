"""What installing registers runs; done twice or by two ways it is done once; any file at all."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from person import PROMPT, Person
from product import ROOT, Product, alive, until

from mnemo_mcp.clients.catalog import BY_NAME, Places
from mnemo_mcp.clients.entries import Entries, Original
from mnemo_mcp.clients.json_entries import JsonHooks, JsonServers
from mnemo_mcp.clients.launcher import Launcher
from mnemo_mcp.clients.toml_entries import TomlServer

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
