"""Backfill: past transcripts are taken in as if their hooks had run, session by session, as often as wanted.

An episode has the id it would have got then, so that a run that was broken off is simply run again. It is
known from now on and happened when its transcript says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from mnemo_mcp.capture.episodes import Arrival, past_turn
from mnemo_mcp.capture.gate import worth_distilling
from mnemo_mcp.capture.past import PastSession, PastTurn, past_session, past_sessions, past_turns
from mnemo_mcp.capture.payload import HookCall
from mnemo_mcp.capture.privacy import Privacy
from mnemo_mcp.capture.project import project_of
from mnemo_mcp.distil.lines import shown_text
from mnemo_mcp.distil.prompt import instructions
from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.threads import KIND
from mnemo_mcp.memory import Episode, Instant, instant
from mnemo_mcp.settings import Settings
from mnemo_mcp.times import Clock

_HEAD_TOKENS = 24  # number, role, day and time before each line
_ANSWER_TOKENS = 200  # of a request: three memories or so; a guess, and the dry run calls it an estimate
_STORED_TURNS = 20  # in one transaction


@dataclass(frozen=True, slots=True)
class Scope:
    """Which turns are wanted: since an instant, in a project by its identity, its folder or its last name."""

    since: Instant = ""
    project: str = ""

    def holds(self, turn: PastTurn, project: str) -> bool:
        if self.project and self.project not in (project, turn.cwd, project.rstrip("/").rpartition("/")[2]):
            return False
        return not self.since or not turn.at or _instant(turn.at) >= self.since


@dataclass(slots=True)
class Taken:
    """What one session brought, or in a dry run would bring. Tokens are estimates of reading it."""

    path: str
    client: str
    began: str
    session: str = ""
    projects: list[str] = field(default_factory=list)
    turns: int = 0
    episodes: int = 0
    known: int = 0
    left_out: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Backfill:
    """Over one store. It asks no model; what it takes in waits to be read like any other thread."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        privacy: Privacy,
        clock: Clock,
        zone: tzinfo,
        count: Callable[[str], int],
        roots: Sequence[Path],
    ) -> None:
        self._store = store
        self._settings = settings
        self._privacy = privacy
        self._clock = clock
        self._zone = zone
        self._count = count
        self._roots = roots

    def sessions(self, client: str = "") -> list[PastSession]:
        """Every session that can be taken in, the oldest first."""
        return past_sessions(self._roots, client)

    def session(self, path: str) -> PastSession:
        """The session kept in a file. Raises `NotFound`."""
        found = past_session(path, self._roots)
        if found is None:
            raise NotFound(
                f"{path!r} is no transcript mnemo may read.", "See `transcript_roots` in config.toml."
            )
        return found

    def take(self, session: PastSession, profile: str, scope: Scope, *, dry_run: bool = False) -> Taken:
        """Take one session in, or with `dry_run` only count what that would bring."""
        taken = Taken(str(session.path), session.client, session.began)
        tokens = 0
        waiting: list[tuple[PastTurn, tuple[Episode, ...]]] = []
        for turn in past_turns(session):
            project = project_of(turn.cwd)
            if not scope.holds(turn, project):
                continue
            if self._hidden(turn, profile):
                taken.left_out += 1
                continue
            fresh, known = self._episodes(session, turn, profile, project)
            taken.session = turn.session
            taken.turns += 1
            taken.known += known
            taken.episodes += len(fresh)
            if project and project not in taken.projects:
                taken.projects.append(project)
            tokens += sum(map(self._cost, fresh))
            waiting.append((turn, fresh))
            if len(waiting) == _STORED_TURNS:
                waiting = self._store_turns(waiting, profile, dry_run)
        self._store_turns(waiting, profile, dry_run)
        self._estimate(taken, tokens)
        return taken

    def _hidden(self, turn: PastTurn, profile: str) -> bool:
        try:
            self._privacy.check([turn.cwd], profile, turn.session)
        except Refused:
            return True
        return False

    def _episodes(
        self, session: PastSession, turn: PastTurn, profile: str, project: str
    ) -> tuple[tuple[Episode, ...], int]:
        now = instant(self._clock())
        at = _instant(turn.at) or now
        call = HookCall(
            session.client,
            "turn-end",
            turn.session,
            "",
            turn.cwd,
            "",
            None,
            turn.turn.id,
            turn.answer,
            str(session.path),
            False,
        )
        arrival = Arrival(profile, project, at, now, self._zone)
        found = past_turn(call, arrival, turn.turn, turn.answered_at, self._store.episodes.many).episodes
        there = self._store.episodes.many(each.id for each in found)
        return tuple(each for each in found if each.id not in there), len(there)

    def _store_turns(
        self, turns: Iterable[tuple[PastTurn, tuple[Episode, ...]]], profile: str, dry_run: bool
    ) -> list[tuple[PastTurn, tuple[Episode, ...]]]:
        """Store what is new, and have its threads read; nothing is left to be stored."""
        stored = [] if dry_run else [(turn, fresh) for turn, fresh in turns if fresh]
        if stored:
            with self._store.write() as tx:
                for turn, fresh in stored:
                    self._store.episodes.add(tx, fresh)
                    self._store.threads.note(tx, profile, turn.session, turn.cwd)
                    self._store.work.add(tx, KIND, profile, turn.session, instant(self._clock()))
        return []

    def _cost(self, episode: Episode) -> int:
        text = shown_text(episode)
        return self._count(text) + _HEAD_TOKENS if worth_distilling(text).keep else 0

    def _estimate(self, taken: Taken, tokens: int) -> None:
        """What reading it will cost by the prices of the endpoint that reads threads, if one is set."""
        constants = self._settings.distilling
        models = self._settings.models
        endpoint = models.endpoint.get(models.extraction)
        room = constants.chunk_tokens
        told = self._count(instructions(constants.chunk_memories))
        if endpoint is not None:
            room = min(room, endpoint.max_input_tokens - told)
        taken.requests = math.ceil(tokens / max(1, room))
        taken.tokens_in = tokens + taken.requests * told
        taken.tokens_out = taken.requests * _ANSWER_TOKENS
        if endpoint is not None:
            price = taken.tokens_in * endpoint.price_in + taken.tokens_out * endpoint.price_out
            taken.cost = price / 1_000_000


def _instant(at: str) -> Instant:
    try:
        return instant(datetime.fromisoformat(at))
    except (ValueError, OverflowError):
        return ""
