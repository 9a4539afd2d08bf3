"""The real Claude Code with the plugin installed, offline, against a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import npm
import pytest
from fake_anthropic import Answer, Call, FakeAnthropic, Json, text_of
from judged import until_judged
from product import ROOT, Product, injected, until

from mnemo_mcp.daemon.tools import INSTRUCTIONS, TOOLS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]  # the first run installs the client

OURS = "mcp__plugin_mnemo_mnemo"
DEAD = "http://127.0.0.1:9"  # where a request that leaves this machine ends


@dataclass(frozen=True)
class Turn:
    """One run of `claude -p`: its event stream and what the model was asked."""

    events: list[Json]
    requests: list[Json]

    @property
    def session(self) -> str:
        return str(self.events[-1]["session_id"])

    @property
    def answer(self) -> str:
        return str(next(each["result"] for each in reversed(self.events) if each["type"] == "result"))

    def hooks(self, event: str = "") -> list[Json]:
        """How hooks ended, in order."""
        ended = [each for each in self.events if each.get("subtype") == "hook_response"]
        return [each for each in ended if event in ("", each["hook_event"])]

    def notes(self, event: str) -> list[str]:
        """What each hook of an event injected, "" for nothing."""
        return [injected(each["stdout"].encode()) for each in self.hooks(event)]

    def asked(self, number: int = -1) -> str:
        """All the text of one of the requests to the model."""
        return "\n".join(text_of(each["content"]) for each in self.requests[number]["messages"])


class ClaudeCode:
    """The client in a home of its own, with no way out of this machine."""

    def __init__(self, program: Path, product: Product, model: FakeAnthropic) -> None:
        self.program, self.product, self.model = program, product, model
        self.project = product.home / "atlas"
        self.project.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), DEAD)
        self.environ = {
            **kept,
            **proxies,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "HOME": str(product.home),
            "MNEMO_HOME": str(product.data),
            "ANTHROPIC_API_KEY": "not-a-key",
            "ANTHROPIC_BASE_URL": model.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.program, *arguments],
            env={**self.environ, **environ},
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done

    def turn(self, prompt: str, *answers: Answer, session: str = "", **environ: str) -> Turn:
        """One turn of a new session, or of one that is taken up again. No hook may fail or complain in it."""
        self.model.script(answers)
        resumed = ("--resume", session) if session else ()
        allowed = ("--allowedTools", f"{OURS},Bash")
        stream = ("--output-format", "stream-json", "--verbose", "--include-hook-events")
        done = self.run("-p", prompt, *stream, *allowed, *resumed, **environ)
        turn = Turn([json.loads(line) for line in done.stdout.splitlines()], self.model.requests)
        for hook in turn.hooks():
            assert (hook["outcome"], hook["exit_code"], hook["stderr"]) == ("success", 0, ""), hook
        return turn


def serve(data: Path) -> None:
    """Leave the note that names this Python to the hooks, as the installer does."""
    note = "import sys; from mnemo_mcp.thin import link; link.write_pointer(sys.argv[1])"
    subprocess.run([sys.executable, "-I", "-c", note, str(data)], check=True)


@pytest.fixture(scope="module")
def marketplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the installer hands to the client: this repository's plugin and nothing else of it."""
    folder = tmp_path_factory.mktemp("marketplace")
    for part in (".claude-plugin", "claude_plugin"):
        shutil.copytree(ROOT / part, folder / part)
    return folder


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory, marketplace: Path) -> Iterator[ClaudeCode]:
    program, home = npm.claude(), tmp_path_factory.mktemp("home")
    with Product(home) as product, FakeAnthropic(home / "requests.jsonl") as model:
        client = ClaudeCode(program, product, model)
        serve(product.data)
        client.run("plugin", "marketplace", "add", str(marketplace))
        client.run("plugin", "install", "mnemo@mnemo")
        product.settled()
        yield client
        assert product.log() == []  # of the hooks
        log = (product.data / "log/daemon.log").read_text()
        assert " WARNING " not in log and " ERROR " not in log


