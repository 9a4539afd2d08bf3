"""What every command stands on: asking the daemon, showing what it answers, and what a failure is."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from mnemo_mcp.thin import link

Result = Mapping[str, Any]
Run = Callable[[argparse.Namespace], int | None]
Commands = Any  # argparse keeps the type of its subcommands private

_SECONDS = 60.0  # a cold start on a busy machine, and a first search over a large store


class Failed(Exception):
    """The command was understood and could not be carried out; the text says why and what to do."""


class NoDaemon(Failed):
    """No daemon can be asked; the text says what keeps it from serving."""


def ask(verb: str, given: Result, seconds: float = _SECONDS, *, start: bool = True) -> dict[str, Any]:
    """What the daemon answers to a verb, starting it where there is none. Raises `Failed`."""
    body = json.dumps(given).encode()
    headers = []
    if profile := os.environ.get("MNEMO_PROFILE"):
        headers.append(f"Mnemo-Profile: {os.fsencode(profile).hex()}")
    try:
        status, answer = link.request(
            link.data_folder(), f"/api/{verb}", body, time.monotonic() + seconds, headers=headers, start=start
        )
    except link.NotRunning:
        raise
    except link.Unreachable as trouble:
        raise NoDaemon(cause(str(trouble))) from None
    result = json.loads(answer)
    if status != 200:
        raise Failed(f"{result.get('error', 'failed')} {result.get('advice', '')}".strip())
    return dict(result)


def cause(trouble: str) -> str:
    """What keeps a daemon from serving; `trouble` is what was seen of it."""
    try:
        importlib.import_module("mnemo_mcp.daemon.main")  # with all that a daemon needs to start
        from mnemo_mcp.daemon import diagnosis
    except ImportError as error:
        return f"The installation of mnemo is not whole ({error}). Install it again."
    return diagnosis.cause(trouble)


def show(options: argparse.Namespace, result: Result, told: Callable[[Result], str]) -> None:
    print(json.dumps(result, ensure_ascii=False) if options.json else told(result))


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options a person gave."""
    return {name: value for name in names if (value := getattr(options, name)) not in (None, False)}


def json_object(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Failed(f"--json is not valid JSON: {error}.") from None
    if not isinstance(given, dict):
        raise Failed('--json takes an object like \'{"what": "..."}\'.')
    return given


def command(commands: Commands, name: str, run: Run, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about)
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def told_outcome(result: Result) -> str:
    from mnemo_mcp.daemon import texts

    return texts.outcome(result)
