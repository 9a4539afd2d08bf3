"""Capture: what a session says becomes episodes, each once, without its secrets and without harm."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from transcripts import Transcript

from mnemo_mcp.capture.project import project_of
from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.memory import Episode
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
from mnemo_mcp.thin import inbox
from mnemo_mcp.thin.moments import HANDED_OVER, SECONDS

ATLAS = "/home/dev/atlas"
NOTICE = "<task-notification>\n<task-id>b1</task-id>\n<summary>CI failed</summary>\n</task-notification>"
CONTINUE = "continue with the migration"


class Clock:
    """The time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    with Service(settings_of(tmp_path), clock) as opened:
        yield opened


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for many examples."""
    with Service(settings_of(tmp_path_factory.mktemp("lasting")), Clock()) as opened:
        opened.remember("Atlas listens on port 8080", kind="decision")
        yield opened


def settings_of(folder: Path) -> Settings:
    projects = (str(folder / ".claude/projects"),)
    return Settings(folder / "data", encoders=Encoders("off", "off"), transcript_roots=projects)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def hook(service: Service, moment: str, **fields: Any) -> str:
    payload = {"session_id": "s-1", "cwd": ATLAS, **fields}
    return service.hook("claude", moment, json.dumps(payload).encode())


def asked(service: Service, prompt: str, turn: str, **fields: Any) -> None:
    hook(service, "pre-message", prompt=prompt, prompt_id=turn, **fields)


def ended(service: Service, transcript: Transcript, turn: str, answer: str = "", **fields: Any) -> None:
    path = str(transcript.path)
    hook(service, "turn-end", transcript_path=path, prompt_id=turn, last_assistant_message=answer, **fields)


def stored(service: Service) -> list[Episode]:
    return [episode for _, episode in service.store.episodes.after(0, 100_000)]


def told(service: Service) -> list[tuple[str, str]]:
    return [(str(each.role), each.text) for each in stored(service)]


# what a turn brings


def full_turn(transcript: Transcript) -> None:
    """A turn with everything in it, after another one."""
    transcript.prompt("an older question", "t-0")
    transcript.tool("Bash", "older output", "t-0")
    transcript.says("an older answer")
    transcript.prompt("what does the gateway log say?", "t-1")
    transcript.add("user", message={"role": "user", "content": "(client note)"}, isMeta=True, promptId="t-1")
    transcript.tool("mcp__plugin_mnemo_mnemo__recall", "- [fact] recalled earlier", "t-1")
    transcript.tool("mcp__mnemo__recall", "- [fact] recalled by hand", "t-1")
    transcript.tool("Bash", "timeout after 120 s", "t-1")
    transcript.tool("Read", [{"type": "text", "text": "idle: 600"}, {"type": "image"}], "t-1")
    transcript.tool("Bash", "", "t-1")
    transcript.prompt("find the timeout", "t-1", isSidechain=True, agentId="a1")
    transcript.says("a subagent's answer", isSidechain=True, agentId="a1")
    transcript.says("It says that the stream was cut at 120 s.")


FULL = [
    ("person", "what does the gateway log say?"),
    ("tool", "timeout after 120 s"),
    ("tool", "idle: 600"),
    ("assistant", "It says that the stream was cut at 120 s."),
]


def test_turn_brings_prompt_tool_results_and_answer(service: Service, transcript: Transcript) -> None:
    full_turn(transcript)
    ended(service, transcript, "t-1", "It says that the stream was cut at 120 s.")
    assert told(service) == FULL
    person, *_, answer = stored(service)
    assert (
        person.occurred_at.startswith("2026-03-02T09:") and answer.occurred_at == "2026-03-02T10:00:00.000Z"
    )
    assert {(each.session, each.project, each.client) for each in stored(service)} == {
        ("s-1", ATLAS, "claude")
    }


def test_turn_is_stored_once_however_often_it_is_told(service: Service, transcript: Transcript) -> None:
    asked(service, "what does the gateway log say?", "t-1")
    full_turn(transcript)
    for active in (False, True, False):
        ended(
            service, transcript, "t-1", "It says that the stream was cut at 120 s.", stop_hook_active=active
        )
    hook(service, "session-end", transcript_path=str(transcript.path), prompt_id="t-1", reason="other")
    assert told(service) == FULL


def test_turn_that_was_interrupted_is_stored_at_the_end_of_the_session(
    service: Service, transcript: Transcript
) -> None:
    asked(service, "what does the gateway log say?", "t-1")
    full_turn(transcript)
    hook(service, "session-end", transcript_path=str(transcript.path), prompt_id="t-1", reason="other")
    assert told(service) == FULL[:-1]


def test_client_without_turn_ids_tells_of_its_last_turn(service: Service, transcript: Transcript) -> None:
    transcript.prompt("an older question", "t-0")
    transcript.tool("Bash", "older output", "t-0")
    transcript.prompt("which port?", "t-1")
    transcript.tool("Bash", "listening on 8080", "t-1")
    hook(service, "pre-message", prompt="which port?")
    hook(service, "turn-end", transcript_path=str(transcript.path), last_assistant_message="8080.")
    assert told(service) == [
        ("person", "which port?"),
        ("tool", "listening on 8080"),
        ("assistant", "8080."),
    ]


def test_next_turn_is_not_part_of_this_one(service: Service, transcript: Transcript) -> None:
    full_turn(transcript)
    transcript.prompt("and the next question?", "t-2")
    transcript.tool("Bash", "later output", "t-2")
    ended(service, transcript, "t-1", "It says that the stream was cut at 120 s.")
    assert told(service) == FULL


def test_equal_results_of_two_calls_are_two_episodes(service: Service, transcript: Transcript) -> None:
    transcript.prompt("run the tests twice", "t-1")
    transcript.tool("Bash", "12 passed", "t-1")
    transcript.tool("Bash", "12 passed", "t-1")
    ended(service, transcript, "t-1")
    assert told(service)[1:] == [("tool", "12 passed")] * 2


def test_notice_is_nobodys_word(service: Service, transcript: Transcript) -> None:
    asked(service, NOTICE, "t-1")
    transcript.prompt(NOTICE, "t-1", origin={"kind": "task-notification"})
    transcript.tool("Bash", "exit code 0", "t-1")
    ended(service, transcript, "t-1", "The job is done.")
    assert told(service) == [
        ("notice", NOTICE),
        ("tool", "exit code 0"),
        ("assistant", "The job is done."),
    ]


def test_command_is_stored_as_it_was_typed(service: Service, transcript: Transcript) -> None:
    asked(service, "/deploy staging", "t-1")
    expanded = "<command-message>deploy</command-message>\n<command-name>/deploy</command-name>"
    transcript.prompt("an older question", "t-0")
    transcript.prompt(expanded, "t-1")
    transcript.prompt("(what the command says)", "t-1", isMeta=True)
    transcript.tool("Bash", "deployed to staging", "t-1")
    ended(service, transcript, "t-1", "Done.")
    assert told(service) == [
        ("person", "/deploy staging"),
        ("tool", "deployed to staging"),
        ("assistant", "Done."),
    ]


def test_prompt_with_a_picture_begins_a_turn(service: Service, transcript: Transcript) -> None:
    asked(service, "what is in this picture?", "t-1")
    transcript.prompt("an older question", "t-0")
    transcript.prompt([{"type": "text", "text": "what is in this picture?"}, {"type": "image"}], "t-1")
    transcript.tool("Bash", "a gateway", "t-1")
    ended(service, transcript, "t-1", "A gateway.")
    assert told(service)[1:] == [("tool", "a gateway"), ("assistant", "A gateway.")]


def test_long_turn_is_stored_from_its_beginning(service: Service, transcript: Transcript) -> None:
    transcript.prompt("read all the logs", "t-1")
    transcript.tool("Bash", "the first result", "t-1")
    for _ in range(5):
        transcript.raw(json.dumps({"type": "api-request-blob", "message": "x" * (1 << 20)}))
    transcript.tool("Bash", "the last result", "t-1")
    ended(service, transcript, "t-1")
    assert told(service) == [
        ("person", "read all the logs"),
        ("tool", "the first result"),
        ("tool", "the last result"),
    ]


# prompts that waited in the client's queue: announced under the id of the turn that ran


def test_queued_prompt_is_one_episode(service: Service, transcript: Transcript) -> None:
    asked(service, "build it", "t-1")
    asked(service, "then run the tests", "t-1")
    transcript.prompt("build it", "t-1")
    transcript.tool("Bash", "built", "t-1")
    ended(service, transcript, "t-1", "It is built.")
    transcript.prompt("then run the tests", "t-2", promptSource="queued")
    transcript.tool("Bash", "12 passed", "t-2")
    for _ in range(2):
        ended(service, transcript, "t-2", "All pass.")
    assert told(service) == [
        ("person", "build it"),
        ("person", "then run the tests"),
        ("tool", "built"),
        ("assistant", "It is built."),
        ("tool", "12 passed"),
        ("assistant", "All pass."),
    ]


def persons(service: Service) -> list[str]:
    return [text for role, text in told(service) if role == "person"]


def test_several_queued_prompts_are_one_episode_each(service: Service, transcript: Transcript) -> None:
    for prompt in ("build it", "run the tests", "deploy it"):
        asked(service, prompt, "t-1")
    for turn, prompt in [("t-1", "build it"), ("t-2", "run the tests"), ("t-3", "deploy it")]:
        transcript.prompt(prompt, turn)
        ended(service, transcript, turn, f"Done: {prompt}.")
    assert persons(service) == ["build it", "run the tests", "deploy it"]


def test_same_prompt_typed_again_is_another_episode(service: Service, transcript: Transcript) -> None:
    asked(service, "build it", "t-1")
    asked(service, CONTINUE, "t-1")
    for turn, prompt in [("t-1", "build it"), ("t-2", CONTINUE), ("t-3", "wait"), ("t-4", CONTINUE)]:
        if turn in ("t-3", "t-4"):
            asked(service, prompt, turn)
        transcript.prompt(prompt, turn)
        ended(service, transcript, turn, f"Answer {turn}.")
    assert persons(service) == ["build it", CONTINUE, "wait", CONTINUE]


def test_unannounced_prompt_is_not_taken_for_an_earlier_one(service: Service, transcript: Transcript) -> None:
    """The daemon was down when it was typed; the same had been asked, and answered, before."""
    asked(service, "build it", "t-1")
    asked(service, CONTINUE, "t-1")
    for turn, prompt in [("t-1", "build it"), ("t-2", CONTINUE), ("t-3", CONTINUE), ("t-4", CONTINUE)]:
        transcript.prompt(prompt, turn)
        ended(service, transcript, turn, f"Answer {turn}.")
    assert persons(service) == ["build it", CONTINUE, CONTINUE, CONTINUE]


def test_queued_prompt_of_another_session_does_not_count(service: Service, tmp_path: Path) -> None:
    hook(service, "pre-message", prompt=CONTINUE, prompt_id="t-1", session_id="s-2")
    transcript = Transcript(tmp_path)
    transcript.prompt("build it", "t-1")
    transcript.prompt(CONTINUE, "t-2")
    ended(service, transcript, "t-2")
    assert persons(service) == [CONTINUE, CONTINUE]


@given(st.lists(st.sampled_from(["build", "continue", "test"]), min_size=1, max_size=8), st.data())
@examples(max_examples=80, deadline=None)
def test_every_prompt_is_one_episode_whenever_it_was_typed(
    lasting: Service, prompts: list[str], data: st.DataObject
) -> None:
    """Prompts wait in a queue for as long as they like; no two that wait together are alike."""
    session = f"s-{lasting.store.episodes.newest()}"
    transcript = Transcript(lasting.settings.home.parent, session)
    typed = 0
    for number, prompt in enumerate(prompts):
        if typed == number:  # the queue is empty: it is typed as its own turn begins
            asked(lasting, prompt, f"t-{number}", session_id=session)
            typed += 1
        transcript.prompt(prompt, f"t-{number}")
        while typed < len(prompts) and data.draw(st.booleans(), "typed while this turn runs"):
            if prompts[typed] in prompts[number:typed]:
                break
            asked(lasting, prompts[typed], f"t-{number}", session_id=session)
            typed += 1
        ended(lasting, transcript, f"t-{number}", f"answer {number}", session_id=session)
    said = [each.text for each in stored(lasting) if (each.session, str(each.role)) == (session, "person")]
    assert said == prompts


# transcripts that are none


def outside(folder: Path) -> Iterator[Path]:
    """Paths that hold a transcript and lie, really, outside the clients' folders."""
    elsewhere = Transcript(folder / "elsewhere")
    elsewhere.prompt("the content of a private file", "t-1")
    projects = folder / ".claude/projects"
    (projects / "p").mkdir(parents=True)
    (projects / "p/link.jsonl").symlink_to(elsewhere.path)
    (projects / "q").symlink_to(elsewhere.path.parent)
    (projects / "p/folder.jsonl").mkdir()
    (projects / "p/s-1.txt").write_bytes(elsewhere.path.read_bytes())
    yield elsewhere.path
    yield projects / "p/link.jsonl"
    yield projects / "q" / elsewhere.path.name
    yield projects / "p/../../../elsewhere" / elsewhere.path.relative_to(folder / "elsewhere")
    yield projects / "p/folder.jsonl"
    yield projects / "p/s-1.txt"
    yield projects / "p/gone.jsonl"
    yield Path(".claude/projects/p/link.jsonl")
    yield Path("/etc/passwd")
    yield Path("/" + "x" * 5_000 + ".jsonl")


