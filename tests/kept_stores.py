"""Stores of other versions for tests: placed, read, opened and asked."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from make_schema_fixture import DATA, END

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

RELEASED = sorted(DATA.glob("schema-*.db"))
Rows = list[tuple[Any, ...]]


def place(home: Path, source: Path = RELEASED[-1]) -> Path:
    """A store of some schema in a data folder of its own; its file."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(shutil.copyfile(source, home / "mnemo.db"))


def asked(file: Path, query: str) -> Rows:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def columns(file: Path) -> dict[str, str]:
    """The columns of every table, as they are listed in a query."""
    tables = asked(file, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    names = {table: asked(file, f"SELECT name FROM pragma_table_info('{table}')") for (table,) in tables}
    return {table: ", ".join(name for (name,) in found) for table, found in names.items()}


def content(file: Path, listed: dict[str, str]) -> dict[str, Counter[tuple[Any, ...]]]:
    return {table: Counter(asked(file, f"SELECT {names} FROM {table}")) for table, names in listed.items()}


def opened(file: Path, **settings: Any) -> Service:
    chosen = {"encoders": Encoders("off", "off"), "zone": "UTC", **settings}
    return Service(Settings(file.parent, **chosen), clock=lambda: END)
