"""The Claude Code plugin: its manifests, and the launcher that finds Python without trusting PATH."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from thin_place import PLUGIN, ROOT, Place, Ran, call, make_installation, run, scripts_of, text_of

from mnemo_mcp.thin import moments

PROMPT = b'{"session_id": "s-1", "prompt": "why does atlas use postgres?"}'
MOMENTS = {
    "SessionStart": "session-open",
    "UserPromptSubmit": "pre-message",
    "Stop": "turn-end",
    "SessionEnd": "session-end",
}


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as here:
        del here.environ["MNEMO_HOME"]
        here.data = here.home / ".local/share/mnemo"
        here.data.mkdir(parents=True)
        shutil.copytree(PLUGIN, installed(here))  # as the client does; beside the original may be a .venv
        yield here


def installed(place: Place) -> Path:
    """Where the client keeps the plugin."""
    return place.home / ".claude/plugins/cache/mnemo/0.1.0"


def launch(place: Place, *arguments: str, shell: Sequence[str] = ("/bin/sh",)) -> Ran:
    return run([*shell, installed(place) / "hooks/mnemo-run", *arguments], PROMPT, place.environ)


def read(file: str, under: Path = PLUGIN) -> Any:
    return json.loads((under / file).read_text())


def command_of(event: str, plugin: Path) -> str:
    """A hook's command as the client runs it in /bin/sh, the one placeholder replaced."""
    [group] = read("hooks/hooks.json", plugin)["hooks"][event]
    return str(group["hooks"][0]["command"]).replace("${CLAUDE_PLUGIN_ROOT}", str(plugin))


def point(data: Path, python: Path) -> None:
    """Leave the note that a daemon of that interpreter leaves in its data folder."""
    (data / "run").mkdir(parents=True, exist_ok=True)
    (data / "run/launch").write_text(f"{python}\n{scripts_of(python)}\n")


def hook(place: Place, moment: str = "pre-message", *, plugin: Path | None = None, **options: Any) -> Ran:
    event = next(event for event, each in MOMENTS.items() if each == moment)
    command = command_of(event, plugin or installed(place))
    return run(["/bin/sh", "-c", command], PROMPT, place.environ, **options)


# manifests


def test_every_moment_has_its_hook_and_a_limit_above_its_own_deadline() -> None:
    hooks = read("hooks/hooks.json")["hooks"]
    assert set(hooks) == set(MOMENTS)
    for event, moment in MOMENTS.items():
        [entry] = hooks[event][0]["hooks"]
        assert moments.SECONDS[moment] < entry["timeout"] <= 30
        assert entry["command"].endswith(f" hook {moment}")


def test_no_hook_hands_its_payload_to_a_bare_interpreter() -> None:
    """Clients that do not know `args` run `command` alone, with the payload on its stdin."""
    for [group] in read("hooks/hooks.json")["hooks"].values():
        assert all("args" not in entry and len(entry["command"].split()) > 1 for entry in group["hooks"])


def test_server_is_offered_from_the_first_request() -> None:
    server = read(".mcp.json")["mcpServers"]["mnemo"]
    assert server["alwaysLoad"] is True
    assert server["env"] == {"MNEMO_HOME": "${MNEMO_HOME:-}"}


def test_repository_is_a_marketplace_of_the_plugin() -> None:
    [plugin] = read(".claude-plugin/marketplace.json", ROOT)["plugins"]
    assert (ROOT / plugin["source"]).resolve() == PLUGIN
    assert read(".claude-plugin/plugin.json")["name"] == plugin["name"] == "mnemo"


# finding the interpreter


