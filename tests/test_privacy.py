"""What is not remembered: excluded folders, private sessions, private passages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemo_mcp.capture.privacy import MARKER
from mnemo_mcp.daemon.local import pipe_caller
from mnemo_mcp.daemon.verbs import remember
from mnemo_mcp.errors import Refused
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

WORD = "Falcon"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    settings = Settings(tmp_path / "data", encoders=Encoders("off", "off"), transcript_roots=(str(tmp_path),))
    with Service(settings, lambda: datetime(2026, 3, 2, 10, tzinfo=UTC)) as opened:
        opened.remember("The merger with Hawk is due in May", kind="decision")
        yield opened


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A client's project, beside others, with a link that leads to it."""
    folder = tmp_path / "clients/acme"
    (folder / "src/deep").mkdir(parents=True)
    (tmp_path / "c").symlink_to(folder)
    return folder


def exclude(service: Service, *patterns: str) -> None:
    (service.settings.home / "config.toml").write_text(f"exclude = {json.dumps(patterns)}\n")


def hook(
    service: Service, moment: str, cwd: Path, session: str = "s-1", client: str = "claude", **more: Any
) -> str:
    return service.hook(client, moment, json.dumps({"session_id": session, "cwd": str(cwd), **more}).encode())


def whole_session(service: Service, cwd: Path, session: str = "s-1") -> str:
    """All four moments, the word in each of them; what was injected."""
    transcript = service.settings.home.parent / f"{session}.jsonl"
    records = [
        {"type": "user", "promptId": "p", "message": {"role": "user", "content": f"Who buys {WORD}?"}},
        {
            "type": "user",
            "promptId": "p",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": f"{WORD}.txt"}]},
        },
    ]
    transcript.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    end = {
        "prompt_id": "p",
        "transcript_path": str(transcript),
        "last_assistant_message": f"{WORD} is bought.",
    }
    said = hook(service, "session-open", cwd, session, source="startup")
    said += hook(
        service, "pre-message", cwd, session, prompt="when is the merger with Hawk due?", prompt_id="p"
    )
    return (
        said
        + hook(service, "turn-end", cwd, session, **end)
        + hook(service, "session-end", cwd, session, **end)
    )


def stored(service: Service) -> list[str]:
    """What hooks have brought."""
    return [episode.text for _, episode in service.store.episodes.after(0, 1000) if episode.session]


def agent_remembers(service: Service, cwd: Path, session: str = "") -> dict[str, Any]:
    caller = pipe_caller({"mnemo": "mcp", "cwd": str(cwd), "session": session})
    return remember(service, {"what": f"{WORD} is bought"}, caller)


@pytest.mark.parametrize("place", ["clients/acme", "clients/acme/src/deep", "c", "c/src"])
def test_nothing_of_an_excluded_folder_is_stored_or_told(
    service: Service, acme: Path, tmp_path: Path, place: str
) -> None:
    exclude(service, f"{tmp_path}/clients/**")
    assert whole_session(service, tmp_path / place) == ""
    with pytest.raises(Refused, match=r"^This project is excluded from memory, so nothing is stored here\.$"):
        agent_remembers(service, tmp_path / place)
    assert stored(service) == []
    service.close()
    files = [each for each in service.settings.home.rglob("*") if each.is_file()]
    assert files and not [each for each in files if WORD.encode() in each.read_bytes()]


@pytest.mark.parametrize("place", ["", "src/deep"])
def test_marker_file_excludes_its_folder(service: Service, acme: Path, place: str) -> None:
    (acme / MARKER).touch()
    assert whole_session(service, acme / place) == ""
    with pytest.raises(Refused):
        agent_remembers(service, acme / place)
    assert stored(service) == []
    (acme / MARKER).unlink()
    assert "Hawk" in whole_session(service, acme / place)


