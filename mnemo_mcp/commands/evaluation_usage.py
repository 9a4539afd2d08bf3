"""`mnemo eval usage`: how well the local scorer tells memories that were used from those that were not."""

from __future__ import annotations

import argparse
from typing import Any

from mnemo_mcp.commands.door import Commands, Failed, Result, command, show

_KINDS = ("fact", "event", "state", "decision", "preference", "procedure")


def add(evaluations: Commands) -> None:
    """Enter the command among those that evaluate."""
    usage = command(evaluations, "usage", _usage, "turns with a memory that was used in them or was not")
    usage.description = (
        "Judges labelled turns with the encoders of the settings. FILE has one JSON object a line with "
        "`id`, `lang`, `memory`, `prompt`, `answer`, `used` and, where it is no fact, `kind`. A third of the "
        "rows, by their ids, is kept aside from tuning. Printed are the area under the curve, the expected "
        "calibration error, and which verdict fell how often."
    )
    usage.add_argument("--data", required=True, metavar="FILE", help="lines of JSON")


def wrong(row: dict[str, Any]) -> str:
    """What is wrong with a labelled turn, or nothing."""
    for name in ("id", "lang", "memory", "prompt", "answer"):
        if not isinstance(row.get(name), str):
            return f"`{name}` is missing or not a text"
    if not isinstance(row.get("used"), bool):
        return "`used` is not true or false"
    return "" if row.get("kind", "fact") in _KINDS else f"`kind` is none of {', '.join(_KINDS)}"


def _usage(options: argparse.Namespace) -> None:
    from mnemo_mcp import settings as configuration
    from mnemo_mcp.commands.evaluation import rows
    from mnemo_mcp.errors import MnemoError
    from mnemo_mcp.models.registry import EncoderPair
    from mnemo_mcp.standing.evaluation import evaluate

    labelled = list(rows(options.data, wrong))
    try:
        settings = configuration.load()
        encoders = EncoderPair(settings.encoders, settings.model_files)
        encoders.load()
        show(options, evaluate(labelled, encoders), _told)
    except MnemoError as error:
        raise Failed(str(error)) from None


def _told(result: Result) -> str:
    judges = ", ".join(f"{count} by {judge}" for judge, count in result["judges"].items())
    lines = [f"{result['rows']} turns, read {judges}"]
    lines.append(
        f"{'':16}{'turns':>6}{'AUC':>8}{'ECE':>8}   used/unsure/unused of those used, and of those not"
    )
    for name, part in result["parts"].items():
        counts = ["/".join(map(str, row.values())) for row in part["confusion"].values()]
        figures = [_figure(part["auc"]), _figure(part["ece"])]
        lines.append(
            f"{name:16}{part['turns']:>6}{figures[0]:>8}{figures[1]:>8}   {counts[0]:12} {counts[1]}"
        )
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
