"""Turns and the prompts they answer: noted in the hook's way, judged later.

A prompt typed while the model works is announced under the running turn's id and answered by a later turn;
the transcript tells by which. Where there is none, a turn answers the first prompt announced under its id.
A prompt that was interrupted, or taken into a running turn, is answered by no turn: nothing is concluded
from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemo_mcp.capture.episodes import Arrival, Finished
from mnemo_mcp.capture.payload import HookCall
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.uses import KIND, AnsweredTurn
from mnemo_mcp.ledger.work import CONSOLIDATE, RECENT


def note_turn(store: Store, tx: Connection, call: HookCall, arrival: Arrival, turn: Finished) -> None:
    """Note a turn that was answered, or the end of its session, and ask for what was shown to be judged."""
    if call.subagent:
        return
    profile, session = arrival.profile, call.session
    ends = call.moment == "session-end"
    if ends:
        store.work.add(tx, CONSOLIDATE, profile, RECENT, arrival.recorded_at)
        store.accounts.end_session(tx, profile, session, arrival.received_at)
    if turn.answer:
        announced = store.uses.prompts_of(tx, profile, session, call.turn)
        answered = AnsweredTurn(
            profile,
            session,
            call.turn,
            arrival.received_at,
            turn.answer,
            tuple(_answered(turn.prompts, announced, call.turn)),
            turn.acts,
            turn.calls or None,
            turn.read or None,
        )
        store.uses.answered(tx, answered)
    if turn.answer or ends:
        store.work.add(tx, KIND, profile, session, arrival.recorded_at)


def _answered(told: Sequence[str], announced: Sequence[str], turn: str) -> Sequence[str]:
    """The prompts a turn answers, as its transcript tells; else the one it must be, if there is just one."""
    if told and (not announced or set(told) & set(announced)):
        return told
    if turn:
        return (*told, *announced[:1])
    return (*told, *announced) if len(announced) == 1 else told
