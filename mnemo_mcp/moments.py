"""The three moments at which a client's hook calls: a session opens, a message comes, a turn ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from mnemo_mcp.capture.episodes import Arrival, finished_turn, prompt_episode
from mnemo_mcp.capture.payload import HookCall, read_call
from mnemo_mcp.capture.privacy import Privacy
from mnemo_mcp.capture.project import project_of
from mnemo_mcp.capture.transcript import transcript_roots
from mnemo_mcp.distil.distiller import ask_for_reading
from mnemo_mcp.inject.clients import hook_output
from mnemo_mcp.inject.injector import Injector, Occasion
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import instant
from mnemo_mcp.settings import Settings
from mnemo_mcp.standing.turns import note_turn
from mnemo_mcp.thin.moments import SECONDS
from mnemo_mcp.times import Clock
from mnemo_mcp.upkeep import Upkeep


class Moments:
    """What happens at each moment. Episodes a payload brings are on disk when `hook` returns."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        upkeep: Upkeep,
        injector: Injector,
        privacy: Privacy,
        clock: Clock,
        zone: tzinfo,
        turn_ended: Callable[[], object],
    ) -> None:
        """`turn_ended` is called once a turn is stored."""
        self._settings = settings
        self._store = store
        self._upkeep = upkeep
        self._injector = injector
        self._privacy = privacy
        self._clock = clock
        self._zone = zone
        self._turn_ended = turn_ended

    def hook(self, client: str, moment: str, raw: bytes, received: datetime | None, profile: str) -> str:
        """What a client's hook prints for the payload `raw`; "" for nothing."""
        call = read_call(client, moment, raw)
        if call is None:
            return ""
        now = self._clock()
        arrival = Arrival(
            profile,
            project_of(call.cwd),
            instant(received or now),
            instant(now),
            self._zone,
            instant(received + timedelta(seconds=SECONDS.get(moment, 0))) if received else None,
        )
        if self._privacy.hides(call, arrival.profile, arrival.recorded_at):
            return ""
        match moment:
            case "session-open":
                return hook_output(call, self._session_open(call, arrival))
            case "pre-message":
                return hook_output(call, self._pre_message(call, arrival))
            case "turn-end" | "session-end":
                self._turn_end(call, arrival)
        return ""

    def _session_open(self, call: HookCall, arrival: Arrival) -> str:
        if call.source == "compact":
            with self._store.write() as tx:
                self._ask_for_reading(tx, call, arrival)
        return self._injector.session_open(call, self._occasion(arrival))

    def _pre_message(self, call: HookCall, arrival: Arrival) -> str:
        prompt = None if call.subagent else prompt_episode(call, arrival)
        if prompt:
            with self._store.write() as tx:
                self._store.episodes.add(tx, [prompt])
                self._ask_for_reading(tx, call, arrival)
        self._upkeep.before_answer()
        return self._injector.pre_message(call, self._occasion(arrival, prompt.id if prompt else ""))

    def _turn_end(self, call: HookCall, arrival: Arrival) -> None:
        roots = transcript_roots(self._settings.transcript_roots)
        turn = finished_turn(call, arrival, roots, self._store.episodes.many)
        with self._store.write() as tx:
            self._store.episodes.add(tx, turn.episodes)
            if turn.episodes or call.moment == "session-end":
                self._ask_for_reading(tx, call, arrival)
            note_turn(self._store, tx, call, arrival, turn)
        self._turn_ended()

    def _ask_for_reading(self, tx: Connection, call: HookCall, arrival: Arrival) -> None:
        quiet = self._settings.distilling.quiet_seconds
        ask_for_reading(self._store, tx, call, arrival.profile, arrival.recorded_at, quiet)

    def _occasion(self, arrival: Arrival, prompt: str = "") -> Occasion:
        now = instant(self._clock())
        return Occasion(arrival.profile, arrival.project, now, prompt, arrival.answer_by, self._zone)