def test_nothing_outside_the_clients_folders_is_read(service: Service, tmp_path: Path) -> None:
    for path in outside(tmp_path):
        hook(service, "turn-end", transcript_path=str(path), prompt_id="t-1")
        hook(service, "turn-end", transcript_path=f"{path}\0.jsonl", prompt_id="t-1")
    assert told(service) == []


ANY_TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud800\udfff\0\"'\\"), max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool_result", "tool_use", "text"])},
    optional=dict.fromkeys(("tool_use_id", "id", "name", "content", "text"), ANY_JSON),
)
RECORD = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["user", "assistant", "attachment"]) | ANY_JSON,
        "message": st.fixed_dictionaries({"content": ANY_TEXT | st.lists(BLOCK, max_size=3) | ANY_JSON})
        | ANY_JSON,
    },
    optional={
        "promptId": st.just("t-1") | ANY_JSON,
        "timestamp": st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]) | ANY_JSON,
        **dict.fromkeys(("uuid", "isMeta", "isSidechain", "isCompactSummary"), ANY_JSON),
    },
)
LINE = st.builds(json.dumps, RECORD | ANY_JSON).map(str.encode) | st.binary(max_size=40)


@given(st.lists(LINE, max_size=6), st.sampled_from(["t-1", ""]))
@examples(max_examples=150, deadline=None)
def test_any_transcript_is_harmless(lasting: Service, lines: list[bytes], turn: str) -> None:
    transcript = Transcript(lasting.settings.home.parent)
    transcript.path.write_bytes(b"\n".join(lines))
    ended(lasting, transcript, turn, "an answer")
    assert "an answer" in {each.text for each in stored(lasting)}


