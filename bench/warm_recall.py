"""Warm recall through the daemon, query embedding included, against one embedding of the same text alone.

Up to 20,000 memories their vectors are the encoders' own; beyond, made-up ones: they cost a question as much.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path

import common
import numpy as np

from mnemo_mcp import cli
from mnemo_mcp.commands.door import ask
from mnemo_mcp.ledger.vectors import text_hash
from mnemo_mcp.models.encoder import quantise, unit
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
from mnemo_mcp.thin import link

_OWN_VECTORS = 20_000


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
        _wait_until_idle(ask("status", {})["pid"])
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
        if count > _OWN_VECTORS:
            _made_up_vectors(service, count)
        while service.upkeep.embed(500):
            common.progress(f"{service.upkeep.waiting()['embed']} vectors to go")
        while service.upkeep.relay():
            common.progress(f"{service.upkeep.waiting()['relay']} rows to carry")


def _made_up_vectors(service: Service, count: int) -> None:
    """Random vectors under the hashes of the memories' texts, where the cache of vectors has none."""
    chance = np.random.default_rng(5)
    index = service.index.profile(service.settings.profile)
    for encoder in service.encoders.ready_encoders():
        for start in range(0, count, 5_000):
            texts = [index.memory(row).claim.text() for row in range(start, min(start + 5_000, count))]
            vectors = unit(chance.standard_normal((len(texts), encoder.dims)).astype(np.float32))
            kept = [(each.scale, each.values) for each in quantise(vectors)]
            service.store.vectors.put(encoder.id, zip(map(text_hash, texts), kept, strict=True))


def _wait_until_ready() -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        status = ask("status", {})
        if len(status["encoders"]) == 2 and not status["queue"]["embed"] and not status["queue"]["relay"]:
            return
        time.sleep(0.5)
    raise SystemExit("the daemon did not settle in five minutes")


def _wait_until_idle(pid: int) -> None:
    """Compacting, and reading older episodes into memory, are not what is measured."""
    quiet = 0
    while quiet < 4 and _cpu_ms(pid):
        before = _cpu_ms(pid)
        time.sleep(1)
        quiet = quiet + 1 if _cpu_ms(pid) - before < 50 else 0


def _measure(encoders: EncoderPair, questions: int) -> dict[str, object]:
    chance = random.Random(2)
    recalled, embedded = [], []
    pid = ask("status", {})["pid"]
    spent = used = 0.0
    for number in range(questions + 20):
        text = common.made_up_question(chance)
        body = json.dumps({"query": text}).encode()
        encoder = encoders.for_question(text)
        if encoder is None:
            raise SystemExit("no encoder")
        began = time.thread_time()
        alone = common.milliseconds(lambda e=encoder, t=text: e.encode([t], query=True))
        cpu = 1000 * (time.thread_time() - began)
        before = _cpu_ms(pid)
        whole = common.milliseconds(
            lambda b=body: link.request(link.data_folder(), "/api/recall", b, time.monotonic() + 30)
        )
        if number >= 20:  # the first ones warm both sides up
            recalled.append(whole)
            embedded.append(alone)
            spent += _cpu_ms(pid) - before
            used += cpu
    return {
        "recall": common.summary(recalled),
        "embedding_alone": common.summary(embedded),
        "daemon_cpu_ms": round(spent / questions, 2),
        "embedding_cpu_ms": round(used / questions, 2),
        "ratio_p95": round(common.percentile(recalled, 0.95) / common.percentile(embedded, 0.95), 2),
        "daemon_rss_mib": _rss(pid),
    }


def _cpu_ms(pid: int) -> float:
    """Processor time of a process so far, all its threads; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
