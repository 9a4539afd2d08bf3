"""What is shown unasked before a message, beside what simple hooks would show of the same ranking.

Each prompt is a session of its own, and is asked twice: what was shown once must not come again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common

from mnemo_mcp.memory import EntityRef
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

DATA = Path(__file__).resolve().parent.parent / "tests/data"
FOLDER = "/home/dev/plover"
_ID = re.compile(r"\bm[0-9a-z]{13}\b")

Row = dict[str, Any]
Part = Callable[[Row], bool]


@dataclass
class Told:
    """What a way of showing showed for each prompt, what that cost, and what came twice."""

    by_prompt: dict[str, list[str]] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    again: int = 0


def main() -> None:
    given = common.options(__doc__)
    report: dict[str, Any] = {}
    for name, memories, prompts in sets():
        common.progress(name)
        report |= measured(name, memories, prompts)
    common.report(report, given.json)


def sets() -> Iterable[tuple[str, list[Row], list[Row]]]:
    """Each store with the prompts that are put to it."""
    idle = read("injection_idle.jsonl")
    for name, file in (("payments", "injection.jsonl"), ("greenhouse", "injection_aside.jsonl")):
        rows = read(file)
        prompts = [row for row in rows if "prompt" in row]
        yield name, [row for row in rows if "memory" in row], prompts + (idle if name == "payments" else [])
    memories = [
        {**row, "memory": row["id"]} for row in read("recall_memories.jsonl") if not row.get("valid_to")
    ]
    yield "many languages", memories, questions({row["memory"] for row in memories})


def read(file: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / file).read_text("utf-8").splitlines()]


def questions(known: set[str]) -> list[Row]:
    """Every wording of the questions about what still holds."""
    return [
        {
            "prompt": f"{row['id']}-{lang}",
            "lang": lang,
            "text": text,
            "gold": sorted(known & set(row["gold"])),
        }
        for row in read("recall_questions.jsonl")
        if row["type"] != "past" and known & set(row["gold"])
        for lang, text in row.items()
        if lang not in ("id", "type", "gold")
    ]


def measured(name: str, memories: list[Row], prompts: list[Row]) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder,
        Service.open(settings=Settings(home=Path(folder) / "data")) as service,
    ):
        names = {remember(service, row): row["memory"] for row in memories}
        ours = by_hook(service, prompts, names)
        ways = {"ours": ours, "five each time": by_list(service, prompts, names, 0.0)}
        floors = [by_list(service, prompts, names, step / 20) for step in range(1, 20)]
    ways["best fixed floor"] = max(floors, key=lambda told: harmony(prompts, told))
    parts: dict[str, Part] = {"all": lambda _: True}
    if name != "greenhouse":
        parts |= {"tuned on": lambda row: not kept_aside(row), "kept aside": kept_aside}
    parts |= {"english": lambda row: row["lang"] == "en", "others": lambda row: row["lang"] != "en"}
    return {
        f"{name}, {part}: {way}": figures([row for row in prompts if belongs(row)], told)
        for part, belongs in parts.items()
        for way, told in ways.items()
    }


def kept_aside(row: Row) -> bool:
    """Half of the prompts, by the hash of their names; nothing was set by these."""
    return hashlib.sha256(row["prompt"].encode()).digest()[-1] % 2 == 1


def remember(service: Service, row: Row) -> str:
    parts = {name: row.get(name, "") for name in ("what", "why", "how", "who", "where")}
    entities = [
        EntityRef(each if isinstance(each, str) else each["name"]) for each in row.get("entities", ())
    ]
    return service.remember(**parts, kind=row["kind"], entities=entities).id


def by_hook(service: Service, prompts: Sequence[Row], names: dict[str, str]) -> Told:
    """What the pre-message hook injects."""
    count, told = TokenCounter().count, Told()
    for row in prompts:
        text, again = hook(service, row), hook(service, row)
        told.by_prompt[row["prompt"]] = [names[each] for each in _ID.findall(text)]
        told.tokens[row["prompt"]] = count(text)
        told.again += len(set(_ID.findall(text)) & set(_ID.findall(again)))
    return told


def hook(service: Service, row: Row) -> str:
    payload = {
        "session_id": row["prompt"],
        "cwd": FOLDER,
        "hook_event_name": "UserPromptSubmit",
        "prompt": row["text"],
    }
    said = service.hook("claude", "pre-message", json.dumps(payload).encode())
    return str(json.loads(said)["hookSpecificOutput"]["additionalContext"]) if said else ""


def by_list(service: Service, prompts: Sequence[Row], names: dict[str, str], floor: float) -> Told:
    """The first five of the same ranking, or those of them for which as much speaks; without any frame."""
    count, told = TokenCounter().count, Told()
    for row in prompts:
        found = [each for each in service.recall(row["text"], limit=5).memories if each.speaks >= floor]
        told.by_prompt[row["prompt"]] = [names[each.memory.id] for each in found]
        told.tokens[row["prompt"]] = count("\n".join(each.memory.claim.text() for each in found))
    return told


def harmony(prompts: Sequence[Row], told: Told) -> float:
    """The harmonic mean of precision and recall."""
    found = figures(prompts, told)
    both = found["precision"] + found["recall"]
    return 2 * found["precision"] * found["recall"] / both if both else 0.0


def figures(prompts: Sequence[Row], told: Told) -> dict[str, Any]:
    """Precision and recall of needed memories, what one costs, and which prompts were left alone rightly."""
    hit = sum(len(set(told.by_prompt[row["prompt"]]) & set(row["gold"])) for row in prompts)
    shown = sum(len(told.by_prompt[row["prompt"]]) for row in prompts)
    needed = sum(len(row["gold"]) for row in prompts)
    idle = [row for row in prompts if not row["gold"]]
    silent = sum(not told.by_prompt[row["prompt"]] for row in idle)
    tokens = sum(told.tokens[row["prompt"]] for row in prompts)
    return {
        "prompts": len(prompts),
        "precision": round(hit / (shown or 1), 3),
        "recall": round(hit / (needed or 1), 3),
        "silent": round(silent / len(idle), 3) if idle else None,
        "tokens_per_needed": round(tokens / hit, 1) if hit else math.inf,
        "twice": told.again,
    }


if __name__ == "__main__":
    main()