# payloads that are none

FIELDS = ("cwd", "hook_event_name", "source", "prompt", "prompt_id", "turn_id", "agent_id", "transcript_path")
MORE_FIELDS = ("last_assistant_message", "stop_hook_active", "permission_mode")
PATHS = st.sampled_from(["/", "..", "/home/dev/o'brien", "/proc/self/fd/0", "/dev/null", "/" + "x/" * 3_000])
PAYLOAD = st.fixed_dictionaries(
    {"session_id": ANY_TEXT},
    optional=dict.fromkeys(FIELDS + MORE_FIELDS, ANY_JSON | PATHS | st.just("which port has atlas?")),
)
STDIN = st.binary(max_size=60) | st.builds(json.dumps, ANY_JSON | PAYLOAD).map(str.encode)


@given(STDIN, st.sampled_from([*SECONDS, "nonsense"]))
@examples(max_examples=300, deadline=None)
def test_any_payload_is_harmless(lasting: Service, stdin: bytes, moment: str) -> None:
    answer = lasting.hook("claude", moment, stdin)
    if moment in HANDED_OVER or not answer:
        assert answer == ""
    else:
        assert list(json.loads(answer)) == ["hookSpecificOutput"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"gitdir: \0", b"gitdir: " + b"x" * 5_000, b""])
