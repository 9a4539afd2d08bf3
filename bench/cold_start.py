"""From nothing: `initialize` on a cold machine, and the session-open block that starts the daemon itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

from mnemo_mcp import cli
from mnemo_mcp.commands.door import ask
from mnemo_mcp.thin import link

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
OPEN = {"session_id": "s", "hook_event_name": "SessionStart", "source": "startup"}


def main() -> None:
    given = common.options(__doc__, rounds=7)
    bare, opened, hooked, blocks = [], [], [], 0
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
        os.environ["MNEMO_HOME"] = folder
        ask("remember", {"what": "Use tabs", "kind": "preference"})
        for number in range(given.rounds):
            cli.main(["stop"])
            bare.append(common.milliseconds(lambda: subprocess.run([sys.executable, "-c", "import mcp"])))
            opened.append(_initialize())
            cli.main(["stop"])
            took, said = _session_open(f"s{number}")
            hooked.append(took)
            blocks += b"Use tabs" in said
        cli.main(["stop"])
    common.report(
        {
            "import_mcp_alone": common.summary(bare),
            "initialize_cold": common.summary(opened),
            "ratio": round(common.percentile(opened, 0.5) / common.percentile(bare, 0.5), 2),
            "session_open_cold": common.summary(hooked),
            "blocks_told": f"{blocks} of {given.rounds}",
        },
        given.json,
    )


def _initialize() -> float:
    began = time.perf_counter()
    command = [sys.executable, "-I", "-m", "mnemo_mcp.thin.pipe"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe:
        assert pipe.stdin and pipe.stdout
        pipe.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        pipe.stdin.flush()
        pipe.stdout.readline()
        took = (time.perf_counter() - began) * 1000
        pipe.stdin.close()
    return took


def _session_open(session: str) -> tuple[float, bytes]:
    command = [sys.executable, "-I", "-S", str(Path(link.THIN) / "hook.py"), "claude", "session-open"]
    began = time.perf_counter()
    payload = json.dumps({**OPEN, "session_id": session}).encode()
    done = subprocess.run(command, input=payload, capture_output=True, check=True)
    return (time.perf_counter() - began) * 1000, done.stdout


if __name__ == "__main__":
    main()
