"""Recall by what was known at an earlier instant, against plain recall of the same questions."""

from __future__ import annotations

import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import common

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def main() -> None:
    given = common.options(__doc__, memories=10_000, questions=200)
    settings = Settings(home=Path(tempfile.mkdtemp(prefix="mnemo-bench-")), encoders=Encoders("off", "off"))
    with Service(settings, clock=lambda: NOW) as service:
        _fill(service, given.memories)
        chance = random.Random(2)
        plain, as_of = [], []
        for number in range(given.questions + 10):
            question = common.made_up_question(chance)
            taken = [_cpu(service, question, known) for known in (None, "2026-03-01")]
            if number >= 10:  # the first one folds the versions that the others look up
                plain.append(taken[0])
                as_of.append(taken[1])
    common.report(
        {
            "memories": given.memories,
            "plain": common.summary(plain),
            "as_of": common.summary(as_of),
            "ratio_median": round(common.percentile(as_of, 0.5) / common.percentile(plain, 0.5), 2),
        },
        given.json,
    )


def _fill(service: Service, count: int) -> None:
    """A fifth of the memories replaces an earlier one; half of all is known after the instant asked about."""
    ids: list[str] = []
    for number in range(count):
        claim = common.made_up_memory(number, random.Random(number))
        at = f"2026-{1 + number * 4 // count:02d}-{1 + number % 28:02d}"
        replaces = [ids[number // 2]] if number % 5 == 4 else []
        ids.append(service.remember(**claim, at=at, replaces=replaces).id)  # type: ignore[arg-type]
        if number % 1000 == 999:
            common.progress(f"stored {number + 1} of {count}")


def _cpu(service: Service, question: str, known_at: str | None) -> float:
    began = time.thread_time()
    service.recall(question, known_at=known_at)
    return (time.thread_time() - began) * 1000


if __name__ == "__main__":
    main()
