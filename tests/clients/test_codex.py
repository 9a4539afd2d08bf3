"""The real Codex with mnemo installed into it, offline, against a scripted model."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import npm
import pytest
from fake_responses import Answer, Call, FakeResponses, Json
from judged import until_judged
from product import ROOT, Product, until

from mnemo_mcp.clients.catalog import Places
from mnemo_mcp.clients.codex import AppServer
from mnemo_mcp.daemon.tools import INSTRUCTIONS, TOOLS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]  # the first run installs the client

DEAD = "http://127.0.0.1:9"  # where a request that leaves this machine ends
NAMESPACE = "mcp__mnemo"
CONFIG = """\
# mine, and to stay as it is
model = "a-model"
model_provider = "local"   # nothing leaves this machine
model_context_window = 19000

[model_providers.local]
name = "local"
base_url = "{url}"
env_key = "A_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[tui]   # odd   spacing
notifications = false
# the end, without a line end"""
HOOKS = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true", "timeout": 7}]}]}}'


@dataclass(frozen=True)
class Turn:
    """One run of `codex exec`: what it told on stderr, and what the model was asked."""

    told: str
    requests: list[Json]
    answer: str

    def hooks(self) -> list[tuple[str, str]]:
        """Which hooks ended how, in order."""
        return re.findall(r"^hook: (\w+) (Completed|Failed|Blocked|Stopped)$", self.told, re.MULTILINE)

    def messages(self, number: int = -1) -> list[tuple[str, str]]:
        """Role and text of each message the model was given in one request."""
        found = [each for each in self.requests[number]["input"] if each.get("type", "message") == "message"]
        return [(each["role"], _text(each["content"])) for each in found]

    def notes(self, number: int = -1) -> list[str]:
        """What mnemo injected, in order."""
        return [text for role, text in self.messages(number) if role == "developer" and "mnemo" in text[:60]]


def _text(content: Any) -> str:
    return "\n".join(str(part.get("text", "")) for part in content)


class Codex:
    """The client in a home of its own, with no way out of this machine."""

    def __init__(self, program: Path, product: Product, model: FakeResponses) -> None:
        self.program, self.product, self.model = program, product, model
        self.folder = product.home / ".codex"
        self.folder.mkdir()
        (self.folder / "config.toml").write_text(CONFIG.format(url=model.url))
        (self.folder / "hooks.json").write_text(HOOKS)
        self.project = product.home / "atlas"
        (self.project / ".git").mkdir(parents=True)
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), DEAD)
        self.environ = {
            **kept,
            **proxies,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(product.home),
            "MNEMO_HOME": str(product.data),
            "A_KEY": "not-a-key",
            "SHELL": "/bin/sh",
        }
        product.environ["PATH"] = self.environ["PATH"]

    def files(self) -> Mapping[str, bytes]:
        """The files that mnemo may change."""
        return {
            each.name: each.read_bytes()
            for each in self.folder.iterdir()
            if each.suffix in (".toml", ".json")
        }

    def turn(self, prompt: str, *answers: Answer, resume: bool = False) -> Turn:
        """One turn of a new session, or of the last one taken up again."""
        self.model.script(answers)
        last = self.product.home / "answer"
        last.unlink(missing_ok=True)
        command = [
            "exec",
            *(["resume", "--last"] if resume else []),
            "--skip-git-repo-check",
            "-o",
            last,
            prompt,
        ]
        done = subprocess.run(
            [self.program, *command],
            env=self.environ,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Turn(done.stderr, self.model.requests, last.read_text().strip())

    def session(self) -> str:
        """The session of the last turn."""
        return str(self.product.episodes()[-1]["session"])


@pytest.fixture(scope="module")
def codex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Codex]:
    program, home = npm.codex(), tmp_path_factory.mktemp("home")
    with Product(home) as product, FakeResponses() as model:
        client = Codex(program, product, model)
        client.turn("Hello.", "Hello.")  # it writes into its settings which projects it knows
        before = client.files()
        assert product.run("install", "codex").returncode == 0
        [problem] = [each for each in doctor(product) if "Codex" in each]
        assert "4 of mnemo's 4 hooks" in problem
        untrusted = client.turn("Hello again.", "Hello.")
        assert untrusted.hooks() == []
        assert product.run("install", "codex", "--trust-hooks").returncode == 0
        assert not [each for each in doctor(product) if "Codex" in each]
        installed = client.files()
        product.settled()
        yield client
        assert client.files() == installed
        assert product.log() == []  # of the hooks
        assert product.run("uninstall").returncode == 0
        assert client.files() == before
        assert client.turn("And now?", "As before.").hooks() == []


def doctor(product: Product) -> list[str]:
    found = json.loads(product.run("doctor", "--json").stdout)["problems"]
    assert isinstance(found, list)
    return found


def test_first_request_offers_five_tools(codex: Codex) -> None:
    turn = codex.turn("Good morning.", "Good morning.")
    [ours] = [each for each in turn.requests[0]["tools"] if each.get("name") == NAMESPACE]
    assert sorted(each["name"] for each in ours["tools"]) == sorted(tool.name for tool in TOOLS)
    assert ours["description"].startswith(INSTRUCTIONS[:240])


