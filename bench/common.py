"""What the measures share: made-up memories, percentiles, and a report with its baseline."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


def _parts(text: str) -> list[str]:
    return " ".join(text.split()).split(", ")


_SYSTEMS = _parts(
    "gateway, billing, ledger, search, importer, scheduler, console, mailer, archive, router, exporter"
)
_PARTS = _parts(
    "timeout, cache, queue, schema, token, retry, index, webhook, backup, quota, certificate, alert, log"
)
_VERBS = _parts(
    "uses, keeps, drops, raises, lowers, moves, splits, guards, retries, signs, masks, batches, pins"
)
_OBJECTS = _parts(
    """rows of the last month, requests over 2 MB, events in UTC, keys of every tenant, reports before noon,
    jobs without an owner, writes under load, images by digest, pages by cursor, secrets in the vault,
    metrics per region, sessions after logout, files above the limit, drafts of deleted users"""
)
_REASONS = _parts(
    """a customer lost an order once, the old way cost too much, the auditors asked for it,
    tests became flaky, two teams disagreed and measured it, the provider changed its limits,
    an outage in spring showed the need,
    it keeps the on-call nights quiet"""
)


def made_up_memory(number: int, chance: random.Random) -> dict[str, str]:
    """One engineering memory; no two of different numbers are the same."""
    pick = chance.choice
    return {
        "what": f"The {pick(_SYSTEMS)} {pick(_PARTS)} {pick(_VERBS)} {pick(_OBJECTS)} since {1000 + number}",
        "why": pick(_REASONS),
        "how": f"{pick(_PARTS)}_{pick(_SYSTEMS)} in {pick(_SYSTEMS)}.toml",
        "kind": pick(("fact", "decision", "state", "procedure", "preference")),
    }


def made_up_question(chance: random.Random) -> str:
    return (
        f"Why does the {chance.choice(_SYSTEMS)} {chance.choice(_PARTS)} treat {chance.choice(_OBJECTS)} so?"
    )


def milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(values: Sequence[float]) -> dict[str, float]:
    return {"median_ms": round(statistics.median(values), 2), "p95_ms": round(percentile(values, 0.95), 2)}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def options(about: str | None, **numbers: int) -> argparse.Namespace:
    """Command-line options of a measure: the numbers it can be given, and --json."""
    parser = argparse.ArgumentParser(description=about)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def report(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:28} {value}")
