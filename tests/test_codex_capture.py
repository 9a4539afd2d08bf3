"""Codex: what its hooks and its rollout files say becomes episodes, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_mcp.capture.rollout import read_turn
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

SESSION, TURN = "019-s", "019-t"


class Rollout:
    """The file of one session as Codex 0.171.0 writes it."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".codex/sessions/2026/03/02/rollout-2026-03-02T10-00-00-019-s.jsonl"
        self.path.parent.mkdir(parents=True)
        self.add("session_meta", id=SESSION, cwd="/home/dev/atlas", cli_version="0.171.0")

    def add(self, kind: str, **payload: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            record = {"timestamp": "2026-03-02T10:00:01.000Z", "type": kind, "payload": payload}
            file.write(json.dumps(record) + "\n")

    def item(self, kind: str, number: str, turn: str = TURN, **fields: Any) -> None:
        item = {"type": kind, "id": number, **fields}
        self.add("event_msg", type="item_completed", turn_id=turn, item=item)

    def turn(self, prompt: str, answer: str, turn: str = TURN) -> None:
        """A turn with everything in it."""
        marks = {"turn_id": turn, "content_item_kinds": ["hooks.additional_context"]}
        self.add("event_msg", type="task_started", turn_id=turn)
        self.add("turn_context", turn_id=turn, model="a-model")
        self.add(
            "response_item",
            type="message",
            role="developer",
            content=[{"type": "input_text", "text": "<mnemo-notes>injected</mnemo-notes>"}],
            internal_chat_message_metadata_passthrough=marks,
        )
        self.item("UserMessage", f"u-{turn}", turn, content=[{"type": "text", "text": prompt}])
        self.item("Reasoning", f"r-{turn}", turn, summary_text=["thinking"])
        recalled = {"content": [{"type": "text", "text": "- [fact] recalled"}], "isError": False}
        found = {"content": [{"type": "text", "text": "ticket 7 is open"}], "isError": False}
        self.item("McpToolCall", f"m-{turn}", turn, server="mnemo", tool="recall", result=recalled)
        self.item("McpToolCall", f"n-{turn}", turn, server="tickets", arguments={"id": 7}, result=found)
        shell = {"command": ["/bin/sh", "-lc", "make"], "aggregated_output": "built 17 files\n"}
        self.item("CommandExecution", f"c-{turn}", turn, **shell)
        self.item("ContextCompaction", f"k-{turn}", turn)
        self.item("AgentMessage", f"a-{turn}", turn, content=[{"type": "Text", "text": answer}])
        self.add("token_usage_record", turn_id=turn, response_id=f"x-{turn}", usage={"input_tokens": 70})
        self.add("token_usage_record", turn_id=turn, response_id=f"y-{turn}", usage={"input_tokens": 30})


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    roots = (str(tmp_path / ".codex/sessions"),)
    chosen = Settings(tmp_path / "data", encoders=Encoders("off", "off"), transcript_roots=roots)
    with Service(chosen, lambda: datetime(2026, 3, 2, 10, tzinfo=UTC)) as opened:
        yield opened


def hook(service: Service, moment: str, **fields: Any) -> str:
    common = {
        "session_id": SESSION,
        "cwd": "/home/dev/atlas",
        "model": "a-model",
        "permission_mode": "default",
    }
    return service.hook("codex", moment, json.dumps({**common, **fields}).encode())


def stop(
    service: Service, rollout: Rollout, answer: str, turn: str | None = TURN, moment: str = "turn-end"
) -> None:
    named = {"turn_id": turn, "stop_hook_active": False, "last_assistant_message": answer} if turn else {}
    hook(service, moment, transcript_path=str(rollout.path), hook_event_name="Stop", **named)


def told(service: Service) -> list[tuple[str, str]]:
    episodes = [each for _, each in service.store.episodes.after(0, 1000)]
    return [(str(each.role), each.text) for each in episodes if each.session]


FULL = [
    ("person", "build it"),
    ("tool", "ticket 7 is open"),
    ("tool", "built 17 files\n"),
    ("assistant", "It is built."),
]


def test_turn_brings_prompt_tool_results_and_answer(service: Service, rollout: Rollout) -> None:
    rollout.turn("an older question", "an older answer", "019-0")
    rollout.turn("build it", "It is built.")
    hook(service, "pre-message", hook_event_name="UserPromptSubmit", prompt="build it", turn_id=TURN)
    stop(service, rollout, "It is built.")
    stop(service, rollout, "It is built.")
    stop(service, rollout, "", turn=None, moment="session-end")  # names no turn, and means the last one
    assert told(service) == FULL


def test_turn_without_its_end_is_stored_at_the_end_of_the_session(service: Service, rollout: Rollout) -> None:
    rollout.turn("build it", "")
    stop(service, rollout, "", turn=None, moment="session-end")
    assert told(service) == FULL[:3]


def test_what_was_done_and_read(rollout: Rollout) -> None:
    rollout.turn("build it", "It is built.")
    turn = read_turn(rollout.path, TURN)
    assert (turn.calls, turn.read, turn.id) == (2, 100, TURN)
    assert "make" in turn.acts and '"id": 7' in turn.acts and "recalled" not in turn.acts
    assert read_turn(rollout.path, "another").lines == ()


def test_session_without_a_file(service: Service) -> None:
    hook(service, "pre-message", prompt="build it", turn_id=TURN)
    hook(service, "turn-end", transcript_path=None, turn_id=TURN, last_assistant_message="It is built.")
    assert told(service) == [FULL[0], FULL[3]]


@pytest.mark.parametrize(
    "prompt",
    [
        "<hook_prompt id='1'>go on</hook_prompt>",
        "<turn_aborted>\nby hand\n</turn_aborted>",
        "[SYSTEM NOTIFICATION] x",
    ],
)
def test_notice_is_nobodys_word(service: Service, prompt: str) -> None:
    service.remember("Atlas goes on by hand")
    assert hook(service, "pre-message", hook_event_name="UserPromptSubmit", prompt=prompt, turn_id=TURN) == ""
    assert told(service) == [("notice", prompt)]


def test_subagents_task_is_not_the_persons(service: Service) -> None:
    service.remember("The README of Atlas is in docs")
    given = {
        "prompt": "read the README of Atlas",
        "turn_id": TURN,
        "agent_id": "019-a",
        "agent_type": "default",
    }
    assert hook(service, "pre-message", hook_event_name="UserPromptSubmit", **given) == ""
    assert told(service) == []


def test_after_compaction_it_is_told_again(service: Service) -> None:
    service.remember("Atlas deploys on weekdays", kind="decision")
    for source, said in (("startup", True), ("resume", False), ("compact", True), ("resume", False)):
        answer = hook(service, "session-open", hook_event_name="SessionStart", source=source)
        assert ("weekdays" in answer) == said
        if answer:
            assert json.loads(answer).keys() == {"hookSpecificOutput"}
            assert json.loads(answer)["hookSpecificOutput"]["hookEventName"] == "SessionStart"


JSON = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["item_completed", "task_started", TURN]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "payload", "turn_id", "item", "content", "usage", "result", "text", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.lists(JSON, max_size=6), st.sampled_from(["", TURN]))
@settings(deadline=None, max_examples=100)
def test_any_rollout_is_harmless(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], turn: str
) -> None:
    rollout = Rollout(tmp_path_factory.mktemp("rollout"))
    rollout.turn("build it", "It is built.")
    whole, own = read_turn(rollout.path, turn), rollout.path.read_bytes()
    assert len(whole.lines) == 3
    junk = b"\xff{\n" + b"".join(json.dumps(each).encode() + b"\n" for each in records)
    rollout.path.write_bytes(junk + own)
    assert read_turn(rollout.path, turn) == whole
    rollout.path.write_bytes(junk)
    read_turn(rollout.path, turn)
