"""A hook script's whole process with a warm daemon, against a bare `python -I -S -c pass`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

from mnemo_mcp import cli
from mnemo_mcp.commands.door import ask
from mnemo_mcp.thin import link

HOOK = Path(link.THIN) / "hook.py"
LAUNCHER = Path(__file__).resolve().parent.parent / "claude_plugin/hooks/mnemo-run"


def main() -> None:
    given = common.options(__doc__, rounds=60)
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
        os.environ["MNEMO_HOME"] = folder
        try:
            ask("remember", {"what": "Atlas uses PostgreSQL", "why": "billing needs transactions"})
            while len(ask("status", {})["encoders"]) < 2:
                time.sleep(0.2)
            time.sleep(5)  # the search tables are imported behind the first memory
            result = _measure(given.rounds)
        finally:
            cli.main(["stop"])
    common.report(result, given.json)


def _measure(rounds: int) -> dict[str, object]:
    payload = {
        "session_id": "bench",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "ok",
    }  # recalls nothing
    given = json.dumps(payload).encode()
    commands = {
        "bare": [sys.executable, "-I", "-S", "-c", "pass"],
        "hook": [sys.executable, "-I", "-S", str(HOOK), "claude", "pre-message"],
        "launcher": ["/bin/sh", str(LAUNCHER), "hook", "pre-message"],
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            run = lambda c=command: subprocess.run(c, input=given, capture_output=True, check=True)  # noqa: E731
            took[name].append(common.milliseconds(run))
    body = [
        common.milliseconds(
            lambda: link.request(link.data_folder(), "/hooks/claude/pre-message", given, time.monotonic() + 5)
        )
        for _ in range(rounds)
    ]
    answer = statistics.median(body)
    bare = statistics.median(took["bare"])
    return {
        **{name: common.summary(values) for name, values in took.items()},
        "answer_alone_ms": round(answer, 2),
        "ratio_hook": round((statistics.median(took["hook"]) - answer) / bare, 2),
        "ratio_launcher": round((statistics.median(took["launcher"]) - answer) / bare, 2),
    }


if __name__ == "__main__":
    main()
