"""Turns that were answered, and what became of each memory shown for them: used, unused, or not known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant

USED, UNUSED, UNSURE = "used", "unused", "unsure"
KIND = "usage"
"""The kind of task under which a session's turns wait to be judged."""


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A turn that ended with an answer. `prompts` and `answer` are ids of episodes, `acts` what was done.

    `calls` of the model read `read` tokens; None where the client does not tell.
    """

    profile: str
    session: str
    turn: str
    at: Instant
    answer: str
    prompts: tuple[str, ...]
    acts: str
    calls: int | None
    read: int | None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Exposure:
    """A memory shown by an injection. `verdict` is "" until one is given.

    `turn` is the one that answered it, or the last of the `turns` that were looked at for it, of which
    `doubts` left it open whether it was used.
    """

    injection: int
    memory: str
    session: str
    at: Instant
    moment: str
    prompt: str
    verdict: str
    probability: float | None
    judge: str
    evidence: str
    turn: int | None
    turns: int
    doubts: int


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge says of one exposure. `final` opinions are kept; others wait for further turns."""

    verdict: str
    probability: float
    judge: str
    evidence: str = ""
    final: bool = True


_EXPOSURE = """SELECT e.injection, e.memory, e.session, e.at, i.moment, i.prompt, e.verdict, e.probability,
 e.judge, e.evidence, e.turn, e.turns, e.doubts FROM exposures e JOIN injections i ON i.seq = e.injection"""