def test_any_git_file_is_harmless(service: Service, tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    project = project_of(str(tmp_path / "src"))
    assert project
    hook(service, "turn-end", cwd=str(tmp_path / "src"), last_assistant_message="8080.")
    assert [each.project for each in stored(service)] == [project]


# payloads that waited


def wait_in_inbox(service: Service, number: int, answer: str, profile: str = "") -> None:
    payload = json.dumps({"session_id": "s-1", "cwd": ATLAS, "last_assistant_message": answer}).encode()
    name = inbox.name_of(f"{number:020}-1", "claude", "turn-end", profile)
    inbox.keep(str(service.settings.home), name, payload)


def test_inbox_is_taken_in_order_and_with_the_time_of_its_hooks(service: Service) -> None:
    wait_in_inbox(service, 2_000_000_000 * 10**9, "second")
    wait_in_inbox(service, 1_000_000_000 * 10**9, "first")
    assert service.take_inbox() == 2 and service.take_inbox() == 0
    assert [(each.text, each.occurred_at[:10]) for each in stored(service)] == [
        ("first", "2001-09-09"),
        ("second", "2033-05-18"),
    ]


def test_payload_nobody_can_take_does_not_hold_up_the_others(service: Service) -> None:
    wait_in_inbox(service, 1, "refused", profile=" ")
    wait_in_inbox(service, 2, "taken")
    service.take_inbox()
    service.take_inbox()
    assert [each.text for each in stored(service)] == ["taken"]
    [kept] = service.settings.inbox.iterdir()
    assert b'"refused"' in kept.read_bytes()
    assert any(str(service.settings.inbox) in problem for problem in service.status()["problems"])


def test_profile_in_another_coding_is_still_a_wall(service: Service) -> None:
    wait_in_inbox(service, 1, "of the work profile", profile="w\udcf6rk")
    service.take_inbox()
    assert [each.profile for each in stored(service)] == ["w\ufffdrk"]


# hooks that have left


@pytest.mark.parametrize("moment", ["session-open", "pre-message"])
def test_what_nobody_waited_for_was_not_shown(service: Service, clock: Clock, moment: str) -> None:
    service.remember("Atlas uses Postgres for billing", kind="decision", project=ATLAS)
    payload = {"session_id": "s-1", "cwd": ATLAS, "prompt": "why does atlas use postgres?"}
    raw, received = json.dumps(payload).encode(), clock.now
    clock.pass_by(SECONDS[moment] + 0.01)
    assert service.hook("claude", moment, raw, received) == ""
    [silence] = service.store.accounts.injections("personal", "s-1")
    assert (silence.tokens, silence.memories) == (0, ())
    assert "Postgres" in service.hook("claude", moment, raw, clock.now)
    assert persons(service) == [payload["prompt"]] * (moment == "pre-message")


# secrets


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("db_password = {}", ""),
        ("--api-key={}", " --verbose"),
        ("MY.SECRET.KEY: {}", ""),
        ("İİİ token={}", ""),
        ('{{"password": "{}"', ', "port": 8080}}'),
        ("{{'access_key':'{}'", "}}"),
        ("postgres://atlas:{}", "@db.example/atlas"),
        ("Cookie: session={}", "\r\nAccept: */*"),
        ("COOKIE: session={}", ""),
        ("Authorization: Bearer {}", ""),
    ],
)
def test_secret_is_taken_out_and_its_surroundings_stay(before: str, after: str) -> None:
    secret = "Zx9" + "kQ7w" * 4
    text, kinds = redact(before.format(secret) + after.format())
    assert secret not in text and kinds
    assert text.startswith(before.format("\0").partition("\0")[0].rstrip("\"'")[:8])
    assert text.endswith(after.format())


@pytest.mark.parametrize(
    "shape",
    ["a.", "a-", "password", "eyJabcdefgh-", "eyJabcdefgh.", "token ", "x://a", "basic ", "<private>", "sk-"],
)
@pytest.mark.parametrize("end", ["", '="', ":", "\n"])
def test_long_texts_are_read_through_once(shape: str, end: str) -> None:
    began = time.process_time()
    redact(f"{shape}{end}" * (300_000 // len(shape)))
    assert time.process_time() - began < 5, "reading a text twice as long takes more than twice as long"
