"""Commands that measure mnemo's judgement on labelled data. They run in this process and need no daemon."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mnemo_mcp.commands import evaluation_extraction, evaluation_usage
from mnemo_mcp.commands.door import Commands, Failed, Result, command, show

Row = dict[str, Any]
_LABELS = ("same", "updates", "contradicts", "different")


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    evaluations = commands.add_parser("eval", help="measure the judgement on labelled data").add_subparsers(
        dest="evaluation", required=True, metavar="WHAT"
    )
    guard = command(evaluations, "guard", _guard, "pairs of texts that the guard keeps apart or lets through")
    guard.description = (
        "Compares pairs of texts by the guard alone. FILE has one JSON object a line with `id`, `old`, "
        f"`new`, `label` ({', '.join(_LABELS)}) and, where it differs from what the label says, `may_merge`. "
        "Only `same` may merge. right_merges counts the pairs that may merge and that the guard allows: it "
        "does not say that anybody would merge them. wrong_merges counts those it allows and should not."
    )
    guard.add_argument("--data", required=True, metavar="FILE", help="lines of JSON")
    relations = command(
        evaluations, "relations", _relations, "how well the decisions model of the settings tells relations"
    )
    relations.description = (
        "Asks the decisions model about pairs of claims, one request each, as the judge would. FILE has one "
        f"JSON object a line with `id`, `old`, `new` and `label` ({', '.join(_LABELS)}). Nothing is stored."
    )
    relations.add_argument("--data", required=True, metavar="FILE", help="lines of JSON")
    relations.add_argument("--svg", metavar="FILE", help="write a picture of how sure it was and how right")
    evaluation_usage.add(evaluations)
    evaluation_extraction.add(evaluations, rows)


def rows(file: str, check: Callable[[Row], str]) -> Iterator[Row]:
    """The objects of a file with one a line; raises `Failed` with the line that is wrong and why."""
    try:
        lines = Path(file).expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{file} cannot be read: {error}.") from None
    given = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not given:
        raise Failed(f"{file} has no lines.")
    for number, line in given:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise Failed(f"{file}, line {number}: not valid JSON: {error}.") from None
        wrong = check(row) if isinstance(row, dict) else "not a JSON object"
        if wrong:
            raise Failed(f"{file}, line {number}: {wrong}.")
        yield row


def _pair(row: Row) -> str:
    """What is wrong with a labelled pair, or nothing."""
    for name in ("id", "old", "new"):
        if not isinstance(row.get(name), str):
            return f"`{name}` is missing or not a text"
    if not isinstance(row.get("may_merge", True), bool):
        return "`may_merge` is not true or false"
    if "may_merge" not in row and row.get("label") not in _LABELS:
        return f"`label` is none of {', '.join(_LABELS)}"
    return ""


def _guard(options: argparse.Namespace) -> None:
    from mnemo_mcp.guard import differences

    counts = {"wrong_merges": 0, "wrong_total": 0, "right_merges": 0, "right_total": 0}
    failures = []
    for row in rows(options.data, _pair):
        seen = [str(difference) for difference in differences(row["old"], row["new"])]
        side = "right" if row.get("may_merge", row.get("label") == "same") else "wrong"
        counts[f"{side}_total"] += 1
        counts[f"{side}_merges"] += not seen
        if (side == "right") == bool(seen):
            failures.append(
                {
                    "id": row["id"],
                    "failure": _FAILURES[side],
                    "old": row["old"],
                    "new": row["new"],
                    "seen": seen,
                }
            )
    show(options, {**counts, "failures": failures}, _told_guard)


_FAILURES = {"right": "kept apart", "wrong": "let through"}


def _told_guard(result: Result) -> str:
    lines = [
        f"wrong merges {result['wrong_merges']:5} of {result['wrong_total']}",
        f"right merges {result['right_merges']:5} of {result['right_total']} (allowed by the guard)",
    ]
    for each in result["failures"]:
        lines += ["", f"{each['id']} {each['failure']}", f"  {each['old']}", f"  {each['new']}"]
        lines += [f"    {difference}" for difference in each["seen"]]
    return "\n".join(lines)


def _labelled(row: Row) -> str:
    """What is wrong with a pair labelled with its relation, or nothing."""
    return _pair(row) or ("" if row.get("label") in _LABELS else f"`label` is none of {', '.join(_LABELS)}")


def _relations(options: argparse.Namespace) -> None:
    from mnemo_mcp import settings as configuration
    from mnemo_mcp.errors import EndpointError, SettingsError
    from mnemo_mcp.judge.evaluation import measured, report
    from mnemo_mcp.ledger.store import Store
    from mnemo_mcp.models.connected import LanguageModels
    from mnemo_mcp.pictures import reliability_svg
    from mnemo_mcp.times import system_clock, zone_named

    pairs = list(rows(options.data, _labelled))
    with TemporaryDirectory(prefix="mnemo-eval-") as folder:
        try:
            settings = configuration.load()
            store = Store(Path(folder) / "mnemo.db", system_clock())
            models = LanguageModels(settings.models, store, system_clock, zone_named(settings.zone))
            try:
                if models.decider is None:
                    raise Failed("No decisions model is set; docs/models.md tells how to name one.")
                found = measured(models.decider, pairs, settings.judging)
                model, spent = f"{models.decider.kind} {models.decider.model}", models.account(1)
            finally:
                models.close()
                store.close()
        except (EndpointError, SettingsError) as error:
            raise Failed(str(error)) from None
    result = {
        "model": model,
        **report(found),
        "tokens_in": sum(each["tokens_in"] for each in spent),
        "tokens_out": sum(each["tokens_out"] for each in spent),
        "cost": round(sum(each["cost"] for each in spent), 6),
        "failures": [asdict(each) for each in found if each.said != each.label],
    }
    if options.svg:
        Path(options.svg).write_text(reliability_svg(model, result["bins"]), "utf-8")
    show(options, result, _told_relations)


def _told_relations(result: Result) -> str:
    lines = [f"{result['model']}: right in {_percent(result['accuracy'])} of {result['pairs']} pairs"]
    for label, each in result["by_label"].items():
        said = ", ".join(f"{name} {count}" for name, count in result["confusion"][label].items())
        lines.append(f"  {label:12} {_percent(each['accuracy'])} of {each['pairs']}: said {said}")
    if result["calibration_error"] is not None:
        lines.append(f"calibration error {result['calibration_error']:.3f}")
    lines += [
        f"  {each['from']:.1f} to {each['to']:.1f}: said {each['said']:.2f}, right {each['right']:.2f}"
        f" ({each['pairs']} pairs)"
        for each in result["bins"]
    ]
    lines.append(
        f"the judge would have acted on {result['acted']}, wrongly on {result['acted_wrongly']},"
        f" of these {result['merged_wrongly']} wrong merges"
    )
    lines.append(f"{result['tokens_in']} tokens in, {result['tokens_out']} out, cost {result['cost']:.4f}")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
