"""The `mnemo` command: parses what a person typed and runs one command."""

from __future__ import annotations

import argparse
import os
import sys

from mnemo_mcp import __version__
from mnemo_mcp.commands import backfill, claims, clients, economy, evaluation, model, process, record
from mnemo_mcp.commands.door import Failed


def main(arguments: list[str] | None = None) -> int:
    """Run one command. 0 done, 1 refused or failed with a message, 2 wrong usage."""
    os.umask(0o077)  # what a command makes is its person's alone
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mnemo", description="Long-term memory for coding agents.")
    parser.add_argument("--version", action="version", version=f"mnemo {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for room in (claims, record, backfill, economy, evaluation, model, clients, process):
        room.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
