"""Commands about the process: its state, its health, running and ending it, and what clients start."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from typing import Any

from mnemo_mcp.clients import codex
from mnemo_mcp.clients.catalog import Places
from mnemo_mcp.commands.door import Commands, Failed, NoDaemon, Result, ask, command, show
from mnemo_mcp.daemon.unserved import unserved
from mnemo_mcp.thin import link

_FAREWELL_SECONDS = 15.0


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    command(commands, "status", _status, "counts, what waits, and every problem")
    doctor = command(commands, "doctor", _doctor, "check the store; 1 if anything is wrong")
    doctor.add_argument("--repair", action="store_true", help="fold the snapshot anew from the ledger")
    doctor.add_argument("--probe", action="store_true", help="also ask the model endpoints in use")
    serve = commands.add_parser("serve", help="run the daemon in the foreground")
    serve.set_defaults(run=_serve)
    serve.add_argument("--http", metavar="HOST:PORT", help="also serve MCP over HTTP (/mcp and /sse)")
    serve.add_argument("--no-token", action="store_true", help="without a bearer token; loopback only")
    command(commands, "stop", _stop, "end the daemon")
    commands.add_parser("mcp", help="the MCP server on stdin and stdout").set_defaults(run=_mcp)
    commands.add_parser("demo", help="a proof in a throw-away folder").set_defaults(run=_demo)
    hook = commands.add_parser("hook", help="what a client's hook runs; the payload on stdin")
    hook.set_defaults(run=_hook)
    hook.add_argument("client", choices=("claude", "codex"))
    hook.add_argument("moment", choices=("session-open", "pre-message", "turn-end", "session-end"))


def _status(options: argparse.Namespace) -> int:
    status = _state()
    show(options, status, _told_status)
    return 0 if status["pid"] else 1


def _state() -> Mapping[str, Any]:
    """The daemon's status; where there is none, in the same shape what keeps it from serving."""
    try:
        return ask("status", {})
    except NoDaemon as failure:
        return unserved(str(failure), _home())


def _home() -> str:
    try:
        return link.data_folder()
    except link.Unreachable:
        return os.environ.get("MNEMO_HOME", "")  # not a path that can be used, which `problems` tell


def _doctor(options: argparse.Namespace) -> int:
    status = _state()
    probed: list[dict[str, str]] = []
    if options.probe and status["memories"] is not None:
        probed = ask("probe", {})["endpoints"]
        status = {**_state(), "endpoints": probed}  # what was wrong may be well by now
    problems = [*status["problems"]]
    if status["memories"] is not None:
        problems += ask("check", {"repair": options.repair})["problems"]
    told = [each["problem"] for each in probed if each["problem"]]
    problems += [each for each in told if not any(known.startswith(each) for known in problems)]
    problems += codex.untrusted(Places())
    result = {**status, "problems": problems}
    show(options, result, _told_status)
    return 1 if problems else 0


def _serve(options: argparse.Namespace) -> None:
    from mnemo_mcp.daemon import main as daemon
    from mnemo_mcp.daemon.web import web_door
    from mnemo_mcp.errors import MnemoError, StoreBusy

    until = time.monotonic() + _FAREWELL_SECONDS
    stop_running()
    try:
        door = web_door(options.http, token=not options.no_token) if options.http is not None else None
        while True:
            try:
                return daemon.serve(door)
            except StoreBusy:  # a client was quicker to start one
                if time.monotonic() > until:
                    raise
            if not stop_running():
                time.sleep(0.05)
    except MnemoError as error:
        raise Failed(str(error)) from None


def _stop(options: argparse.Namespace) -> None:
    stopped = stop_running()
    show(options, {"stopped": stopped}, lambda result: "Stopped." if result["stopped"] else "Nothing ran.")


def stop_running() -> bool:
    """End the daemon of this data folder, if one runs, and wait until it has let go of the folder."""
    try:
        pid = int(ask("status", {}, start=False)["pid"])
        ask("stop", {}, start=False)
    except link.NotRunning:
        return False
    until = time.monotonic() + _FAREWELL_SECONDS
    while time.monotonic() < until:
        if link.is_free(link.data_folder()):
            return True
        time.sleep(0.02)
    raise Failed(f"The daemon (pid {pid}) does not end. End it with `kill {pid}`.")


def _mcp(options: argparse.Namespace) -> None:
    from mnemo_mcp.thin import pipe

    pipe.main()


def _demo(options: argparse.Namespace) -> int:
    from mnemo_mcp import demo

    return demo.main()


def _hook(options: argparse.Namespace) -> None:
    from mnemo_mcp.thin import hook

    hook.main([options.client, options.moment])


def _told_status(result: Result) -> str:
    waiting = [f"{count} to {name}" for name, count in result["queue"].items() if count]
    lines = [
        f"mnemo {result['version']}, pid {result['pid'] or '-'}, data in {result['home']}",
        f"{_count(result['memories'])} memories, {_count(result['episodes'])} episodes",
        f"encoders: {', '.join(result['encoders']) or 'none ready'}",
        *([result["moving"]] if result["moving"] else []),
        *([result["distilling"]] if result["distilling"] else []),
        f"models: {_told_models(result['models']) or 'none set'}",
        f"waiting: {', '.join(waiting) or '-'}",
    ]
    return "\n".join([*lines, *(f"PROBLEM: {problem}" for problem in result["problems"])])


def _told_models(models: Result) -> str:
    """Which model does what, and what this day has cost so far."""
    endpoints = models.get("endpoints", ())
    told = [f"{each['model']} at {each['url']} ({', '.join(each['uses'])})" for each in endpoints]
    spent = [f"{models['tokens_today']} tokens today"] if endpoints else []
    days = [each for each in models.get("spent", ()) if each["cost"]]
    cost = [f"cost of the last days {sum(each['cost'] for each in days):.2f}"] if days else []
    return ", ".join([*told, *spent, *cost])


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
