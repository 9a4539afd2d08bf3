"""Any text, a few sentences full of signs, and what a store holds: for tests of recall."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mnemo_mcp.service import Service

ANY = st.text(st.characters(exclude_categories=()), max_size=300)


TOOLS = (
    "Run ci with --error-on-warnings.",
    "Disk does 3.2 GB/s on node-7.",
    "Use src/lib/db/index.ts (pre-edit hook).",
    "Don't use agents for ask-codex.",
    "Regex is ^v?\\d+\\.\\d+$ .",
    "C++ and C# builds use ubuntu 20.04.",
    "100% of café users; cost $5.",
)


def content(service: Service) -> list[Any]:
    with service.store.database.read() as connection:
        tables = ("episodes", "ledger", "snapshot", "injections", "shown", "standing", "work")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
