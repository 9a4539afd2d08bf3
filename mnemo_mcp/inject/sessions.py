"""What a session has before it when it opens: nothing, what it was shown, or what another one was.

After a compaction the context is gone: what was shown or said before may be told again, while the session's
tokens go on counting. A resumed session goes on as it was; a fork goes on from its parent under a new id,
which no client names; a cleared one begins anew.
"""

from __future__ import annotations

from datetime import timedelta

from mnemo_mcp.capture.payload import HookCall
from mnemo_mcp.ledger.accounts import Accounts
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.memory import Instant, instant, moment

_TOLERANCE = timedelta(seconds=15)  # between a client's last answer and its turn-end hook, on a busy machine


def enter(
    accounts: Accounts, tx: Connection, call: HookCall, profile: str, project: str, now: Instant
) -> None:
    """Bring a session's account to where its client says it stands."""
    fresh = accounts.open_session(tx, profile, call.session, call.client, project, now)
    accounts.end_session(tx, profile, call.session, None)
    if call.source == "compact":
        accounts.lose_context(tx, profile, call.session, now)
    elif call.source == "clear" and not fresh:
        accounts.begin_anew(tx, profile, call.session, now)
    # older clients call a fork a resume
    elif (
        fresh
        and call.source in ("fork", "resume")
        and (parent := _parent(accounts, tx, call, profile, project, now))
    ):
        accounts.fork(tx, profile, call.session, parent)


def _parent(
    accounts: Accounts, tx: Connection, call: HookCall, profile: str, project: str, now: Instant
) -> str:
    """The one session of the project whose last answer came when the client says; "" if none or several."""
    if call.idle_seconds is None:
        return ""
    answered = moment(now) - timedelta(seconds=call.idle_seconds)
    found = accounts.answered_between(
        tx,
        profile,
        call.client,
        project,
        instant(answered - _TOLERANCE),
        instant(answered + _TOLERANCE),
    )
    others = [each for each in found if each != call.session]
    return others[0] if len(others) == 1 else ""
