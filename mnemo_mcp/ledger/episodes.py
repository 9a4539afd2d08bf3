"""Episodes: everything that arrived, kept as it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.ledger.truth import matching
from mnemo_mcp.memory import Episode, Instant, Period, Role, identity

_COLUMNS = "id, profile, role, text, client, session, project, turn, occurred_at, zone, recorded_at"


def new_episode(
    profile: str,
    role: Role,
    text: str,
    *,
    client: str,
    session: str,
    project: str,
    turn: str,
    occurred_at: Instant,
    zone: str,
    recorded_at: Instant,
    source: str = "",
) -> Episode:
    """An episode with its deterministic id: what the same turn of the same session says is one episode.

    `source` tells apart equal texts that the client itself tells apart (a record's own id).
    """
    name = identity("e", profile, client, session, turn, str(role), text, source)
    return Episode(name, profile, role, text, client, session, project, occurred_at, zone, recorded_at, turn)


class Episodes:
    """Adding and reading episodes; nothing here changes one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, episodes: Iterable[Episode]) -> list[Episode]:
        """Store those that are not there yet; which they were."""
        fresh = []
        for each in episodes:
            if tx.execute("SELECT 1 FROM episodes WHERE id = ?", (each.id,)).fetchone() is None:
                tx.execute(f"INSERT INTO episodes ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", _values(each))
                fresh.append(each)
        return fresh

    def get(self, episode_id: str, profile: str) -> Episode:
        """The episode with this id or unique beginning of one. Raises `NotFound`, `Refused`."""
        with self._database.read() as connection:
            ids = matching(connection, "episodes", "id", episode_id, profile)
            if not ids:
                raise NotFound(f"There is no episode {episode_id[:80]!r}.", "Use an id that recall printed.")
            if len(ids) > 1:
                raise Refused(f"{episode_id!r} begins several ids: {', '.join(ids)}.", "Use one in full.")
            row = connection.execute(f"SELECT {_COLUMNS} FROM episodes WHERE id = ?", (ids[0],)).fetchone()
        return _episode(row)

    def many(self, ids: Iterable[str]) -> dict[str, Episode]:
        """Those of `ids` that exist."""
        with self._database.read() as connection:
            rows = (
                connection.execute(f"SELECT {_COLUMNS} FROM episodes WHERE id = ?", (each,)).fetchone()
                for each in ids
            )
            return {row[0]: _episode(row) for row in rows if row is not None}

    def numbers(self, ids: Iterable[str]) -> dict[str, int]:
        """The numbers of those of `ids` that exist: the order in which they were stored."""
        with self._database.read() as connection:
            rows = (
                connection.execute("SELECT id, seq FROM episodes WHERE id = ?", (each,)).fetchone()
                for each in ids
            )
            return {row[0]: row[1] for row in rows if row is not None}

    def around(self, episode: Episode, before: int, after: int) -> list[Episode]:
        """The episodes just before and after one in its thread, itself among them, in order.

        One that belongs to no session stands alone.
        """
        if not episode.session:
            return [episode]
        with self._database.read() as connection:
            (place,) = connection.execute("SELECT seq FROM episodes WHERE id = ?", (episode.id,)).fetchone()
            thread = (episode.profile, episode.session, place)
            ahead = connection.execute(
                f"SELECT {_COLUMNS} FROM episodes WHERE profile = ? AND session = ? AND seq < ?"
                " ORDER BY seq DESC LIMIT ?",
                (*thread, before),
            ).fetchall()
            rest = connection.execute(
                f"SELECT {_COLUMNS} FROM episodes WHERE profile = ? AND session = ? AND seq >= ?"
                " ORDER BY seq LIMIT ?",
                (*thread, after + 1),
            ).fetchall()
        return [_episode(row) for row in (*reversed(ahead), *rest)]

    def thread(self, profile: str, session: str, after: int, most: int) -> list[tuple[int, Episode]]:
        """Up to `most` episodes of a session stored after number `after`, with their numbers, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM episodes WHERE profile = ? AND session = ? AND seq > ?"
                " ORDER BY seq LIMIT ?",
                (profile, session, after, most),
            ).fetchall()
        return [(number, _episode(row)) for number, *row in rows]

    def before(self, profile: str, session: str, until: int, most: int) -> list[Episode]:
        """The last `most` episodes of a session up to number `until`, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM episodes WHERE profile = ? AND session = ? AND seq <= ?"
                " ORDER BY seq DESC LIMIT ?",
                (profile, session, until, most),
            ).fetchall()
        return [_episode(row) for row in reversed(rows)]

    def between(
        self, profile: str, period: Period, projects: Sequence[str] | None, most: int
    ) -> list[Episode]:
        """The first episodes of a period by their own time; `projects` None is all of them."""
        scope = "" if projects is None else f" AND project IN ({','.join('?' * len(projects))})"
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM episodes WHERE profile = ? AND occurred_at >= ? AND occurred_at < ?"
                f" AND text <> ''{scope} ORDER BY occurred_at, seq LIMIT ?",
                (profile, period.start, period.end or "9", *(projects or ()), most),
            ).fetchall()
        return [_episode(row) for row in rows]

    def after(self, seq: int, most: int) -> list[tuple[int, Episode]]:
        """Up to `most` episodes stored after number `seq`, with their numbers, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM episodes WHERE seq > ? ORDER BY seq LIMIT ?", (seq, most)
            ).fetchall()
        return [(number, _episode(row)) for number, *row in rows]

    def all(self) -> Iterator[Episode]:
        """Every episode in the order in which they were stored."""
        place = 0
        while batch := self.after(place, 500):
            yield from (episode for _, episode in batch)
            place = batch[-1][0]

    def newest(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM episodes").fetchone()[0])

    def count(self, profile: str) -> int:
        with self._database.read() as connection:
            return int(
                connection.execute("SELECT count(*) FROM episodes WHERE profile = ?", (profile,)).fetchone()[
                    0
                ]
            )


def _values(episode: Episode) -> tuple[Any, ...]:
    return (
        episode.id,
        episode.profile,
        str(episode.role),
        episode.text,
        episode.client,
        episode.session,
        episode.project,
        episode.turn,
        episode.occurred_at,
        episode.zone,
        episode.recorded_at,
    )


def _episode(row: Any) -> Episode:
    name, profile, role, text, client, session, project, turn, occurred, zone, recorded = row
    return Episode(name, profile, Role(role), text, client, session, project, occurred, zone, recorded, turn)