def test_plugin_passes_the_strict_check(claude: ClaudeCode, marketplace: Path) -> None:
    for folder in (marketplace, marketplace / "claude_plugin"):
        assert "Validation passed" in claude.run("plugin", "validate", str(folder), "--strict").stdout


def test_plugin_is_loaded_and_its_server_connects(claude: ClaudeCode) -> None:
    found = json.loads(claude.run("plugin", "list", "--json").stdout)
    [mnemo] = [each for each in found if each["id"] == "mnemo@mnemo"]
    assert mnemo["enabled"] and not mnemo.get("errors")
    [line] = [each for each in claude.run("mcp", "list").stdout.splitlines() if "plugin:mnemo:mnemo" in each]
    assert line.endswith("Connected")


def test_first_request_offers_five_tools_before_any_daemon_runs(claude: ClaudeCode, tmp_path: Path) -> None:
    with Product(tmp_path) as cold:
        serve(cold.data)
        turn = claude.turn("Good morning.", "Good morning.", MNEMO_HOME=str(cold.data))
    offered = {each["name"]: each for each in turn.requests[0]["tools"] if each["name"].startswith(OURS)}
    assert sorted(offered) == sorted(f"{OURS}__{tool.name}" for tool in TOOLS)
    for tool in TOOLS:
        assert offered[f"{OURS}__{tool.name}"]["input_schema"] == tool.schema
        assert offered[f"{OURS}__{tool.name}"]["description"] == tool.description
    assert INSTRUCTIONS in turn.asked(0)


def test_memory_of_one_session_is_in_the_next_one_s_request(claude: ClaudeCode) -> None:
    claim = {
        "what": "Invoices are rendered by the paperwork service",
        "why": "the ledger must not wait for PDFs",
    }
    first = claude.turn("Remember who renders invoices.", Call("__remember", claim), "Stored.")
    told = text_of(first.requests[-1]["messages"][-1]["content"])
    assert told.startswith("added m")
    memory = told.split()[1].rstrip(".")

    second = claude.turn("Which service renders the invoices?", "The paperwork service.")
    assert second.session != first.session and second.answer == "The paperwork service."
    [note] = second.notes("UserPromptSubmit")
    assert memory in note and claim["what"] in note and claim["why"] in note
    before, _, after = second.asked(0).partition("Which service renders the invoices?")
    assert note in after and memory not in before


def test_notice_of_a_background_task_is_no_question(claude: ClaudeCode) -> None:
    about = (
        "nightly backup of Atlas, " * 8
    )  # so much of it that the notice, read as a question, would find it
    claude.product.remember("The nightly backup of Atlas is taken at 02:30 UTC", project=str(claude.project))
    job = {"command": "sleep 1; echo finished", "description": about, "run_in_background": True}
    turn = claude.turn("Start the job.", Call("Bash", job), "Started.", "It has finished.")
    assert turn.answer == "It has finished."
    assert "<task-notification>" in turn.asked() and about.strip() in turn.asked()
    assert turn.notes("UserPromptSubmit") == ["", ""]  # the prompt's and the notice's
    assert "02:30" not in turn.asked()
    asked = claude.turn("When is the nightly backup of Atlas taken?", session=turn.session).asked()
    assert "02:30" in asked


def test_turn_is_stored_with_what_its_tools_answered(claude: ClaudeCode) -> None:
    look = {"command": "printf 'checked %s hosts' 17", "description": "Check the hosts"}
    turn = claude.turn("Check every rack host please.", Call("Bash", look), "All seventeen hosts are fine.")

    def stored() -> list[Json]:
        found = claude.product.json("recall", "Check every rack host please")["episodes"]
        return [each for each in found if each["session"] == turn.session and each["role"] == "person"]

    until(lambda: stored() != [])
    around = claude.product.json("episode", stored()[0]["id"], "--around", "5")["around"]
    told = [each for each in around if each["session"] == turn.session]
    assert [(each["role"], each["text"]) for each in told] == [
        ("person", "Check every rack host please."),
        ("tool", "checked 17 hosts"),
        ("assistant", "All seventeen hosts are fine."),
    ]
    assert {(each["client"], each["project"]) for each in told} == {("claude", str(claude.project))}
    assert len({each["turn"] for each in told}) == 1


