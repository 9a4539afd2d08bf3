"""Commands about clients: installing mnemo into them, and taking it away again."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from mnemo_mcp.clients.catalog import BY_NAME, Places
from mnemo_mcp.clients.install import Done, Installer
from mnemo_mcp.commands.door import Commands, Failed, Result, command, show
from mnemo_mcp.commands.process import stop_running
from mnemo_mcp.errors import MnemoError
from mnemo_mcp.ledger.folder import CONTENTS
from mnemo_mcp.thin import link

_MAIN = ("claude", "codex")  # those that have hooks
_T = TypeVar("_T")


def add(commands: Commands) -> None:
    """Enter these commands in the parser."""
    install = command(commands, "install", _install, "let clients use mnemo")
    install.set_defaults(wrong=install.error)
    install.add_argument("clients", nargs="*", metavar="CLIENT", type=_client, help=", ".join(BY_NAME))
    install.add_argument(
        "--found", action="store_true", help="Claude Code and Codex, as far as they are here"
    )
    install.add_argument("--dry-run", action="store_true", help="show the exact edits and change nothing")
    install.add_argument("--trust-hooks", action="store_true", help="tell Codex that you trust the hooks")
    uninstall = command(commands, "uninstall", _uninstall, "take mnemo out of clients; without any: of all")
    uninstall.set_defaults(wrong=uninstall.error)
    uninstall.add_argument("clients", nargs="*", metavar="CLIENT", type=_client, help="only these")
    uninstall.add_argument("--dry-run", action="store_true", help="show the exact edits and change nothing")
    uninstall.add_argument(
        "--delete-memories", action="store_true", help="all memories as well, after a question"
    )
    uninstall.add_argument("--yes", action="store_true", help="no question")


def _install(options: argparse.Namespace) -> None:
    installer = _installer()
    names = list(dict.fromkeys(options.clients))
    others: list[str] = []
    if options.found:
        found = [client.name for client in installer.found()]
        others = [name for name in found if name not in _MAIN]
        names += [name for name in found if name in _MAIN and name not in names]
    if not names and not options.found:
        options.wrong(f"name a client ({', '.join(BY_NAME)}) or use --found")
    again = f"mnemo install {' '.join(names)}"
    done = _tried(lambda: installer.install(names, dry_run=options.dry_run), again)
    if options.trust_hooks and "codex" in names and not options.dry_run:
        done += _tried(installer.trust, f"{again} --trust-hooks")
    result = {"dry_run": options.dry_run, "changes": [asdict(each) for each in done], "also_here": others}
    show(options, result, lambda told: _told_install(told, trusted=options.trust_hooks))


def _uninstall(options: argparse.Namespace) -> int:
    everywhere, names = not options.clients, list(dict.fromkeys(options.clients)) or list(BY_NAME)
    data = _data()
    if options.delete_memories and not everywhere:
        options.wrong("memories serve all clients: name none to delete them")
    if options.delete_memories and not options.dry_run:
        _confirm(data, options.yes)
    installer = _installer()
    told = _tried(
        lambda: [*installer.uninstall(names, dry_run=options.dry_run)],
        " ".join(["mnemo uninstall", *options.clients]),
    )
    done = [each for each in told if isinstance(each, Done)]
    problems = [str(each) for each in told if not isinstance(each, Done)]
    if everywhere and not options.dry_run:
        installer.retire()
        stop_running()
        if options.delete_memories:
            _delete(data)
    result = {
        "dry_run": options.dry_run,
        "changes": [asdict(each) for each in done],
        "problems": problems,
        "memories": None if options.delete_memories and not options.dry_run else str(data),
    }
    show(options, result, _told_uninstall)
    return 1 if problems else 0


def _client(name: str) -> str:
    if name not in BY_NAME:
        raise argparse.ArgumentTypeError(f"there is no client {name!r}; there are {', '.join(BY_NAME)}")
    return name


def _tried(work: Callable[[], _T], again: str) -> _T:
    try:
        return work()
    except MnemoError as error:
        raise Failed(f"{error} Try again with `{again}`.") from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failed(f"{where}{error.strerror}. Mend that, then try again with `{again}`.") from None


def _installer() -> Installer:
    return Installer(_data(), Places())


def _data() -> Path:
    try:
        return Path(link.data_folder())
    except link.Unreachable as trouble:
        raise Failed(f"{trouble}. Set MNEMO_HOME to a path that begins with / or ~.") from None


def _confirm(data: Path, sure: bool) -> None:
    if sure:
        return
    if not sys.stdin.isatty():
        raise Failed(f"All memories in {data} would be deleted. Add --yes if that is meant.")
    if input(f"Delete all memories in {data} for good? Type yes: ").strip().lower() != "yes":
        raise Failed("Nothing was changed.")


def _delete(data: Path) -> None:
    """What mnemo has made in its folder, and the folder itself if nothing else is in it."""
    for each in [*data.iterdir()] if data.is_dir() else ():
        if each.name in CONTENTS or each.name.startswith(("mnemo.db", ".fetching")):
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    if data.is_dir() and not [*data.iterdir()]:
        data.rmdir()


def _told_install(result: Result, *, trusted: bool) -> str:
    lines = _told_changes(result)
    codex = any(each["client"] == "codex" for each in result["changes"])
    if codex and not trusted and not result["dry_run"]:
        lines.append(
            "Codex runs hooks only once you trust them: start `codex` and choose to trust them, or run"
        )
        lines.append("  mnemo install codex --trust-hooks")
        lines.append("`mnemo doctor` says whether it runs them.")
    if result["also_here"]:
        lines.append(
            f"Also here: {', '.join(result['also_here'])}. mnemo install {' '.join(result['also_here'])}"
        )
    return "\n".join(lines) or "No client was found here."


def _told_uninstall(result: Result) -> str:
    lines = _told_changes(result)
    lines += [f"PROBLEM: {problem}" for problem in result["problems"]]
    if result["memories"]:
        lines.append(f"Your memories stay in {result['memories']}.")
    else:
        lines.append("All memories are deleted.")
    return "\n".join(lines)


def _told_changes(result: Result) -> list[str]:
    lines: list[str] = []
    changes: Sequence[dict[str, Any]] = result["changes"]
    for each in changes:
        kept = f" (as it was: {each['backup']})" if each["backup"] and each["did"] == "added" else ""
        line = f"{BY_NAME[each['client']].title}: {each['did']}: {each['where']}{kept}"
        if each["did"] != "not there" and line not in lines:
            lines.append(line)
        if each["diff"] and (result["dry_run"] or each["did"] == "refused"):
            lines.append(each["diff"].rstrip("\n"))
    return lines
