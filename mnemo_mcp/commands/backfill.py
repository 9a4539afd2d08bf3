"""Commands about threads: what came of those that were read, and taking past transcripts in."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from mnemo_mcp.commands.door import Commands, Result, ask, chosen, command, show

_SECONDS = 600.0  # for one session; transcripts can be hundreds of megabytes
_COUNTS = ("turns", "episodes", "known", "left_out", "requests", "tokens_in", "tokens_out", "cost")


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    distilled = command(
        commands, "distilled", _distilled, "what came of each claim taken from a thread, and why"
    )
    distilled.add_argument("--session", metavar="ID")
    distilled.add_argument("--limit", type=int)
    backfill = command(commands, "backfill", _backfill, "take in past transcripts of Claude Code and Codex")
    backfill.add_argument("--client", choices=("claude", "codex"))
    backfill.add_argument(
        "--dry-run", action="store_true", help="only count, and estimate what reading costs"
    )
    backfill.add_argument("--since", metavar="TIME", help="turns since then")
    backfill.add_argument("--project", metavar="P", help="turns in this project")


def _distilled(options: argparse.Namespace) -> None:
    show(options, ask("distilled", chosen(options, "session", "limit")), _told_claims)


def _told_claims(result: Result) -> str:
    told = [
        f"{each['at'][:16]} {each['outcome']} {each['memory'] or '-'} [{each['kind']}] {each['what']}\n"
        f"    {each['reason']}"
        for each in result["claims"]
    ]
    return "\n".join(told) or "Nothing was taken from any thread yet."


def _backfill(options: argparse.Namespace) -> None:
    found = ask("past_sessions", chosen(options, "client"), _SECONDS)["sessions"]
    scope = chosen(options, "since", "project", "dry_run")
    sessions: list[dict[str, Any]] = []
    for number, each in enumerate(found, 1):
        taken = ask("take_session", {**scope, "path": each["path"]}, _SECONDS)
        if taken["turns"]:
            sessions.append(taken)
        print(f"\r{number} of {len(found)} transcripts", end="", file=sys.stderr, flush=True)
    if found:
        print(file=sys.stderr)
    totals = {name: sum(each[name] for each in sessions) for name in _COUNTS}
    show(options, {"dry_run": options.dry_run, "sessions": sessions, **totals}, _told)


def _told(result: Result) -> str:
    sessions, new = len(result["sessions"]), result["episodes"]
    verb = "would bring" if result["dry_run"] else "brought"
    lines = [
        f"{sessions} sessions with {result['turns']} turns {verb} {new} new episodes;"
        f" {result['known']} are known."
    ]
    if result["left_out"]:
        lines.append(f"{result['left_out']} turns in excluded folders or private sessions stay out.")
    if new:
        cost = f", {result['cost']:.2f} by the prices set" if result["cost"] else ""
        lines.append(
            f"Reading them takes some {result['requests']} requests, {result['tokens_in']} tokens in and"
            f" {result['tokens_out']} out{cost}."
        )
    if result["dry_run"] and new:
        lines.append("Nothing was stored. Without --dry-run it is.")
    return "\n".join(lines)
