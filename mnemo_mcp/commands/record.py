"""Commands about the record: a memory's history, why answers changed, timelines, names, and copies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mnemo_mcp.commands.door import Commands, Failed, Result, ask, chosen, command, show, told_outcome


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    command(commands, "history", _history, "every change of a memory").add_argument("id")
    diff = command(commands, "diff", _diff, "why a question is answered differently by what was known when")
    diff.add_argument("query", metavar="QUESTION")
    diff.add_argument("--known-at", action="append", required=True, metavar="TIME", help="give it twice")
    diff.add_argument("--valid-at", metavar="TIME", help="what was true then")
    diff.add_argument("--project")
    timeline = command(commands, "timeline", _timeline, "the values of a subject on both axes of time")
    timeline.add_argument("subject")
    timeline.add_argument("--field")
    timeline.add_argument("--svg", metavar="FILE", help="write a picture")
    entity = command(commands, "entity", _entity, "an entity's names; add one, merge two, take it back")
    entity.add_argument("name")
    entity.add_argument("--kind")
    entity.add_argument("--alias", help="a further name for it")
    entity.add_argument("--into", metavar="OTHER", help="say that it is that other one")
    entity.add_argument("--unmerge", action="store_true", help="take that back")
    entity.add_argument("--at", help="when that became known")
    merge = command(commands, "merge", _merge, "two memories that say the same become one")
    merge.add_argument("id")
    merge.add_argument("--into", required=True, metavar="ID", help="the one that stands for both")
    merge.add_argument("--reason")
    command(commands, "unmerge", _unmerge, "take a merge of memories back").add_argument("id")
    undo = command(commands, "undo", _undo, "take back what came of a verdict of the judge")
    undo.add_argument("id", metavar="VERDICT", help="as `mnemo history ID` prints it")
    for name, run, about in (
        ("export", _export, "everything as lines of JSON in a new file"),
        ("import", _import, "take an export in; reading it twice adds nothing"),
        ("backup", _backup, "a consistent copy of the database in a new file"),
    ):
        command(commands, name, run, about).add_argument("file")


def _history(options: argparse.Namespace) -> None:
    show(options, ask("history", {"id": options.id}), _told_history)


def _diff(options: argparse.Namespace) -> None:
    if len(options.known_at) != 2:
        raise Failed("Give --known-at twice: once for each instant.")
    first, second = options.known_at
    given = {"query": options.query, "known_at": first, "other_known_at": second}
    show(options, ask("diff", {**given, **chosen(options, "valid_at", "project")}), _told_diff)


def _timeline(options: argparse.Namespace) -> None:
    result = ask("timeline", chosen(options, "subject", "field"))
    if options.svg:
        Path(options.svg).write_text(result["svg"], "utf-8")
    show(options, result, _told_timeline)


def _entity(options: argparse.Namespace) -> None:
    given = chosen(options, "name", "kind", "alias", "into", "unmerge", "at")
    show(options, ask("entity", given), _told_entity)


def _merge(options: argparse.Namespace) -> None:
    show(options, ask("merge", chosen(options, "id", "into", "reason")), told_outcome)


def _unmerge(options: argparse.Namespace) -> None:
    show(options, ask("merge", {"id": options.id}), told_outcome)


def _undo(options: argparse.Namespace) -> None:
    show(options, ask("undo", chosen(options, "id")), told_outcome)


def _export(options: argparse.Namespace) -> None:
    result = _copied("export", options)
    show(options, result, lambda told: f"{told['records']} records in {told['file']}.")


def _import(options: argparse.Namespace) -> None:
    result = _copied("import", options)
    show(options, result, lambda told: f"{told['read']} records read, {told['added']} of them new.")


def _backup(options: argparse.Namespace) -> None:
    show(options, _copied("backup", options), lambda told: f"Copied to {told['file']}.")


def _copied(verb: str, options: argparse.Namespace) -> dict[str, Any]:
    """The daemon works in a folder of its own, so it is given the whole path."""
    from mnemo_mcp.settings import expanded

    return ask(verb, {"file": str(expanded(options.file).absolute())}, seconds=600)


def _told_diff(result: Result) -> str:
    lines = list(result["changes"])
    if result["same_ranking"]:
        lines.append("The answer and its order are the same.")
    for name, label in (("before", "Then"), ("after", "Later")):
        found = [each["what"] for each in result[name] if each["status"] == "current"]
        lines.append(f"{label}: {found[0] if found else 'nothing that was true'}")
    return "\n".join(lines)


def _told_timeline(result: Result) -> str:
    lines = [f"{'true':25}{'believed':25}claim"]
    for span in result["spans"]:
        true, believed = (_told_period(span[axis]) for axis in ("valid", "known"))
        lines.append(f"{true:25}{believed:25}{span['what']}")
    return "\n".join(lines)


def _told_period(period: Result) -> str:
    return f"{period['start'][:10]} - {(period['end'] or 'open')[:10]}"


def _told_entity(result: Result) -> str:
    lines = [f"{result['id']} {result['name']} ({result['kind']})"]
    if result["aliases"]:
        lines.append(f"also called {', '.join(result['aliases'])}")
    if result["merged_into"]:
        lines.append(f"the same as {result['merged_into']}")
    for row in result["rows"]:
        about = ", ".join(str(part) for part in row["body"].values())
        lines.append(f"  {row['known_at']} {row['operation']} {about}".rstrip())
    return "\n".join(lines)


def _told_history(result: Result) -> str:
    memory = result["memory"]
    lines = [f"{memory['id']} {memory['kind']}, {memory['status']}: {memory['what']}"]
    for row in result["rows"]:
        valid = (
            f" valid {row['valid_from'] or ''} to {row['valid_to'] or 'open'}" if row["valid_from"] else ""
        )
        reason = f" because {row['body']['reason']}" if row["body"].get("reason") else ""
        by = f" by {row['body']['by']}" if row["body"].get("by") else ""
        by += f" into {row['body']['into']}" if row["body"].get("into") else ""
        by += f" of {row['body']['undoes']}" if row["body"].get("undoes") else ""
        lines.append(f"  {row['known_at']} {row['operation']}{by}{valid}{reason} ({row['cause'].get('by')})")
    lines += [_told_verdict(each, memory["id"]) for each in result["verdicts"]]
    return "\n".join(lines)


def _told_verdict(verdict: Result, memory: str) -> str:
    """A verdict in words, as seen from one of the two memories."""
    if not verdict["neighbour"]:
        about = f"of the claim itself ({verdict['relation']})"
    elif verdict["neighbour"] == memory:
        about = f"of {verdict['memory'] or 'a claim that became no memory'} beside this one"
    else:
        about = f"of this beside {verdict['neighbour']}"
    shares = ", ".join(f"{name} {share:.2f}" for name, share in verdict["shares"].items())
    lines = [
        f"  {verdict['at']} verdict {verdict['id']} {about}: {verdict['relation']}; {verdict['reason']}"
        + (f" ({shares})" if shares else "")
        + f"; by {verdict['judge']}; {verdict['done']}"
    ]
    lines += [f"    the guard saw {each}" for each in verdict["guard"]]
    if verdict["undone_at"]:
        lines.append(f"    taken back {verdict['undone_at']}")
    return "\n".join(lines)