def test_after_compaction_a_memory_is_told_again(claude: ClaudeCode) -> None:
    question = "How long does the cache keep a session?"
    mine = {"project": str(claude.project)}
    fact = claude.product.remember("The cache keeps a session for 45 minutes", **mine)["id"]
    rule = claude.product.remember("Atlas deploys on weekdays only", kind="decision", **mine)["id"]

    first = claude.turn(question)
    assert fact in first.notes("UserPromptSubmit")[0] and rule in first.notes("SessionStart")[0]
    again = claude.turn(question, session=first.session)
    assert again.notes("UserPromptSubmit") == [""] and again.notes("SessionStart") == [""]
    assert again.asked().count(fact) == again.asked().count(rule) == 1

    compacted = claude.turn("/compact", "<summary>They talked.</summary>", session=first.session)
    [resumed, opened] = compacted.notes("SessionStart")
    assert resumed == "" and rule in opened
    after = claude.turn(question, session=first.session)
    assert fact in after.notes("UserPromptSubmit")[0]
    assert after.asked().count(fact) == after.asked().count(rule) == 1


def test_slash_commands(claude: ClaudeCode) -> None:
    recall = claude.turn("/mnemo:recall why postgres?", "Because of PostGIS.")
    assert "Call mnemo's `recall` with this question: why postgres?" in recall.asked()
    status = claude.turn("/mnemo:status", "It is well.")
    assert f"data in {claude.product.data}" in status.asked()
    why = claude.turn("/mnemo:why", "So it is.")
    assert f"Session {why.session} (claude)" in why.asked()


def test_private_session_is_not_remembered(claude: ClaudeCode) -> None:
    claude.product.remember("The canteen opens at seven", project=str(claude.project))
    first = claude.turn("/mnemo:private", "It is private now.")
    asked = claude.turn("When does the canteen open?", session=first.session)
    assert asked.notes("UserPromptSubmit") == [""]
    assert claude.product.episodes(first.session) == []
    claude.turn("/mnemo:private off", "It is open again.", session=first.session)
    again = claude.turn("When does the canteen open?", session=first.session)
    assert "at seven" in again.notes("UserPromptSubmit")[0]


def test_skill_is_offered(claude: ClaudeCode) -> None:
    assert "mnemo:memory" in claude.turn("Good evening.").asked()


def test_a_citation_is_a_use_and_six_misses_mute_until_it_is_kept(claude: ClaudeCode) -> None:
    product, mine = claude.product, {"project": str(claude.project)}
    used = product.remember("The freight elevator is inspected every March", **mine)["id"]
    turn = claude.turn("When is the freight elevator inspected?", f"Every March, says {used}.")
    assert used in turn.notes("UserPromptSubmit")[0]
    until_judged(product, turn.session, used, "used")

    vain = product.remember("The kitchen window of the annex faces the harbour", **mine)["id"]
    question = "Which way does the kitchen window of the annex face?"
    for _ in range(6):
        turn = claude.turn(question, "I am reading the tests first.")
        assert vain in turn.notes("UserPromptSubmit")[0]
        until_judged(product, turn.session, vain, "unused")
    assert claude.turn(question, "I am reading on.").notes("UserPromptSubmit") == [""]
    assert vain in [each["id"] for each in product.recall(question)]
    product.json("keep", vain)
    assert vain in claude.turn(question, "To the harbour.").notes("UserPromptSubmit")[0]