class Uses:
    """Adding and reading answered turns and exposures."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answered(self, tx: Connection, turn: AnsweredTurn) -> None:
        """Note a turn that is to be judged. One that goes on after its end, and ends again, is one turn."""
        row = tx.execute(
            "SELECT seq, prompts, acts FROM turns WHERE profile = ? AND session = ? AND turn = ?"
            " AND turn <> ''",
            (turn.profile, turn.session, turn.turn),
        ).fetchone()
        if row:
            prompts = list(dict.fromkeys((*json.loads(row[1]), *turn.prompts)))
            tx.execute(
                "UPDATE turns SET answer = ?, prompts = ?, acts = ?, calls = coalesce(?, calls),"
                " read = coalesce(?, read), judged = 0 WHERE seq = ?",
                (turn.answer, json.dumps(prompts), turn.acts or row[2], turn.calls, turn.read, row[0]),
            )
        else:
            tx.execute(
                "INSERT INTO turns (profile, session, turn, at, answer, prompts, acts, calls, read)"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    *(turn.profile, turn.session, turn.turn, turn.at, turn.answer),
                    *(json.dumps(turn.prompts), turn.acts, turn.calls, turn.read),
                ),
            )

    def prompts_of(self, tx: Connection, profile: str, session: str, turn: str) -> list[str]:
        """Prompts with injections or silences that were announced under a turn's id and are not answered.

        None for a turn that has ended before: what else was announced under its id waits for another one.
        """
        if turn and self._has_ended(tx, profile, session, turn):
            return []
        since = tx.execute(
            "SELECT coalesce(max(at), '') FROM turns WHERE profile = ? AND session = ?", (profile, session)
        ).fetchone()[0]
        rows = tx.execute(
            "SELECT p.id FROM injections i JOIN episodes p ON p.id = i.prompt"
            " WHERE i.profile = ?1 AND i.session = ?2 AND p.turn = ?3 AND p.role = 'person'"
            " AND (?3 <> '' OR i.at >= ?4) ORDER BY i.seq",
            (profile, session, turn, since),
        )
        answered = self._answered_prompts(tx, profile, session)
        return [row[0] for row in rows if row[0] not in answered]

    def _has_ended(self, tx: Connection, profile: str, session: str, turn: str) -> bool:
        row = tx.execute(
            "SELECT 1 FROM turns WHERE profile = ? AND session = ? AND turn = ?", (profile, session, turn)
        ).fetchone()
        return row is not None

    def _answered_prompts(self, tx: Connection, profile: str, session: str) -> set[str]:
        rows = tx.execute("SELECT prompts FROM turns WHERE profile = ? AND session = ?", (profile, session))
        return {each for (prompts,) in rows for each in json.loads(prompts)}

    def unjudged(self, profile: str, session: str) -> list[AnsweredTurn]:
        """The turns of a session still to be judged, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT profile, session, turn, at, answer, prompts, acts, calls, read, seq FROM turns"
                " WHERE profile = ? AND session = ? AND judged = 0 ORDER BY seq",
                (profile, session),
            ).fetchall()
        return [_turn(row) for row in rows]

    def judged(self, tx: Connection, turn: AnsweredTurn) -> None:
        """A turn was judged; what was done in it is needed no more."""
        tx.execute("UPDATE turns SET judged = 1, acts = '' WHERE seq = ?", (turn.seq,))

    def exposures(self, profile: str, session: str) -> list[Exposure]:
        """The memories shown in a session, in order."""
        with self._database.read() as connection:
            return self._exposures(connection, profile, session, "")

    def waiting(self, tx: Connection, profile: str, session: str) -> list[Exposure]:
        """Those of them that have no verdict yet."""
        return self._exposures(tx, profile, session, " AND e.verdict = ''")

    def _exposures(self, connection: Connection, profile: str, session: str, also: str) -> list[Exposure]:
        rows = connection.execute(
            f"{_EXPOSURE} WHERE e.profile = ? AND e.session = ?{also} ORDER BY e.injection, e.memory",
            (profile, session),
        )
        return [Exposure(*row) for row in rows]

    def settle(
        self, tx: Connection, shown: Exposure, opinion: Opinion, turn: int | None, at: Instant
    ) -> bool:
        """Give an exposure its verdict, or note what was seen so far; whether a verdict was given now."""
        changed = tx.execute(
            "UPDATE exposures SET verdict = ?, probability = ?, judge = ?, evidence = ?,"
            " turn = coalesce(?, turn), turns = turns + ?, doubts = doubts + ?, judged_at = ?"
            " WHERE injection = ? AND memory = ? AND verdict = ''",
            (
                opinion.verdict if opinion.final else "",
                opinion.probability,
                opinion.judge,
                opinion.evidence,
                turn,
                int(turn is not None),
                int(opinion.verdict == UNSURE),
                at if opinion.final else None,
                shown.injection,
                shown.memory,
            ),
        )
        return bool(changed.rowcount) and opinion.final

    def forget_memory(self, tx: Connection, memory: str) -> None:
        """A memory is erased: no word of it stays in the evidence, and nothing is counted for it."""
        tx.execute("UPDATE exposures SET evidence = '' WHERE memory = ?", (memory,))
        tx.execute("DELETE FROM standing WHERE memory = ?", (memory,))

    def forget_episode(self, tx: Connection, episode: str) -> None:
        """An episode is erased: neither what was done in its turn nor evidence found in it stays."""
        turns = [
            row[0]
            for row in tx.execute(
                "SELECT seq FROM turns WHERE answer = ? OR instr(prompts, ?) > 0", (episode, f'"{episode}"')
            )
        ]
        for seq in turns:
            tx.execute("UPDATE turns SET acts = '' WHERE seq = ?", (seq,))
            tx.execute("UPDATE exposures SET evidence = '' WHERE turn = ?", (seq,))

    def turns(self, profile: str, sessions: Iterable[str] | None = None) -> list[AnsweredTurn]:
        """Answered turns of some sessions or of all, in order."""
        wanted = None if sessions is None else set(sessions)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT profile, session, turn, at, answer, prompts, '', calls, read, seq FROM turns"
                " WHERE profile = ? ORDER BY seq",
                (profile,),
            ).fetchall()
        return [_turn(row) for row in rows if wanted is None or row[1] in wanted]

    def tally(self, tx: Connection, profile: str, memory: str) -> Tally:
        """What was counted for a memory so far."""
        row = tx.execute(
            "SELECT keep, uses, last_used, misses, muted_at, door_misses, door_muted_at FROM standing"
            " WHERE memory = ? AND profile = ?",
            (memory, profile),
        ).fetchone()
        if row is None:
            return Tally()
        keep, uses, last_used, misses, muted_at, door_misses, door_muted_at = row
        return Tally(
            keep=bool(keep),
            uses=uses,
            last_used=last_used,
            misses=tuple(json.loads(misses)),
            muted_at=muted_at,
            door_misses=tuple(json.loads(door_misses)),
            door_muted_at=door_muted_at,
        )

    def count(self, tx: Connection, profile: str, memory: str, tally: Tally) -> None:
        """Keep what was counted for a memory."""
        tx.execute(
            "INSERT INTO standing"
            " (memory, profile, uses, last_used, misses, muted_at, door_misses, door_muted_at)"
            " VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (memory) DO UPDATE SET uses = excluded.uses,"
            " last_used = excluded.last_used, misses = excluded.misses, muted_at = excluded.muted_at,"
            " door_misses = excluded.door_misses, door_muted_at = excluded.door_muted_at",
            (
                memory,
                profile,
                tally.uses,
                tally.last_used,
                json.dumps(tally.misses),
                tally.muted_at,
                json.dumps(tally.door_misses),
                tally.door_muted_at,
            ),
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """What is counted for a memory. `misses` are the times at which it was shown for a prompt and surely
    not used, `door_misses` those at which a session was opened with it in vain."""

    keep: bool = False
    uses: int = 0
    last_used: Instant | None = None
    misses: tuple[Instant, ...] = ()
    muted_at: Instant | None = None
    door_misses: tuple[Instant, ...] = ()
    door_muted_at: Instant | None = None


def _turn(row: Sequence[Any]) -> AnsweredTurn:
    profile, session, turn, at, answer, prompts, acts, calls, read, seq = row
    return AnsweredTurn(
        profile, session, turn, at, answer, tuple(json.loads(prompts)), acts, calls, read, seq
    )
