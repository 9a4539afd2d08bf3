"""What is shown unasked before a message, against showing the first five of the same ranking each time."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import common

from mnemo_mcp.memory import EntityRef
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

SET = Path(__file__).resolve().parent.parent / "tests/data/injection.jsonl"
FOLDER = "/home/dev/plover"
_ID = re.compile(r"\bm[0-9a-z]{13}\b")

Row = dict[str, Any]
Shown = Callable[[Row], tuple[list[str], str]]
"""The ids of the memories shown for a prompt, and the text handed over."""


def main() -> None:
    given = common.options(__doc__)
    rows = [json.loads(line) for line in SET.read_text("utf-8").splitlines()]
    memories = [row for row in rows if "memory" in row]
    prompts = [row for row in rows if "prompt" in row]
    with (
        tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder,
        Service.open(settings=Settings(home=Path(folder) / "data")) as service,
    ):
        names = {remember(service, row): row["memory"] for row in memories}
        ours = measure(prompts, names, lambda row: by_hook(service, row))
        five = measure(prompts, names, lambda row: by_first_five(service, row))
    ratio = round(ours["precision"] / five["precision"], 2)
    common.report({"ours": ours, "five_each_time": five, "precision_ratio": ratio}, given.json)


def remember(service: Service, row: Row) -> str:
    parts = {name: row.get(name, "") for name in ("what", "why", "how", "who", "where")}
    entities = [EntityRef(name) for name in row.get("entities", ())]
    return service.remember(**parts, kind=row["kind"], entities=entities).id


def by_hook(service: Service, row: Row) -> tuple[list[str], str]:
    """What the pre-message hook injects, each prompt in a session of its own."""
    payload = {
        "session_id": row["prompt"],
        "cwd": FOLDER,
        "hook_event_name": "UserPromptSubmit",
        "prompt": row["text"],
    }
    said = service.hook("claude", "pre-message", json.dumps(payload).encode())
    text = json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""
    return _ID.findall(text), text


def by_first_five(service: Service, row: Row) -> tuple[list[str], str]:
    memories = [each.memory for each in service.recall(row["text"], limit=5).memories]
    return [each.id for each in memories], "\n".join(each.claim.text() for each in memories)


def measure(prompts: Sequence[Row], names: dict[str, str], shown: Shown) -> dict[str, Any]:
    """Precision and recall of needed memories, and how many prompts that need none were left alone."""
    count = TokenCounter().count
    told = {}
    tokens = 0
    for row in prompts:
        ids, text = shown(row)
        told[row["prompt"]] = {names[each] for each in ids}
        tokens += count(text)
    idle = [row for row in prompts if not row["gold"]]
    return {
        "prompts": len(prompts),
        **_found(prompts, told),
        "english": _found([row for row in prompts if row["gold"] and row["lang"] == "en"], told),
        "other": _found([row for row in prompts if row["gold"] and row["lang"] != "en"], told),
        "silent_when_nothing_helps": round(sum(not told[row["prompt"]] for row in idle) / len(idle), 3),
        "tokens": tokens,
    }


def _found(prompts: Sequence[Row], told: dict[str, set[str]]) -> dict[str, float]:
    hit = sum(len(told[row["prompt"]] & set(row["gold"])) for row in prompts)
    shown = sum(len(told[row["prompt"]]) for row in prompts)
    needed = sum(len(row["gold"]) for row in prompts)
    return {"precision": round(hit / (shown or 1), 3), "recall": round(hit / needed, 3)}


if __name__ == "__main__":
    main()
