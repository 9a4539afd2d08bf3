"""The judge: weighs a candidate against what is known, and writes what follows into the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mnemo_mcp.index.index import Index
from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Outcome
from mnemo_mcp.models.decisions import Decider
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import Settings
from mnemo_mcp.times import Clock


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a candidate, by what was known when it was weighed."""

    candidate: Candidate


class Judge:
    """Over one store. Without a model only repeats are recognised; all else stays side by side."""

    def __init__(
        self,
        store: Store,
        index: Index,
        encoders: EncoderPair,
        settings: Settings,
        clock: Clock,
        decider: Decider | None = None,
    ) -> None: ...

    def consider(self, candidate: Candidate) -> Decision:
        """Weigh a candidate; no transaction may be open. Raises an `EndpointError`."""
        raise NotImplementedError

    def apply(self, tx: Connection, decision: Decision) -> Outcome:
        """Write what was decided, and why.

        The outcome is added, confirmed, updated, corrected, cut or refused (it stays in its episodes only);
        "stale" where what it was compared with has changed: nothing was written, consider it again.
        """
        raise NotImplementedError

    def settle(
        self, candidate: Candidate, also: Callable[[Connection, Outcome], None] | None = None
    ) -> Outcome:
        """`consider` and `apply` in a transaction of their own, again where the decision had become stale.

        `also` writes in the same transaction. Raises an `EndpointError`; nothing is written then.
        """
        raise NotImplementedError