def test_memory_of_one_session_stands_behind_the_message_it_answers(codex: Codex) -> None:
    claim = {
        "what": "Invoices are rendered by the paperwork service",
        "why": "the ledger must not wait for PDFs",
    }
    first = codex.turn("Remember who renders invoices.", Call("remember", claim, NAMESPACE), "Stored.")
    [result] = [each for each in first.requests[-1]["input"] if each.get("type") == "function_call_output"]
    assert "added m" in json.dumps(result["output"])

    question = "Which service renders the invoices?"
    second = codex.turn(question, "The paperwork service.")
    assert second.answer == "The paperwork service."
    messages = second.messages(0)
    assert ("UserPromptSubmit", "Completed") in second.hooks() and ("Stop", "Completed") in second.hooks()
    [note] = second.notes(0)
    assert claim["what"] in note and claim["why"] in note
    assert messages.index(("developer", note)) == messages.index(("user", question)) + 1

    again = codex.turn(question, "As I said.", resume=True)
    assert sum(claim["what"] in text for _, text in again.messages(0)) == 1


def test_notice_is_no_question(codex: Codex) -> None:
    codex.product.remember("The nightly backup of Atlas is taken at 02:30 UTC", project=str(codex.project))
    about = "<task-notification>The nightly backup of Atlas has finished</task-notification>"
    assert not any("02:30" in text for _, text in codex.turn(about, "Good.").messages())
    asked = codex.turn("When is the nightly backup of Atlas taken?", "At night.", resume=True)
    assert any("02:30" in text for _, text in asked.messages())


def test_turn_is_stored_with_what_its_tools_answered(codex: Codex) -> None:
    look = Call("exec_command", {"cmd": "printf 'checked %s hosts' 17"})
    codex.turn("Check every rack host please.", look, "All seventeen hosts are fine.")
    until(lambda: any(each["text"] == "All seventeen hosts are fine." for each in codex.product.episodes()))
    told = codex.product.episodes(codex.session())
    assert sorted((each["role"], each["text"]) for each in told) == [
        ("assistant", "All seventeen hosts are fine."),
        ("person", "Check every rack host please."),
        ("tool", "checked 17 hosts"),
    ]
    assert {(each["client"], each["project"]) for each in told} == {("codex", str(codex.project))}
    assert len({each["turn"] for each in told}) == 1


def test_after_compaction_a_memory_is_told_again(codex: Codex) -> None:
    question = "How long does the cache keep a session?"
    mine = {"project": str(codex.project)}
    codex.product.remember("The cache keeps a session for 45 minutes", **mine)
    codex.product.remember("Atlas deploys on weekdays only", kind="decision", **mine)

    first = codex.turn(question, "45 minutes.")
    assert any("45 minutes" in note for note in first.notes(0))
    assert any("weekdays only" in note for note in first.notes(0))
    full = Call("exec_command", {"cmd": "echo one"}, tokens=900_000)
    compacted = codex.turn("Do it.", full, "They talked.", "Done.", resume=True)
    assert ("SessionStart", "Completed") in compacted.hooks()
    assert sum("weekdays only" in note for note in compacted.notes()) == 1
    assert not any("45 minutes" in note for note in compacted.notes())
    after = codex.turn(question, "45 minutes.", resume=True)
    assert sum("45 minutes" in note for note in after.notes(0)) == 1


def test_a_citation_is_a_use_and_six_misses_mute_until_it_is_kept(codex: Codex) -> None:
    product, mine = codex.product, {"project": str(codex.project)}
    told = "The freight elevator is inspected every March"
    used = product.remember(told, **mine)["id"]
    turn = codex.turn("When is the freight elevator inspected?", f"Every March, says {used}.")
    assert any(told in note for note in turn.notes(0))
    until_judged(product, codex.session(), used, "used")

    fact = "The kitchen window of the annex faces the harbour"
    vain = product.remember(fact, **mine)["id"]
    question = "Which way does the kitchen window of the annex face?"
    for _ in range(6):
        turn = codex.turn(question, "I am reading the tests first.")
        assert any(fact in note for note in turn.notes(0))
        until_judged(product, codex.session(), vain, "unused")
    assert not any(fact in note for note in codex.turn(question, "I am reading on.").notes(0))
    assert vain in [each["id"] for each in product.recall(question)]
    product.json("keep", vain)
    assert any(fact in note for note in codex.turn(question, "To the harbour.").notes(0))


def test_plugin_carries_hooks_and_server(codex: Codex) -> None:
    folder = codex.product.home / "as-plugin"
    folder.mkdir()
    environ = {**codex.environ, "CODEX_HOME": str(folder)}
    for arguments in (("marketplace", "add", str(ROOT)), ("add", "mnemo@mnemo")):
        command = [codex.program, "plugin", *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    with AppServer(str(codex.program), Places(codex.product.home, environ)) as server:
        [listed] = server.call("hooks/list", {"cwds": [str(codex.project)]})["data"]
        [status] = server.call("mcpServerStatus/list", {})["data"]
    assert [listed["warnings"], listed["errors"]] == [[], []]
    assert {each["command"].rpartition(" hook ")[2] for each in listed["hooks"]} == {
        f"codex {moment}" for moment in ("session-open", "pre-message", "turn-end", "session-end")
    }
    assert sorted(status["tools"]) == sorted(tool.name for tool in TOOLS)
    refused = codex.product.run("install", "codex", CODEX_HOME=str(folder))
    assert refused.returncode == 1 and b"as a plugin already" in refused.stderr
