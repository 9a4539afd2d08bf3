"""Warm recall through the daemon, query embedding included, against one embedding of the same text alone."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path

import common

from mnemo_mcp import cli
from mnemo_mcp.commands.door import ask
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
from mnemo_mcp.thin import link


def main() -> None:
    given = common.options(__doc__, memories=10_000, questions=200)
    folder = Path(tempfile.gettempdir()) / f"mnemo-bench-{given.memories}"  # filled once, it takes minutes
    os.environ["MNEMO_HOME"] = str(folder)
    _fill(folder, given.memories)
    encoders = EncoderPair(Encoders())
    encoders.load()
    encoders.warm()
    try:
        _wait_until_ready()
        result = _measure(encoders, given.questions)
    finally:
        cli.main(["stop"])
    common.report({"memories": given.memories, **result}, given.json)


def _fill(folder: Path, count: int) -> None:
    with Service(Settings(home=folder)) as service:
        for number in range(service.status()["memories"], count):
            service.remember(**common.made_up_memory(number, random.Random(number)))
            if number % 1000 == 999:
                common.progress(f"stored {number + 1} of {count}")
        service.encoders.load()
        while service.upkeep.embed(500):
            common.progress(f"{service.upkeep.waiting()['embed']} vectors to go")
        while service.upkeep.relay():
            common.progress(f"{service.upkeep.waiting()['relay']} rows to carry")


def _wait_until_ready() -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        status = ask("status", {})
        if len(status["encoders"]) == 2 and not status["queue"]["embed"] and not status["queue"]["relay"]:
            return
        time.sleep(0.5)
    raise SystemExit("the daemon did not settle in five minutes")


def _measure(encoders: EncoderPair, questions: int) -> dict[str, object]:
    chance = random.Random(2)
    recalled, embedded = [], []
    for number in range(questions + 20):
        text = common.made_up_question(chance)
        body = json.dumps({"query": text}).encode()
        encoder = encoders.for_question(text)
        if encoder is None:
            raise SystemExit("no encoder")
        alone = common.milliseconds(lambda e=encoder, t=text: e.encode([t], query=True))
        whole = common.milliseconds(
            lambda b=body: link.request(link.data_folder(), "/api/recall", b, time.monotonic() + 30)
        )
        if number >= 20:  # the first ones warm both sides up
            recalled.append(whole)
            embedded.append(alone)
    pid = ask("status", {})["pid"]
    return {
        "recall": common.summary(recalled),
        "embedding_alone": common.summary(embedded),
        "ratio_p95": round(common.percentile(recalled, 0.95) / common.percentile(embedded, 0.95), 2),
        "daemon_rss_mib": _rss(pid),
    }


def _rss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
