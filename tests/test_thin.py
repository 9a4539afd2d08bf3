"""Hooks and the way to the daemon: quiet, quick and without loss, whatever state the daemon is in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from thin_place import PLUGIN, Place, Ran, end, make_installation, run, scripts_of, until

import mnemo_mcp
from mnemo_mcp import settings
from mnemo_mcp.thin import inbox, link, moments

PROMPT = json.dumps({"session_id": "s-1", "prompt": "why does atlas use postgres?"}).encode()
SPEAKING = ("session-open", "pre-message")


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as here:
        yield here


# the data folder and the socket


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"MNEMO_HOME": ""},
        {"MNEMO_HOME": "/srv/memory"},
        {"MNEMO_HOME": "~"},
        {"MNEMO_HOME": "~/a b/é"},
        {"XDG_DATA_HOME": "/srv/share"},
        {"XDG_DATA_HOME": "  "},
        {"XDG_DATA_HOME": ""},
        {"HOME": ""},
    ],
)
def test_data_folder_is_that_of_the_settings(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MNEMO_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert Path(link.data_folder()) == settings.data_folder()


def test_relative_data_folder_is_refused() -> None:
    with pytest.raises(link.Unreachable, match="absolute"):
        link.data_folder({"MNEMO_HOME": "memory", "HOME": "/home/dev"})


def test_versions_agree() -> None:
    plugin = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())
    assert mnemo_mcp.__version__ == link.VERSION == plugin["version"]


def test_folder_with_a_path_too_long_for_a_socket(place: Place, tmp_path: Path) -> None:
    place.data = tmp_path / ("long " * 20) / ("länger " * 10)
    daemon = place.daemon(answer=b"reached")
    here = Path.cwd()
    deadline = time.monotonic() + 5
    assert link.request(str(place.data), "/api/status", b"{}", deadline) == (200, b"reached")
    assert Path.cwd() == here
    assert daemon.requests[0].path == "/api/status"


def test_request_is_tried_again_once_when_the_connection_breaks(place: Place) -> None:
    daemon = place.daemon(answer=b"at last", drops=1)
    deadline = time.monotonic() + 5
    assert link.request(str(place.data), "/api/x", b"{}", deadline) == (200, b"at last")
    daemon.drops = 5
    with pytest.raises(link.Unreachable, match="broke off"):
        link.request(str(place.data), "/api/x", b"{}", deadline)
    assert daemon.drops == 3


@pytest.mark.parametrize("manner", ["cut", "endless"])
def test_answer_that_may_not_be_whole_is_not_used(place: Place, manner: str) -> None:
    place.daemon(answer=b"half a memory", manner=manner)
    with pytest.raises(link.Unreachable):
        link.request(str(place.data), "/api/x", b"{}", time.monotonic() + 5)


def test_pointer_is_written_only_when_it_changes(place: Place) -> None:
    old = os.umask(0)
    try:
        assert link.write_pointer(str(place.data))
    finally:
        os.umask(old)
    pointer = place.data / "run/launch"
    python, scripts = pointer.read_text().splitlines()
    assert os.access(python, os.X_OK) and (Path(scripts) / "hook.py").is_file()
    assert [mode_of(each) for each in (place.data, pointer.parent, pointer)] == [0o700, 0o700, 0o600]
    assert not link.write_pointer(str(place.data))
    pointer.write_text("/gone/python\n/gone/thin\n")
    assert link.write_pointer(str(place.data))
    assert list(pointer.parent.iterdir()) == [pointer]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


# a hook with a daemon


@pytest.mark.parametrize("moment", SPEAKING)
def test_hook_prints_the_answer_byte_for_byte(place: Place, moment: str) -> None:
    answer = '{"hookSpecificOutput": "デプロイは木曜日 🙂"}'.encode()
    daemon = place.daemon(answer=answer)
    prompt = '{"prompt": "デプロイ の曜日は? \\\\ \\" ソ 表 é 🙂"}\r\n'.encode() + b"\xff\xfe"
    place.environ |= {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    before = time.time()
    ran = place.hook(moment, prompt)
    assert (ran.code, ran.out, ran.err) == (0, answer, b"")
    [request] = daemon.requests
    assert (request.path, request.body) == (f"/hooks/claude/{moment}", prompt)
    assert re.fullmatch(r"\d+\.\d{3}", request.headers["mnemo-received"])
    assert before - 1 < float(request.headers["mnemo-received"]) < time.time() + 1
    assert request.headers["mnemo-version"] == mnemo_mcp.__version__
    assert "mnemo-profile" not in request.headers


@pytest.mark.parametrize("moment", ["turn-end", "session-end"])
def test_moments_that_are_handed_over_print_nothing(place: Place, moment: str) -> None:
    daemon = place.daemon(answer=b'{"decision": "block"}')
    assert place.hook(moment, PROMPT, client="codex").silent
    assert daemon.requests[0].path == f"/hooks/codex/{moment}"
    assert not place.kept()


def test_profile_of_the_session_goes_with_the_request(place: Place) -> None:
    daemon = place.daemon()
    place.environ["MNEMO_PROFILE"] = "wörk\r\nx"
    place.hook("pre-message", PROMPT)
    assert bytes.fromhex(daemon.requests[0].headers["mnemo-profile"]).decode() == "wörk\r\nx"


@pytest.mark.parametrize("status", [204, 404, 500])
def test_other_status_than_200_prints_nothing(place: Place, status: int) -> None:
    place.daemon(answer=b"{}", status=status)
    assert place.hook("pre-message", PROMPT).silent
    assert str(status) in place.log()[0]


@pytest.mark.parametrize("moment", [*SPEAKING, "turn-end"])
@pytest.mark.parametrize(
    ("stdin", "passed_on"),
    [
        (b"", False),
        (b"\n", False),
        (b"null", False),
        (b"[]", False),
        (b"{", True),
        (b'{"prompt": 5}', True),
        (b'{"prompt": null, "session_id": null}', True),
        (b'\xef\xbb\xbf{"prompt":"hello atlas"}', True),
        (b'{\r\n"prompt":"hello atlas"\r\n}\r\n', True),
        (b'{"session_id":"s"}{"session_id":"t"}', True),
        (b'{"session_id": "../../evil\x00"}', True),
    ],
)
def test_odd_stdin_is_harmless(place: Place, moment: str, stdin: bytes, passed_on: bool) -> None:
    daemon = place.daemon()
    ran = place.hook(moment, stdin)
    assert ran.silent and ran.seconds < 1.5
    assert [request.body for request in daemon.requests] == [stdin] * passed_on


def test_payload_of_five_megabytes_passes_whole(place: Place) -> None:
    daemon = place.daemon(answer=b"{}")
    payload = json.dumps({"prompt": "log line é\n" * 450_000}).encode()
    assert len(payload) > 5_000_000
    ran = place.hook("pre-message", payload)
    assert ran.out == b"{}" and ran.seconds < 3
    assert daemon.requests[0].body == payload


def test_nested_marker_ends_the_hook_at_once(place: Place) -> None:
    daemon = place.daemon(answer=b"{}")
    place.environ["MNEMO_NESTED"] = "1"
    assert all(place.hook(moment, PROMPT).silent for moment in moments.SECONDS)
    assert not daemon.requests and not place.kept() and not place.log()


def test_fast_path_imports_next_to_nothing(place: Place) -> None:
    place.daemon(answer=b"{}")
    hook = scripts_of(place.python) / "hook.py"
    told = [str(place.python), "-I", "-S", "-X", "importtime"]
    ran = run([*told, str(hook), "claude", "pre-message"], PROMPT, place.environ)
    bare = run([*told, "-c", "import os"], b"", place.environ)
    assert ran.out == b"{}"
    assert imported(ran) - imported(bare) == {"_socket", "select", "thin", "thin.link", "thin.moments"}


def imported(ran: Ran) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in ran.err.decode().splitlines()}


# a hook without a daemon


def test_missing_daemon_is_started_and_answers(place: Place) -> None:
    place.script(answer="remembered", start_after=0.2)
    place.environ |= {
        "PYTHONPATH": "/nowhere",
        "VIRTUAL_ENV": "/nowhere",
        "CLAUDE_PROJECT_DIR": "/nowhere",
        "MNEMO_PROFILE": "work",
        "MNEMO_HOME": "~/data",
    }
    assert place.hook("pre-message", PROMPT).out == b"remembered"
    [pid] = place.pids()
    environ = json.loads((place.data / "environment.json").read_text())
    assert environ["MNEMO_HOME"] == str(place.data)
    assert not [
        name
        for name in environ
        if name.startswith(("PYTHON", "CLAUDE")) or name in ("VIRTUAL_ENV", "MNEMO_PROFILE")
    ]
    streams = json.loads((place.data / "streams.json").read_text())
    assert streams == [Path(os.devnull).stat().st_rdev] * 3
    assert os.getsid(pid) == pid
    assert place.hook("session-open", PROMPT).out == b"remembered"
    assert place.pids() == [pid]


def test_socket_left_behind_by_a_killed_daemon(place: Place) -> None:
    place.script(answer="remembered")
    assert place.hook("pre-message", PROMPT).out == b"remembered"
    end(place.pids()[0])
    until(lambda: not is_listening(place))
    assert (place.data / "run/mnemo.sock").exists()
    assert place.hook("pre-message", PROMPT).out == b"remembered"
    assert len(place.pids()) == 2


def is_listening(place: Place) -> bool:
    try:
        link.connect(str(place.data), time.monotonic() + 1, start=False).close()
    except link.NotRunning:
        return False
    return True


def test_racing_hooks_end_up_with_one_daemon(place: Place) -> None:
    place.script(answer="remembered", start_after=0.1)
    ran: list[Ran] = []
    racers = [
        threading.Thread(target=lambda: ran.append(place.hook("session-open", PROMPT))) for _ in range(8)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [each.out for each in ran] == [b"remembered"] * 8
    assert len(place.pids()) == 1


def test_hanging_daemon_is_not_waited_for_and_serves_again_later(place: Place) -> None:
    daemon = place.daemon(answer=b"{}", manner="hang")
    message, opening = place.hook("pre-message", PROMPT), place.hook("session-open", PROMPT)
    assert message.silent and message.seconds < 2.0
    assert opening.silent and opening.seconds < 3.0
    daemon.manner = "answer"
    assert place.hook("pre-message", PROMPT).out == b"{}"
    assert len(place.log()) == 1 and "in time" in place.log()[0]


def test_daemon_that_cannot_start_is_given_up_at_once(place: Place) -> None:
    place.script(exit=3)
    ran = place.hook("session-open", PROMPT)
    assert ran.silent and ran.seconds < 2.0
    assert "code 3" in place.log()[0]


def test_plain_file_for_a_data_folder(place: Place) -> None:
    place.data.write_text("not a folder")
    ran = [place.hook("pre-message", PROMPT) for _ in range(20)]
    ran += [place.hook("session-open", PROMPT), place.hook("turn-end", PROMPT)]
    assert all(each.silent and each.seconds < 1.5 for each in ran)
    assert len([line for line in place.log() if "pre-message" in line]) == 1
    assert len(place.log()) <= 2
    place.data.unlink()
    place.daemon(answer=b"{}")
    assert place.hook("pre-message", PROMPT).out == b"{}"


def test_relative_data_folder_is_told_in_the_users_own_log(place: Place) -> None:
    place.environ["MNEMO_HOME"] = "memory"
    assert place.hook("pre-message", PROMPT, cwd=place.home).silent
    assert not (place.home / "memory").exists()
    assert "absolute" in place.log()[0]


def test_log_is_private_and_holds_no_payload(place: Place) -> None:
    place.script(exit=1)
    place.hook("pre-message", PROMPT, umask=0)
    log = place.data / "log/hooks.log"
    assert mode_of(log) == 0o600 and mode_of(log.parent) == 0o700
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(stamp + " claude pre-message: the daemon ended .*", place.log()[0])
    assert "postgres" not in log.read_text()


def test_damaged_installation_is_silent_and_logged(place: Place) -> None:
    place.python = make_installation(place.home / "env")
    (scripts_of(place.python) / "moments.py").write_text("raise LookupError('secret of the payload')\n")
    assert place.hook("pre-message", PROMPT).silent
    assert "LookupError" in place.log()[0] and "secret" not in place.log()[0]


@pytest.mark.parametrize("arguments", [[], ["claude"], ["claude", "nonsense"], ["../x", "turn-end"]])
def test_unknown_arguments_are_harmless(place: Place, arguments: list[str]) -> None:
    hook = scripts_of(place.python) / "hook.py"
    assert run([place.python, "-I", "-S", hook, *arguments], PROMPT, place.environ).silent


# stdin that does not end


@pytest.mark.parametrize("moment", ["pre-message", "turn-end"])
def test_stdin_that_never_ends_is_left_in_time(place: Place, moment: str) -> None:
    daemon = place.daemon()
    assert open_ended(place, moment, b'{"prompt": "unfin').silent
    assert not daemon.requests and not place.kept()


def test_whole_payload_without_an_end_is_taken(place: Place) -> None:
    daemon = place.daemon(answer=b"{}")
    assert open_ended(place, "pre-message", PROMPT + b"\n").out == b"{}"
    assert daemon.requests[0].body == PROMPT + b"\n"


def open_ended(place: Place, moment: str, stdin: bytes) -> Ran:
    began = time.monotonic()
    command = [str(place.python), "-I", "-S", str(scripts_of(place.python) / "hook.py"), "claude", moment]
    with subprocess.Popen(
        command, env=place.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(stdin)
        process.stdin.flush()
        code = process.wait(moments.SECONDS[moment] + 1.0)
        return Ran(code, process.stdout.read(), process.stderr.read(), time.monotonic() - began)


def test_endless_stdin_is_bounded(place: Place) -> None:
    hook = scripts_of(place.python) / "hook.py"
    with subprocess.Popen(["/bin/sh", "-c", "exec yes '{\"prompt\"'"], stdout=subprocess.PIPE) as source:
        ran = subprocess.run(
            [place.python, "-I", "-S", hook, "claude", "session-open"],
            stdin=source.stdout,
            env=place.environ,
            capture_output=True,
            timeout=5,
            check=False,
        )
        source.kill()
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert "64 MB" in place.log()[0]


def test_closed_streams_are_harmless(place: Place) -> None:
    place.daemon(answer=b"{}")
    hook = scripts_of(place.python) / "hook.py"
    script = f"'{place.python}' -I -S '{hook}' claude pre-message"
    assert run(["/bin/sh", "-c", f"{script} <&-"], PROMPT, place.environ).silent
    assert run(["/bin/sh", "-c", f"{script} >&- 2>&-"], PROMPT, place.environ).silent


# payloads that wait in the inbox


@pytest.mark.parametrize(
    ("moment", "payloads"),
    [
        ("turn-end", [b'{"n": 1, "text": "\xff\xfe \xe3\x83\x87"}\r\n', b'{"n": 2}', b'{"n": 3']),
        ("session-end", [b'{"n": 1}']),
    ],
)
def test_unacknowledged_payloads_wait_in_the_inbox(place: Place, moment: str, payloads: list[bytes]) -> None:
    daemon = place.daemon(manner="hang")
    for payload in payloads:
        ran = place.hook(moment, payload, umask=0)
        assert ran.silent and ran.seconds < 1.5
    assert [file.read_bytes() for file in place.kept()] == payloads
    assert [mode_of(file) for file in place.kept()] == [0o600] * len(payloads)
    assert mode_of(place.data / "inbox") == 0o700
    for file, request in zip(place.kept(), daemon.requests, strict=True):
        received, client, kept_moment, profile = inbox.read_name(file.name) or (0, "", "", "")
        assert (client, kept_moment, profile) == ("claude", moment, "")
        assert abs(received / 1e9 - time.time()) < 60
        assert file.name.startswith(request.headers["mnemo-delivery"])


@pytest.mark.parametrize("script", [{"status": 500}, {"manner": "drop"}, {"manner": "cut", "answer": b"{}"}])
def test_refused_or_broken_delivery_waits_in_the_inbox(place: Place, script: dict[str, object]) -> None:
    place.daemon(**script)
    assert place.hook("turn-end", PROMPT).silent
    assert [file.read_bytes() for file in place.kept()] == [PROMPT]


def test_turn_end_without_a_daemon_keeps_the_turn_and_starts_one_for_it(place: Place) -> None:
    place.script(start_after=1.0)
    place.environ["MNEMO_PROFILE"] = "client X"
    ran = place.hook("turn-end", PROMPT)
    assert ran.silent and ran.seconds < 1.0
    [file] = place.kept()
    assert (inbox.read_name(file.name) or ())[1:] == ("claude", "turn-end", "client X")
    until(place.pids)


def test_session_end_starts_nothing(place: Place) -> None:
    assert place.hook("session-end", PROMPT).silent
    assert len(place.kept()) == 1
    time.sleep(0.3)
    assert not (place.data / "run").exists() and not place.pids()


def test_inbox_out_of_use_is_silent_and_logged(place: Place) -> None:
    place.daemon(status=503)
    (place.data / "inbox").write_text("not a folder")
    assert place.hook("turn-end", PROMPT).silent
    assert "cannot be kept" in place.log()[0]


@pytest.mark.parametrize(
    "name", ["x.json", "1-2-claude-turn-end.json.tmp", "1-2-claude-turn-end@zz.json", ".json"]
)
def test_other_names_in_the_inbox_are_told_apart(name: str) -> None:
    assert inbox.read_name(name) is None
