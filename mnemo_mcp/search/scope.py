"""Scope: where a search may look. The same condition in SQL, for LanceDB, and in RAM (`recent.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemo_mcp.search.tables import literal


@dataclass(frozen=True, slots=True)
class Scope:
    """`projects` None is all of them; `exclude_session` leaves out what the one who asks has in view."""

    profile: str
    projects: Sequence[str] | None = None
    exclude_session: str | None = None

    def sql(self) -> str:
        conditions = [f"profile = {literal(self.profile)}"]
        if self.projects is not None:
            listed = ", ".join(map(literal, self.projects))
            conditions.append(f"project IN ({listed})" if listed else "false")
        if self.exclude_session is not None:
            conditions.append(f"(session = {literal(self.exclude_session)}) IS NOT TRUE")
        return " AND ".join(conditions)