@pytest.fixture
def decoys(place: Place) -> Path:
    """Programs that a launcher could take by mistake; each leaves a mark."""
    folder = place.home / "decoys"
    folder.mkdir()
    for name in ("python", "python3", "uv", "node", "date", "mkdir", "cat", "uname", "dirname"):
        (folder / name).write_text(f"#!/bin/sh\n: >'{place.home}/decoy-ran'\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("moment", MOMENTS.values())
def test_foreign_programs_and_variables_change_nothing(place: Place, decoys: Path, moment: str) -> None:
    point(place.data, place.python)
    daemon = place.daemon(answer=b"{}")
    expected = b"{}" if moment in ("session-open", "pre-message") else b""
    assert hook(place, moment).out == expected
    place.environ |= {"PATH": f"{decoys}:/usr/bin:/bin"}
    place.environ |= dict.fromkeys(("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"), "/nowhere")
    ran = hook(place, moment)
    assert (ran.code, ran.out, ran.err) == (0, expected, b"")
    place.environ["PATH"] = "/nowhere"
    assert hook(place, moment).out == expected
    assert [request.body for request in daemon.requests] == [PROMPT] * 3
    assert not (place.home / "decoy-ran").exists()


@pytest.mark.parametrize("shell", [["/bin/sh"], ["bash", "--posix"], ["bash"]])
def test_launcher_runs_in_any_posix_shell(place: Place, shell: list[str]) -> None:
    if not shutil.which(shell[0]):
        pytest.skip(f"there is no {shell[0]} here")
    point(place.data, place.python)
    place.daemon(answer=b"{}")
    assert launch(place, "hook", "pre-message", shell=shell).out == b"{}"


@pytest.mark.parametrize(
    ("variable", "value", "data", "noted"),
    [
        ("MNEMO_HOME", "{home}/my data", "my data", "my data"),
        ("MNEMO_HOME", "~/my data", "my data", "my data"),
        ("MNEMO_HOME", "{home}/my data", "my data", ".local/share/mnemo"),
        ("XDG_DATA_HOME", "{home}/share", "share/mnemo", "share/mnemo"),
        ("XDG_DATA_HOME", "relative", ".local/share/mnemo", ".local/share/mnemo"),
    ],
)
def test_note_is_found_in_the_data_folder_or_the_usual_one(
    place: Place, variable: str, value: str, data: str, noted: str
) -> None:
    place.environ[variable] = value.format(home=place.home)
    place.data = place.home / data
    point(place.home / noted, place.python)
    place.daemon(answer=b"{}")
    assert hook(place).out == b"{}"


def test_interpreter_of_a_clone_is_used_beside_it(place: Place) -> None:
    clone = place.home / "a clone"
    shutil.copytree(PLUGIN, clone / "claude_plugin")
    make_installation(clone / ".venv")
    shutil.copytree(ROOT / "mnemo_mcp/thin", clone / "mnemo_mcp/thin")
    place.daemon(answer=b"{}")
    assert hook(place, plugin=clone / "claude_plugin").out == b"{}"


def test_mnemo_on_path_is_the_last_resort(place: Place) -> None:
    (place.home / "bin").mkdir()
    command = place.home / "bin/mnemo"
    command.write_text('#!/bin/sh\necho "ran $*"\n')
    command.chmod(0o755)
    place.environ["PATH"] = f"{command.parent}:/usr/bin:/bin"
    assert hook(place).out == b"ran hook claude pre-message\n"
    assert launch(place, "mcp").out == b"ran mcp\n"
    point(place.data, place.python)
    place.daemon(answer=b"{}")
    assert hook(place).out == b"{}"


def test_removed_interpreter_is_silent_and_logged_once(place: Place, decoys: Path) -> None:
    point(place.data, place.python)
    gone = place.home / "gone/bin/python"
    (place.data / "run/launch").write_text(f"{gone}\n{scripts_of(place.python)}\n")
    place.environ["PATH"] = f"{decoys}:/usr/bin:/bin"
    assert all(hook(place, moment, umask=0).silent for moment in [*MOMENTS.values(), *MOMENTS.values()])
    [line] = place.log()
    assert str(gone) in line
    log = place.data / "log/hooks.log"
    assert [each.stat().st_mode & 0o777 for each in (log, log.parent)] == [0o600, 0o700]
    assert not (place.home / "decoy-ran").exists()
    server = launch(place, "mcp")
    assert (server.code, server.out) == (1, b"") and str(gone).encode() in server.err


def test_interpreter_that_fails_is_silent_and_logged(place: Place) -> None:
    broken = place.home / "broken"
    broken.write_text("#!/bin/sh\necho 'no module named encodings' >&2\nexit 1\n")
    broken.chmod(0o755)
    (place.data / "run").mkdir()
    (place.data / "run/launch").write_text(f"{broken}\n{scripts_of(place.python)}\n")
    assert hook(place).silent
    assert str(broken) in place.log()[0]


@pytest.mark.parametrize(
    "environ",
    [{}, {"HOME": ""}, {"HOME": None}, {"MNEMO_HOME": "relative"}, {"MNEMO_HOME": "/nowhere/at all"}],
)
def test_nothing_installed_leaves_no_trace(place: Place, environ: dict[str, str | None]) -> None:
    place.data.rmdir()
    before = sorted(place.home.rglob("*"))
    for name, value in environ.items():
        place.environ.pop(name, None)
        if value is not None:
            place.environ[name] = value
    assert all(hook(place, moment, cwd=place.home).silent for moment in MOMENTS.values())
    assert sorted(place.home.rglob("*")) == before


@pytest.mark.parametrize("note", ["", "one line only\n", "\n\n", "/\n/\n"])
def test_odd_notes_are_passed_over(place: Place, note: str) -> None:
    (place.data / "run").mkdir()
    (place.data / "run/launch").write_text(note)
    assert hook(place).silent


def test_note_without_its_scripts_is_passed_over(place: Place) -> None:
    point(place.data, place.python)
    place.data = place.home / "my data"
    place.environ["MNEMO_HOME"] = str(place.data)
    (place.data / "run").mkdir(parents=True)
    (place.data / "run/launch").write_text(f"{place.python}\n/nowhere\n")
    place.daemon(answer=b"{}")
    assert hook(place).out == b"{}"


# any name of a folder


def test_spaces_brackets_quotes_and_letters_in_every_path(place: Place) -> None:
    home = place.home / "Zoë O'Brien (dev) & co"
    project = home / "café #1 [atlas]"
    project.mkdir(parents=True)
    trap = place.home / "Zoë"
    trap.write_text(f"#!/bin/sh\n: >'{place.home}/trapped'\n")
    trap.chmod(0o755)
    plugin = home / ".claude/plugins/mnemo"
    shutil.copytree(PLUGIN, plugin)
    python = make_installation(home / "env")
    place.data = home / ".local/share/mnemo"
    place.environ |= {"HOME": str(home)}
    point(place.data, python)
    outside = sorted(each for each in place.home.iterdir())
    place.script(answer="{}")
    ran = [hook(place, moment, plugin=plugin, cwd=project) for moment in MOMENTS.values()]
    assert [(each.code, each.out, each.err) for each in ran] == [
        (0, b"{}", b""),
        (0, b"{}", b""),
        (0, b"", b""),
        (0, b"", b""),
    ]
    server = read(".mcp.json", plugin)["mcpServers"]["mnemo"]
    arguments = [each.replace("${CLAUDE_PLUGIN_ROOT}", str(plugin)) for each in server["args"]]
    client = place.pipe(command=[server["command"], *arguments], MNEMO_HOME="")
    client.send(call("echo", 1, "stored"))
    assert text_of(client.receive()) == "stored"
    assert client.close() == (0, [], "")
    assert not os.path.lexists(place.home / "trapped")
    assert sorted(each for each in place.home.iterdir()) == outside
    assert not list(project.iterdir())
