"""The one store: everything that must change together lives in one database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from mnemo_mcp.ledger.accounts import Accounts
from mnemo_mcp.ledger.calls import Calls
from mnemo_mcp.ledger.connections import Connections
from mnemo_mcp.ledger.database import BUSY_SECONDS, Connection, Database
from mnemo_mcp.ledger.endpoints import Endpoints
from mnemo_mcp.ledger.entities import Entities
from mnemo_mcp.ledger.episodes import Episodes
from mnemo_mcp.ledger.threads import Threads
from mnemo_mcp.ledger.truth import Truth
from mnemo_mcp.ledger.uses import Uses
from mnemo_mcp.ledger.vectors import Vectors
from mnemo_mcp.ledger.verdicts import Verdicts
from mnemo_mcp.ledger.work import Work


class Store:
    """`mnemo.db` with its tables by purpose. Writing goes through `with store.write() as tx`."""

    def __init__(self, path: Path, now: datetime, busy_seconds: float = BUSY_SECONDS) -> None:
        self.database = Database(path, now, busy_seconds)
        self.truth = Truth(self.database)
        self.entities = Entities(self.database)
        self.episodes = Episodes(self.database)
        self.accounts = Accounts(self.database)
        self.uses = Uses(self.database)
        self.work = Work(self.database)
        self.threads = Threads(self.database)
        self.verdicts = Verdicts(self.database)
        self.calls = Calls(self.database)
        self.endpoints = Endpoints(self.database)
        self.vectors = Vectors(self.database)
        self.connections = Connections(self.database)

    def write(self) -> AbstractContextManager[Connection]:
        return self.database.write()

    def check(self) -> list[str]:
        """Everything wrong with the store, in words."""
        return self.database.check() or self.truth.check()

    def close(self) -> None:
        self.database.close()
