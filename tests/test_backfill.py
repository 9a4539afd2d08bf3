"""Backfill: past transcripts are taken in once, with their own times, and only those that may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conversation import answers, memory
from desk import OFF, StillClock
from openai_server import ModelServer, says
from product import Product
from test_codex_capture import Rollout
from transcripts import Transcript

from mnemo_mcp.capture.transcript import transcript_roots
from mnemo_mcp.daemon.verbs import VERBS, Caller
from mnemo_mcp.errors import NotFound
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Endpoint, Models, Settings

ATLAS = "/home/dev/atlas"
GATEWAY = "Gateway timeout is now 600 s because the LB cut streams at 120 s."


def _claude(home: Path, session: str, *turns: tuple[str, str], cwd: str = ATLAS) -> Transcript:
    transcript = Transcript(home, session)
    for number, (prompt, answer) in enumerate(turns):
        turn = f"{session}-{number}"
        transcript.prompt(prompt, turn, cwd=cwd)
        transcript.tool("Bash", f"built {session} {number}", turn)
        transcript.says(answer)
    return transcript


def _settings(home: Path, **more: Any) -> Settings:
    roots = (str(home / ".claude/projects"), str(home / ".codex/sessions"))
    return Settings(home=home / "data", zone="UTC", encoders=OFF, transcript_roots=roots, **more)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("HOME", str(tmp_path))  # no transcripts of whoever runs the tests
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    with Service.open(settings=_settings(tmp_path), clock=StillClock()) as opened:
        yield opened


def _run(service: Service, **given: Any) -> list[dict[str, Any]]:
    """All of a backfill, as the command does it."""
    found = VERBS["past_sessions"](service, given, Caller())["sessions"]
    taken = (VERBS["take_session"](service, {**given, "path": each["path"]}, Caller()) for each in found)
    return [dict(each) for each in taken if each["turns"]]


def _texts(service: Service) -> list[str]:
    return [each.text for each in service.store.episodes.all()]


def test_sessions_of_both_clients_are_taken_in_with_their_own_times(service: Service, tmp_path: Path) -> None:
    _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
    rollout = Rollout(tmp_path)
    rollout.turn("The broker is Otter.", "Good to know.")
    rollout.add("event_msg", type="task_complete", turn_id="019-t", last_agent_message="Good to know.")
    taken = _run(service)
    assert sorted((each["client"], each["turns"], each["episodes"]) for each in taken) == [
        ("claude", 1, 3),
        ("codex", 1, 4),
    ]
    episodes = {each.text: each for each in service.store.episodes.all()}
    asked = episodes[GATEWAY]
    assert (asked.session, asked.project, asked.client) == ("s-1", ATLAS, "claude")
    assert asked.occurred_at.startswith("2026-03-02T09:") and asked.recorded_at.startswith("2026-09-14")
    assert episodes["The broker is Otter."].occurred_at.startswith("2026-03-02T10:")
    assert service.store.work.waiting() == {"distil": 2}


def test_once_more_adds_nothing(service: Service, tmp_path: Path) -> None:
    _claude(tmp_path, "s-1", (GATEWAY, "Noted."), ("And the broker?", "It is Otter."))
    Rollout(tmp_path).turn("The broker is Otter.", "Good to know.")
    _run(service)
    before = _texts(service)
    again = _run(service)
    assert _texts(service) == before
    assert [each["episodes"] for each in again] == [0, 0]
    assert sum(each["known"] for each in again) == len(before)


def test_a_dry_run_stores_nothing_and_tells_what_would_come(service: Service, tmp_path: Path) -> None:
    _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
    [would] = _run(service, dry_run=True)
    assert _texts(service) == [] and service.store.work.waiting() == {}
    assert would["requests"] == 1 and would["tokens_in"] > 500 and would["cost"] == 0
    [did] = _run(service)
    same = ("turns", "episodes", "requests", "tokens_in", "tokens_out")
    assert [would[name] for name in same] == [did[name] for name in same]


def test_what_the_hooks_stored_is_not_stored_again(service: Service, tmp_path: Path) -> None:
    transcript = _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
    turn = {"prompt_id": "s-1-0", "session_id": "s-1", "cwd": ATLAS}
    prompt = {**turn, "prompt": GATEWAY, "hook_event_name": "UserPromptSubmit"}
    end = {**turn, "last_assistant_message": "Noted.", "transcript_path": str(transcript.path)}
    service.hook("claude", "pre-message", json.dumps(prompt).encode())
    service.hook("claude", "turn-end", json.dumps(end).encode())
    before = _texts(service)
    [taken] = _run(service)
    assert _texts(service) == before and taken["known"] == len(before) == 3


def test_a_run_that_was_broken_off_goes_on(service: Service, tmp_path: Path) -> None:
    for number in range(3):
        _claude(tmp_path, f"s-{number}", (f"Port 80{number}1 is ours.", "Noted."))
    first = VERBS["past_sessions"](service, {}, Caller())["sessions"][0]
    VERBS["take_session"](service, {"path": first["path"]}, Caller())
    assert sorted(each["episodes"] for each in _run(service)) == [0, 3, 3]


@pytest.mark.parametrize(
    ("given", "sessions"),
    [
        ({"client": "codex"}, {"019-s"}),
        ({"client": "claude"}, {"s-1", "s-2"}),
        ({"project": "borealis"}, {"s-2"}),
        ({"project": "/home/dev/borealis"}, {"s-2"}),
        ({"since": "2026-03-02T09:30:00Z"}, {"019-s"}),
        ({"since": "2026-04-01"}, set()),
    ],
)
def test_only_what_is_wanted(
    service: Service, tmp_path: Path, given: dict[str, str], sessions: set[str]
) -> None:
    _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
    _claude(tmp_path, "s-2", ("Borealis is in Oslo.", "Noted."), cwd="/home/dev/borealis")
    Rollout(tmp_path).turn("The broker is Otter.", "Good to know.")
    assert {each["session"] for each in _run(service, **given)} == sessions


def test_excluded_folders_and_private_sessions_stay_out(service: Service, tmp_path: Path) -> None:
    (service.settings.home / "config.toml").write_text('exclude = ["/home/dev/clients/**"]\n')
    _claude(tmp_path, "s-1", ("The merger is called Falcon.", "Noted."), cwd="/home/dev/clients/acme")
    _claude(tmp_path, "s-2", ("The merger is called Falcon.", "Noted."))
    declared = {"session_id": "s-2", "cwd": ATLAS, "prompt": "mnemo: private"}
    service.hook("claude", "pre-message", json.dumps(declared).encode())
    assert _run(service) == [] and _texts(service) == []


def test_secrets_notes_and_subagents_stay_out(service: Service, tmp_path: Path) -> None:
    secret = "LEAK" + "7" * 20
    transcript = _claude(tmp_path, "s-1", (f"db_password={secret}", "Noted."))
    transcript.prompt("sub", "side", isSidechain=True)
    transcript.says("an answer of a subagent", isSidechain=True)
    below = transcript.path.parent / "s-1/subagents/agent-1.jsonl"
    below.parent.mkdir(parents=True)
    below.write_bytes(transcript.path.read_bytes())
    assert len(_run(service)) == 1
    assert not any(secret in text or "subagent" in text or "mnemo-notes" in text for text in _texts(service))


def test_broken_lines_and_unknown_records_are_passed_over(service: Service, tmp_path: Path) -> None:
    transcript = _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
    transcript.raw('{"half": ')
    transcript.raw("[]")
    transcript.prompt([{"type": "image"}], "s-1-9")
    transcript.prompt("and then?", "s-1-10")  # broken off: no answer
    _run(service)
    assert {GATEWAY, "Noted.", "and then?"} <= set(_texts(service))


def test_no_other_file_is_read(service: Service, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.jsonl"
    other.write_text("{}\n")
    with pytest.raises(NotFound):
        VERBS["take_session"](service, {"path": str(other)}, Caller())


def test_what_is_read_of_the_past_is_true_since_then_and_known_since_now(tmp_path: Path) -> None:
    claim = memory("The gateway timeout is 600 s.")
    with ModelServer(lambda request: says(answers(claim))) as server:
        models = Models(endpoint={"lm": Endpoint(**server.settings(price_in=1.0))}, extraction="lm")
        clock = StillClock()
        _claude(tmp_path, "s-1", (GATEWAY, "Noted."))
        with Service.open(settings=_settings(tmp_path, models=models), clock=clock) as service:
            assert transcript_roots(service.settings.transcript_roots)
            found = [
                each
                for each in VERBS["past_sessions"](service, {}, Caller())["sessions"]
                if str(tmp_path) in each["path"]
            ]
            assert VERBS["take_session"](service, {"path": found[0]["path"]}, Caller())["cost"] > 0
            while service.tasks.work_off("distil"):
                pass
            [stored] = service.store.truth.changed_since(0)[1]
    assert stored.valid_from.startswith("2026-03-02T09:") and stored.assumed
    assert stored.known_at.startswith("2026-09-14")


def test_command(product: Product) -> None:
    _claude(product.home, "s-1", (GATEWAY, "Noted."))
    dry = product.run("backfill", "--dry-run", MNEMO_ENCODERS="off")
    assert dry.returncode == 0, dry.stderr.decode()
    assert b"would bring 3 new episodes" in dry.stdout and b"1 of 1 transcripts" in dry.stderr
    assert product.episodes() == []
    done = product.json("backfill", "--client", "claude")
    assert (done["episodes"], done["turns"], done["dry_run"]) == (3, 1, False)
    assert product.json("backfill")["episodes"] == 0
    assert len(product.episodes("s-1")) == 3
    assert datetime.now(UTC).isoformat()[:10] == product.episodes()[0]["recorded_at"][:10]
