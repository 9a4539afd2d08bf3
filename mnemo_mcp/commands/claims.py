"""Commands about claims: recall, remember, forget, keep, and the episodes behind them."""

from __future__ import annotations

import argparse

from mnemo_mcp.commands.door import Commands, Result, ask, chosen, command, json_object, show, told_outcome

_KINDS = ("fact", "event", "state", "decision", "preference", "procedure")


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    _reading(commands)
    _writing(commands)


def _reading(commands: Commands) -> None:
    recall = command(commands, "recall", _recall, "what is known about a question")
    recall.add_argument("query", metavar="QUESTION")
    recall.add_argument("--limit", type=int)
    recall.add_argument("--project", help="a project, or * for all")
    recall.add_argument("--kind", action="append", default=[], choices=_KINDS)
    recall.add_argument("--entity", action="append", default=[])
    recall.add_argument("--valid-at", help="what was true then")
    recall.add_argument("--known-at", help="what was known by then")
    recall.add_argument("--history", action="store_true", help="also what was retracted")
    recall.add_argument("--explain", action="store_true", help="how the question was read and answered")
    episode = command(commands, "episode", _episode, "the raw source of a memory, or an episode")
    episode.add_argument("id")
    episode.add_argument("--around", type=int, default=0)


def _writing(commands: Commands) -> None:
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
    for name in ("why", "how", "who", "where", "when", "project", "subject", "field"):
        remember.add_argument(f"--{name}")
    remember.add_argument("--kind", choices=_KINDS)
    remember.add_argument("--entity", action="append", default=[])
    remember.add_argument("--valid-from", help="since when it is true")
    remember.add_argument("--valid-to", help="when it stops being true, not included")
    remember.add_argument("--replaces", action="append", default=[], metavar="ID")
    remember.add_argument("--correction", action="store_true", help="what it replaces never was true")
    remember.add_argument("--at", help="when it was said")
    forget = command(commands, "forget", _forget, "close, retract or erase by id")
    forget.add_argument("id", nargs="+")
    forget.add_argument("--mode", choices=("close", "retract", "erase"), default="retract")
    forget.add_argument("--reason")
    forget.add_argument("--at", help="when that became known")
    keep = command(commands, "keep", _keep, "a memory that never fades")
    keep.add_argument("id")
    keep.add_argument("--off", action="store_true", help="take it back")


def _recall(options: argparse.Namespace) -> None:
    given = chosen(options, "query", "limit", "project", "valid_at", "known_at", "history", "explain")
    result = ask("recall", {**given, "kinds": options.kind, "entities": options.entity})
    show(options, result, _told_recall)


def _remember(options: argparse.Namespace) -> int:
    given = json_object(options.json) if isinstance(options.json, str) else {}
    given |= chosen(options, "what", "why", "how", "who", "where", "when", "kind", "valid_from", "valid_to")
    given |= chosen(options, "at", "project", "subject", "field")
    if options.replaces:
        given["replaces"] = options.replaces
    if options.entity:
        given["entities"] = options.entity
    if options.correction:
        given["correction"] = True
    show(options, ask("remember", given), told_outcome)
    return 0


def _forget(options: argparse.Namespace) -> None:
    given = {"ids": options.id, "mode": options.mode, **chosen(options, "reason", "at")}
    show(options, ask("forget", given), told_outcome)


def _keep(options: argparse.Namespace) -> None:
    show(options, ask("keep", {"id": options.id, "on": not options.off}), told_outcome)


def _episode(options: argparse.Namespace) -> None:
    result = ask("recall_episode", {"id": options.id, "around": options.around})
    show(options, result, lambda found: "\n\n".join(map(_told_episode, found["around"] or found["episodes"])))


def _told_recall(result: Result) -> str:
    from mnemo_mcp.daemon import texts

    return "\n\n".join([texts.recall(result), *texts.explained(result)])


def _told_episode(episode: Result) -> str:
    return f"{episode['id']} {episode['role']} {episode['occurred_at']}\n{episode['text']}"