def test_exclusion_counts_from_the_next_call_on(service: Service, acme: Path, tmp_path: Path) -> None:
    exclude(service, f"{tmp_path}/clients/**")
    assert whole_session(service, acme) == ""
    exclude(service)
    assert "Hawk" in whole_session(service, acme)
    assert agent_remembers(service, acme)["outcome"] == "added"
    exclude(service, f"{tmp_path}/cl*/acm?")
    assert whole_session(service, acme, "s-2") == ""
    (service.settings.home / "config.toml").write_text("exclude = [")  # half written
    assert whole_session(service, acme, "s-3") == ""
    (service.settings.home / "config.toml").unlink()
    assert "Hawk" in whole_session(service, acme, "s-4")


@pytest.mark.parametrize(
    ("pattern", "folder", "excluded"),
    [
        ("{0}/clients/**", "clients", True),
        ("{0}/clients", "clients/acme", True),
        ("{0}/clients/", "clients/acme", True),
        ("{0}/clients/**", "clients-of-mine", False),
        ("{0}/*/acme", "clients/acme/src", True),
        ("{0}/*/acme", "clients/inner/acme", False),
        ("{0}/**/acme", "clients/inner/acme", True),
        ("{0}/c", "clients/acme", True),
        ("{0}/client?/acme", "clients/acme", True),
        ("{0}/cl[i]ents", "clients", False),
        ("relative/**", "relative", False),
        ("", "clients", False),
    ],
)
def test_pattern(
    service: Service, acme: Path, tmp_path: Path, pattern: str, folder: str, excluded: bool
) -> None:
    exclude(service, pattern.format(tmp_path))
    assert service.privacy.excludes(str(tmp_path / folder)) == excluded


def test_home_is_expanded(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    exclude(service, "~/clients/**")
    assert service.privacy.excludes(str(tmp_path / "clients/acme"))


@pytest.mark.parametrize("said", ["/mnemo:private", "mnemo private", "  Mnemo: private\n"])
@pytest.mark.parametrize("client", ["claude", "codex"])
def test_private_session_is_not_remembered_from_then_on(
    service: Service, acme: Path, said: str, client: str
) -> None:
    hook(service, "pre-message", acme, client=client, prompt="an open question", prompt_id="p0")
    assert hook(service, "pre-message", acme, client=client, prompt=said, prompt_id="p1") == ""
    assert whole_session(service, acme) == ""
    with pytest.raises(Refused, match=r"^This session is private, so nothing of it is stored\.$"):
        agent_remembers(service, acme, "s-1")
    assert stored(service) == ["an open question"]
    assert "Hawk" in whole_session(service, acme, "s-2")  # another one


def test_private_session_can_be_opened_again(service: Service, acme: Path) -> None:
    hook(service, "pre-message", acme, prompt="/mnemo:private", prompt_id="p1")
    hook(service, "pre-message", acme, prompt="/mnemo:private off", prompt_id="p2")
    assert "Hawk" in whole_session(service, acme)
    assert not any("private" in text for text in stored(service))


@pytest.mark.parametrize("prompt", ["what does mnemo private do?", "mnemo private sessions, please"])
def test_question_about_privacy_is_a_question(service: Service, acme: Path, prompt: str) -> None:
    hook(service, "pre-message", acme, prompt=prompt, prompt_id="p1")
    assert stored(service) == [prompt]


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        (f"plan it <private>the merger is called {WORD}</private> by May", "plan it [private] by May"),
        (f"plan it <private>the merger is called {WORD}, and so on", "plan it [private]"),
    ],
)
def test_private_passage_is_nowhere(service: Service, acme: Path, prompt: str, kept: str) -> None:
    hook(service, "pre-message", acme, prompt=prompt, prompt_id="p1")
    assert stored(service) == [kept]
    agent = pipe_caller({"cwd": str(acme)})
    remember(service, {"what": f"The merger <private>{WORD}</private> is in May"}, agent)
    service.close()
    files = [each for each in service.settings.home.rglob("*") if each.is_file()]
    assert not [each for each in files if WORD.encode() in each.read_bytes()]
