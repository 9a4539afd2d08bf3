"""Recall while threads are read: its 95th percentile against that of an idle daemon, and the memory used.

A stub of a model answers at once, so the daemon reads as fast as it can; a real model leaves it more time.
"""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import common

from mnemo_mcp import cli
from mnemo_mcp.commands.door import ask
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Role, instant
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

_TURNS = 25  # of a thread, a prompt, a tool's result and an answer each
_LINE = re.compile(r"^\[(\d+)\] person, [^\n]*?: (The [^\n]+?since \d+)", re.MULTILINE)
_CONFIG = """
[models]
extraction = "lm"
daily_tokens = 0
[models.endpoint.lm]
url = "http://127.0.0.1:{port}/v1"
model = "stub"
"""


def main() -> None:
    given = common.options(__doc__, memories=2_000, episodes=10_000, questions=200)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MNEMO_HOME"] = folder
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Stub)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _fill(Path(folder), given.memories, given.episodes)
        (Path(folder) / "config.toml").write_text(_CONFIG.format(port=server.server_address[1]), "utf-8")
        try:
            result = _measure(Path(folder), given.episodes, given.questions)
        finally:
            cli.main(["stop"])
            server.shutdown()
    common.report({"memories": given.memories, "episodes": given.episodes, **result}, given.json)


class _Stub(BaseHTTPRequestHandler):
    """Answers each request with the first two claims by a person that it finds there."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        found = _LINE.findall(body["messages"][1]["content"])[:2]
        memories = [{"what": what, "kind": "fact", "episodes": [int(number)]} for number, what in found]
        message = {"role": "assistant", "content": json.dumps({"memories": memories})}
        answer = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _fill(folder: Path, memories: int, episodes: int) -> None:
    chance = random.Random(3)
    with Service(Settings(home=folder)) as service:
        for number in range(memories):
            service.remember(**common.made_up_memory(number, random.Random(number)))
        begun = datetime(2026, 3, 2, 9, tzinfo=UTC)
        for thread in range(episodes // (3 * _TURNS)):
            with service.store.write() as tx:
                for turn in range(_TURNS):
                    at = instant(begun + timedelta(minutes=thread * 60 + turn))
                    claim = common.made_up_memory(1_000_000 + thread * _TURNS + turn, chance)
                    said = (
                        (Role.PERSON, claim["what"]),
                        (Role.TOOL, f"{claim['how']}\n" * 40),
                        (Role.ASSISTANT, f"Looked at it: {claim['why']}. Nothing else to change there."),
                    )
                    service.store.episodes.add(
                        tx,
                        [
                            new_episode(
                                "personal", role, text, client="claude", session=f"s-{thread}", project="",
                                turn=f"{thread}-{turn}", occurred_at=at, zone="UTC", recorded_at=at,
                            )
                            for role, text in said
                        ],
                    )  # fmt: skip
        service.encoders.load()
        while service.upkeep.embed(500):
            common.progress(f"{service.upkeep.waiting()['embed']} vectors to go")
        while service.upkeep.relay():
            common.progress(f"{service.upkeep.waiting()['relay']} rows to carry")


def _measure(folder: Path, episodes: int, questions: int) -> dict[str, Any]:
    pid = _ready()
    threads = episodes // (3 * _TURNS)
    _asked(questions)  # warm
    idle, before = _asked(questions), _resident_mb(pid)
    store = Store(folder / "mnemo.db", datetime.now(UTC))
    with store.write() as tx:
        for thread in range(threads):
            store.work.add(tx, "distil", "personal", f"s-{thread}", "2026-01-01T00:00:00.000Z")
    store.close()
    began, busy, memory = time.monotonic(), [], []
    while waiting := ask("status", {})["queue"].get("distil", 0):
        busy += _asked(20)
        memory.append(_resident_mb(pid))
        common.progress(f"{waiting} threads to go")
    seconds = time.monotonic() - began
    idle += _asked(questions)  # before and after, as others use the machine too
    return {
        "threads": threads,
        "seconds": round(seconds, 1),
        "recall_idle_p95_ms": round(common.percentile(idle, 0.95), 1),
        "recall_distilling_p95_ms": round(common.percentile(busy, 0.95), 1),
        "ratio": round(common.percentile(busy, 0.95) / common.percentile(idle, 0.95), 2),
        "recalls_meanwhile": len(busy),
        "resident_mb_before": before,
        "resident_mb_quarter": memory[len(memory) // 4],
        "resident_mb_end": memory[-1],
        "memories_after": ask("status", {})["memories"],
    }


def _asked(count: int) -> list[float]:
    """Milliseconds of so many recalls, each of another question."""
    chance = random.Random(time.monotonic_ns())
    return [
        common.milliseconds(lambda: ask("recall", {"query": common.made_up_question(chance)}))
        for _ in range(count)
    ]


def _ready() -> int:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        status = ask("status", {})
        if len(status["encoders"]) == 2 and not status["queue"]["embed"] and not status["queue"]["relay"]:
            return int(status["pid"])
        time.sleep(0.5)
    raise SystemExit("the daemon did not settle in five minutes")


def _resident_mb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(found[1]) // 1024 if found else 0


if __name__ == "__main__":
    main()
