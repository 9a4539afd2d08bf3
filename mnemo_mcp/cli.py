"""The `mnemo` command: a thin door to the daemon. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from mnemo_mcp import __version__
from mnemo_mcp.thin import link

Result = Mapping[str, Any]

_SECONDS = 60.0  # a cold start on a busy machine, and a first search over a large store
_FAREWELL_SECONDS = 15.0
_KINDS = ("fact", "event", "state", "decision", "preference", "procedure")


class Failed(Exception):
    """The command was understood and could not be carried out; the text says why and what to do."""


class NoDaemon(Failed):
    """No daemon can be asked; the text says what keeps it from serving."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command. 0 done, 1 refused or failed with a message, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except Failed as failure:
        print(f"mnemo: {failure}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has seen enough
        return 0
    except KeyboardInterrupt:
        return 130


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
        raise NoDaemon(_cause(str(trouble))) from None
    result = json.loads(answer)
    if status != 200:
        raise Failed(f"{result.get('error', 'failed')} {result.get('advice', '')}".strip())
    return dict(result)


def _recall(options: argparse.Namespace) -> None:
    given = _given(options, "query", "limit", "project", "valid_at", "known_at", "history")
    result = ask("recall", {**given, "kinds": options.kind, "entities": options.entity})
    _show(options, result, _told_recall)


def _remember(options: argparse.Namespace) -> int:
    given = _object(options.json) if isinstance(options.json, str) else {}
    given |= _given(options, "what", "why", "how", "who", "where", "when", "kind", "valid_from", "valid_to")
    given |= _given(options, "at", "project")
    if options.replaces:
        given["replaces"] = options.replaces
    if options.entity:
        given["entities"] = options.entity
    if options.correction:
        given["correction"] = True
    _show(options, ask("remember", given), _told_outcome)
    return 0


def _forget(options: argparse.Namespace) -> None:
    given = {"ids": options.id, "mode": options.mode, **_given(options, "reason", "at")}
    _show(options, ask("forget", given), _told_outcome)


def _keep(options: argparse.Namespace) -> None:
    _show(options, ask("keep", {"id": options.id, "on": not options.off}), _told_outcome)


def _episode(options: argparse.Namespace) -> None:
    result = ask("recall_episode", {"id": options.id, "around": options.around})
    _show(
        options, result, lambda found: "\n\n".join(map(_told_episode, found["around"] or found["episodes"]))
    )


def _history(options: argparse.Namespace) -> None:
    _show(options, ask("history", {"id": options.id}), _told_history)


def _cause(trouble: str) -> str:
    from mnemo_mcp.daemon import diagnosis

    return diagnosis.cause(trouble)


def _status(options: argparse.Namespace) -> int:
    status = _state()
    _show(options, status, _told_status)
    return 0 if status["pid"] else 1


def _state() -> dict[str, Any]:
    """The daemon's status; where there is none, in the same shape what keeps it from serving."""
    try:
        return ask("status", {})
    except NoDaemon as failure:
        return {
            "version": __version__,
            "pid": None,
            "home": _home(),
            "memories": None,
            "episodes": None,
            "encoders": [],
            "queue": {},
            "problems": [str(failure)],
        }


def _home() -> str:
    try:
        return link.data_folder()
    except link.Unreachable:
        return os.environ.get("MNEMO_HOME", "")  # not a path that can be used, which `problems` tell


def _doctor(options: argparse.Namespace) -> int:
    status = _state()
    problems = [*status["problems"]]
    if status["memories"] is not None:
        problems = [*problems, *ask("check", {"repair": options.repair})["problems"]]
    result = {**status, "problems": problems}
    _show(options, result, _told_status)
    return 1 if problems else 0


def _serve(options: argparse.Namespace) -> None:
    from mnemo_mcp.daemon import main as daemon
    from mnemo_mcp.daemon.web import web_door
    from mnemo_mcp.errors import MnemoError, StoreBusy

    until = time.monotonic() + _FAREWELL_SECONDS
    _stop_running()
    try:
        door = web_door(options.http, token=not options.no_token) if options.http is not None else None
        while True:
            try:
                return daemon.serve(door)
            except StoreBusy:  # a client was quicker to start one
                if time.monotonic() > until:
                    raise
            if not _stop_running():
                time.sleep(0.05)
    except MnemoError as error:
        raise Failed(str(error)) from None


def _stop(options: argparse.Namespace) -> None:
    stopped = _stop_running()
    _show(options, {"stopped": stopped}, lambda result: "Stopped." if result["stopped"] else "Nothing ran.")


def _stop_running() -> bool:
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


def _show(options: argparse.Namespace, result: Result, told: Callable[[Result], str]) -> None:
    print(json.dumps(result, ensure_ascii=False) if options.json else told(result))


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options a person gave."""
    return {name: value for name in names if (value := getattr(options, name)) not in (None, False)}


def _object(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Failed(f"--json is not valid JSON: {error}.") from None
    if not isinstance(given, dict):
        raise Failed('--json takes an object like \'{"what": "..."}\'.')
    return given


def _told_recall(result: Result) -> str:
    from mnemo_mcp.daemon import texts

    return texts.recall(result)


def _told_outcome(result: Result) -> str:
    from mnemo_mcp.daemon import texts

    return texts.outcome(result)


def _told_episode(episode: Result) -> str:
    return f"{episode['id']} {episode['role']} {episode['occurred_at']}\n{episode['text']}"


def _told_history(result: Result) -> str:
    memory = result["memory"]
    lines = [f"{memory['id']} {memory['kind']}, {memory['status']}: {memory['what']}"]
    for row in result["rows"]:
        valid = (
            f" valid {row['valid_from'] or ''} to {row['valid_to'] or 'open'}" if row["valid_from"] else ""
        )
        reason = f" because {row['body']['reason']}" if row["body"].get("reason") else ""
        by = f" by {row['body']['by']}" if row["body"].get("by") else ""
        lines.append(f"  {row['known_at']} {row['operation']}{by}{valid}{reason} ({row['cause'].get('by')})")
    return "\n".join(lines)


def _told_status(result: Result) -> str:
    waiting = [f"{count} to {name}" for name, count in result["queue"].items() if count]
    lines = [
        f"mnemo {result['version']}, pid {result['pid'] or '-'}, data in {result['home']}",
        f"{_count(result['memories'])} memories, {_count(result['episodes'])} episodes",
        f"encoders: {', '.join(result['encoders']) or 'none ready'}",
        f"waiting: {', '.join(waiting) or '-'}",
    ]
    return "\n".join([*lines, *(f"PROBLEM: {problem}" for problem in result["problems"])])


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mnemo", description="Long-term memory for coding agents.")
    parser.add_argument("--version", action="version", version=f"mnemo {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _reading_commands(commands)
    _writing_commands(commands)
    _process_commands(commands)
    return parser


Commands = Any  # argparse keeps the type of its subcommands private


def _reading_commands(commands: Commands) -> None:
    recall = _command(commands, "recall", _recall, "what is known about a question")
    recall.add_argument("query", metavar="QUESTION")
    recall.add_argument("--limit", type=int)
    recall.add_argument("--project", help="a project, or * for all")
    recall.add_argument("--kind", action="append", default=[], choices=_KINDS)
    recall.add_argument("--entity", action="append", default=[])
    recall.add_argument("--valid-at", help="what was true then")
    recall.add_argument("--known-at", help="what was known by then")
    recall.add_argument("--history", action="store_true", help="also what was retracted")
    episode = _command(commands, "episode", _episode, "the raw source of a memory, or an episode")
    episode.add_argument("id")
    episode.add_argument("--around", type=int, default=0)
    _command(commands, "history", _history, "every change of a memory").add_argument("id")
    _command(commands, "status", _status, "counts, what waits, and every problem")
    doctor = _command(commands, "doctor", _doctor, "check the store; 1 if anything is wrong")
    doctor.add_argument("--repair", action="store_true", help="fold the snapshot anew from the ledger")


def _writing_commands(commands: Commands) -> None:
    remember = commands.add_parser("remember", help="store one claim")
    remember.set_defaults(run=_remember)
    remember.add_argument("what", nargs="?", metavar="WHAT")
    remember.add_argument(
        "--json",
        nargs="?",
        const=True,
        metavar="OBJECT",
        help="the claim as a JSON object; alone: print the result as JSON",
    )
    for name in ("why", "how", "who", "where", "when", "project"):
        remember.add_argument(f"--{name}")
    remember.add_argument("--kind", choices=_KINDS)
    remember.add_argument("--entity", action="append", default=[])
    remember.add_argument("--valid-from", help="since when it is true")
    remember.add_argument("--valid-to", help="when it stops being true, not included")
    remember.add_argument("--replaces", action="append", default=[], metavar="ID")
    remember.add_argument("--correction", action="store_true", help="what it replaces never was true")
    remember.add_argument("--at", help="when it was said")
    forget = _command(commands, "forget", _forget, "close, retract or erase by id")
    forget.add_argument("id", nargs="+")
    forget.add_argument("--mode", choices=("close", "retract", "erase"), default="retract")
    forget.add_argument("--reason")
    forget.add_argument("--at", help="when that became known")
    keep = _command(commands, "keep", _keep, "a memory that never fades")
    keep.add_argument("id")
    keep.add_argument("--off", action="store_true", help="take it back")


def _process_commands(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="run the daemon in the foreground")
    serve.set_defaults(run=_serve)
    serve.add_argument("--http", metavar="HOST:PORT", help="also serve MCP over HTTP (/mcp and /sse)")
    serve.add_argument("--no-token", action="store_true", help="without a bearer token; loopback only")
    _command(commands, "stop", _stop, "end the daemon")
    commands.add_parser("mcp", help="the MCP server on stdin and stdout").set_defaults(run=_mcp)
    commands.add_parser("demo", help="a proof in a throw-away folder").set_defaults(run=_demo)
    hook = commands.add_parser("hook", help="what a client's hook runs; the payload on stdin")
    hook.set_defaults(run=_hook)
    hook.add_argument("client", choices=("claude", "codex"))
    hook.add_argument("moment", choices=("session-open", "pre-message", "turn-end", "session-end"))


def _command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], about: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about)
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
