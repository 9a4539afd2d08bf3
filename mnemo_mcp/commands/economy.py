"""Commands about what hooks say unasked: why it was said or kept silent, and what it costs and brings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from mnemo_mcp.commands.door import Commands, Failed, Result, ask, chosen, command, show

_WIDE = 40  # signs of a full bar
_BLOCKS = " ▁▂▃▄▅▆▇█"
_DOTS = 60  # days a chart shows


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    why = command(commands, "why", _why, "what a session was told unasked, or why nothing, moment by moment")
    why.add_argument("session", nargs="?", help="its id or the beginning of one; the latest if left out")
    stats = command(commands, "stats", _stats, "what is told unasked: tokens, use, silence")
    stats.add_argument("--days", type=int, help="30 if left out")
    stats.add_argument("--svg", metavar="FILE", help="write a picture")


def _why(options: argparse.Namespace) -> None:
    show(options, ask("why", chosen(options, "session")), _told_why)


def _stats(options: argparse.Namespace) -> None:
    result = ask("stats", chosen(options, "days"))
    picture = result.pop("svg")
    if options.svg:
        try:
            Path(options.svg).write_text(picture, "utf-8")
        except OSError as error:
            raise Failed(f"{options.svg} cannot be written: {error.strerror}.") from None
    show(options, result, _told_stats)


def _told_why(result: Result) -> str:
    goes_on = f", goes on from {result['parent']}" if result["parent"] else ""
    lines = [
        f"Session {result['session']} ({result['client']}) in {result['project'] or 'no project'}{goes_on}:"
        f" {result['tokens']} tokens"
    ]
    for each in result["moments"]:
        source = f" ({each['source']})" if each["source"] else ""
        asked = f" “{each['prompt']}”" if each["prompt"] else ""
        lines.append(f"\n{each['at']} {each['moment']}{source}{asked}")
        if each["silent"]:
            lines.append(f"  silent: {each['silent']}")
        else:
            lines.append(f"  {each['tokens']} tokens")
        lines += [f"  {_told_shown(memory)}" for memory in each["shown"]]
        lines += [f"  withheld, {reason}: {', '.join(ids)}" for reason, ids in each["withheld"].items()]
    return "\n".join(lines)


def _told_shown(memory: Result) -> str:
    found = ", ".join(f"{channel} {rank}" for channel, rank in memory.get("ranks", {}).items())
    ranks = f"; ranks: {found}" if found else ""
    said = memory["verdict"]
    if "judge" in memory:
        evidence = f": {memory['evidence']}" if memory["evidence"] else ""
        said += f" ({memory['probability']:.2f} by {memory['judge']}{evidence})"
    return f"{memory['id']} {memory['what']}\n    {said}{ranks}"


def _told_stats(result: Result) -> str:
    reading = result["reading"]
    share = (
        "unknown (no client told its tokens)"
        if reading["share"] is None
        else f"{100 * reading['share']:.2f} % of {reading['tokens']} tokens in {reading['turns']} turns"
    )
    lines = [
        f"The last {result['days']} days: {result['sessions']} sessions, {result['prompts']} prompts,"
        f" {result['answered_turns']} answered turns",
        f"injected: {result['tokens']} tokens; {_number(result['tokens_per_turn'])} a prompt,"
        f" {_number(result['tokens_per_session'])} a session, {_number(result['tokens_per_day'])} a day",
        f"share of what the sessions read: {share}",
        f"prompts that were given notes: {result['prompts_with_notes']} of {result['prompts']}",
        _chart([day["tokens"] for day in result["by_day"]]),
        "",
        f"memories shown: {result['memories_shown']}",
        *_bars(result["verdicts"]),
    ]
    if result["silent"]:
        lines += ["", "silent:", *_bars(result["silent"])]
    if result["muted"]:
        lines += ["", "muted (mnemo keep ID brings one back):"]
        lines += [f"  {each['id']} {each['where']}: {each['what']}" for each in result["muted"]]
    return "\n".join(lines)


def _number(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:g}"


def _chart(values: list[int]) -> str:
    """One sign a day, as high as the day's share of the highest."""
    shown = values[-_DOTS:]
    most = max(shown, default=0) or 1
    signs = "".join(_BLOCKS[-(-value * (len(_BLOCKS) - 1) // most)] for value in shown)
    return f"tokens a day: {signs}| highest {most if shown else 0}"


def _bars(counts: Mapping[str, int]) -> list[str]:
    whole = sum(counts.values()) or 1
    wide = max(map(len, counts), default=0)
    return [
        f"  {name:{wide}} {'█' * round(_WIDE * count / whole):{_WIDE}} {count} ({100 * count / whole:.0f} %)"
        for name, count in counts.items()
    ]
