"""`mnemo eval extraction`: conversations go the whole way through a model; what they leave is compared."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mnemo_mcp.commands.door import Commands, Failed, Result, command, show

if TYPE_CHECKING:
    from mnemo_mcp.memory import Memory
    from mnemo_mcp.service import Service
    from mnemo_mcp.settings import Settings

Row = dict[str, Any]
Rows = Callable[[str, Callable[[Row], str]], Iterator[Row]]

_SHARED = 0.6  # of the telling words of what is expected: so many a memory must hold
_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_FOLDER = "/home/dev/atlas"
_MOST_TASKS = 50
_MOMENTS = {"person": "pre-message", "assistant": "turn-end"}


def add(evaluations: Commands, rows: Rows) -> None:
    """Enter the command; `rows` reads a file of labelled lines."""
    extraction = command(
        evaluations,
        "extraction",
        lambda options: _run(options, rows),
        "what a model takes from conversations",
    )
    extraction.description = (
        "Lets the extraction model of the settings read conversations, each in a store of its own that is "
        "thrown away, with all checks after it. FILE has one JSON object a line with `id`, `lines` (a list "
        f"of `role`, {' or '.join(_MOMENTS)}, and `text`), `expect` (a list of `what` and, if it matters, "
        "`kind`) and, if there is anything that must not be kept, `forbid` (a list of texts)."
    )
    extraction.add_argument("--data", required=True, metavar="FILE", help="lines of JSON")


@dataclass(frozen=True, slots=True)
class _Left:
    """What one conversation left, against what it should have."""

    missing: list[str]
    spare: list[str]
    wrong: list[str]
    expected: int
    right_kind: int


class _Clock:
    def __init__(self) -> None:
        self.now = _BEGIN

    def __call__(self) -> datetime:
        return self.now


def _wrong(row: Row) -> str:
    """What is wrong with a labelled conversation, or nothing."""
    lines, expect = row.get("lines"), row.get("expect")
    if not isinstance(row.get("id"), str):
        return "`id` is missing or not a text"
    if not isinstance(lines, list) or not all(
        isinstance(each, dict) and each.get("role") in _MOMENTS and isinstance(each.get("text"), str)
        for each in lines
    ):
        return f"`lines` is no list of objects with `role` ({', '.join(_MOMENTS)}) and `text`"
    if not isinstance(expect, list) or not all(
        isinstance(each, dict) and isinstance(each.get("what"), str) for each in expect
    ):
        return "`expect` is no list of objects with `what`"
    return "" if isinstance(row.get("forbid", []), list) else "`forbid` is no list"


def _run(options: argparse.Namespace, rows: Rows) -> None:
    from mnemo_mcp import settings as configuration
    from mnemo_mcp.errors import MnemoError

    conversations = list(rows(options.data, _wrong))
    try:
        settings = configuration.load()
        if not settings.models.extraction:
            raise Failed("No extraction model is set; docs/models.md tells how to name one.")
        found, spent = {}, []
        for row in conversations:
            with TemporaryDirectory(prefix="mnemo-eval-") as folder:
                found[row["id"]], account = _left(settings, Path(folder) / "data", row)
                spent += account
    except MnemoError as error:
        raise Failed(str(error)) from None
    expected = sum(each.expected for each in found.values())
    missing = sum(len(each.missing) for each in found.values())
    spare = sum(len(each.spare) for each in found.values())
    result = {
        "conversations": len(found),
        "expected": expected,
        "found": expected - missing,
        "right_kind": sum(each.right_kind for each in found.values()),
        "spare": spare,
        "forbidden_kept": sum(len(each.wrong) for each in found.values()),
        "recall": _share(expected - missing, expected),
        "precision": _share(expected - missing, expected - missing + spare),
        "tokens_in": sum(each["tokens_in"] for each in spent),
        "tokens_out": sum(each["tokens_out"] for each in spent),
        "cost": round(sum(each["cost"] for each in spent), 6),
        "failures": [
            {"id": name, "missing": each.missing, "spare": each.spare, "forbidden": each.wrong}
            for name, each in found.items()
            if each.missing or each.spare or each.wrong
        ],
    }
    show(options, result, _told)


def _left(settings: Settings, home: Path, row: Row) -> tuple[_Left, list[dict[str, Any]]]:
    """Let the model read one conversation. Raises `Failed` with what kept it from being read."""
    from dataclasses import replace

    from mnemo_mcp.service import Service
    from mnemo_mcp.settings import Encoders

    clock = _Clock()
    alone = replace(settings, home=home, encoders=Encoders("off", "off"), exclude=())
    with Service(alone, clock) as service:
        for number, line in enumerate(row["lines"]):
            clock.now += timedelta(seconds=30)
            _tell(service, number, line)
        _hook(service, "session-end", "SessionEnd", reason="other")
        clock.now += timedelta(minutes=10)
        for _ in range(_MOST_TASKS):
            if not service.tasks.work_off("distil"):
                break
        trouble = [each.error for each in service.store.work.queues(service._now()) if each.error]
        if trouble:
            raise Failed(f"The model could not read {row['id']}: {trouble[0]}")
        kept = service.store.truth.changed_since(0)[1]
        return _compared(row, kept), [dict(each) for each in service.models.account(1)]


def _tell(service: Service, number: int, line: Mapping[str, str]) -> None:
    if line["role"] == "person":
        _hook(service, "pre-message", "UserPromptSubmit", prompt=line["text"], prompt_id=f"p{number}")
    else:
        _hook(service, "turn-end", "Stop", last_assistant_message=line["text"], prompt_id=f"p{number - 1}")


def _hook(service: Service, moment: str, event: str, **fields: str) -> None:
    payload = {"session_id": "eval", "cwd": _FOLDER, "hook_event_name": event, **fields}
    service.hook("claude", moment, json.dumps(payload).encode())


def _compared(row: Row, kept: list[Memory]) -> _Left:
    expect = row["expect"]
    met = {
        place: [each for each in kept if _tells(each, wanted["what"])] for place, wanted in enumerate(expect)
    }
    taken = {each.id for found in met.values() for each in found}
    return _Left(
        [expect[place]["what"] for place, found in met.items() if not found],
        [each.claim.what for each in kept if each.id not in taken],
        [each.claim.what for each in kept if any(_tells(each, text) for text in row.get("forbid", ()))],
        len(expect),
        sum(
            any(each.claim.kind == expect[place].get("kind", each.claim.kind) for each in found)
            for place, found in met.items()
        ),
    )


def _tells(memory: Memory, wanted: str) -> bool:
    """Whether a memory says what is wanted: most of its telling words, and every figure."""
    from mnemo_mcp.words import telling

    asked = set(telling(wanted))
    held = set(telling(memory.claim.text()))
    figures = {word for word in asked if any(letter.isdigit() for letter in word)}
    return len(asked & held) >= _SHARED * len(asked) and figures <= held


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def _told(result: Result) -> str:
    lines = [
        f"{result['found']} of {result['expected']} memories found in {result['conversations']}"
        f" conversations, {result['right_kind']} of the right kind; {result['spare']} more were kept,"
        f" {result['forbidden_kept']} of them forbidden",
        f"{result['tokens_in']} tokens in, {result['tokens_out']} out, cost {result['cost']:.4f}",
    ]
    for each in result["failures"]:
        lines.append(each["id"])
        for name in ("missing", "spare", "forbidden"):
            lines += [f"  {name}: {what}" for what in each[name]]
    return "\n".join(lines)
