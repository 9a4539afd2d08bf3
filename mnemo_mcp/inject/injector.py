"""The two moments at which mnemo may speak unasked: a session opens, a message is about to be answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo

from mnemo_mcp.capture.payload import HookCall, is_command, is_notice
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.profile import Scope
from mnemo_mcp.inject.render import Block, Count, block
from mnemo_mcp.ledger.accounts import Injection
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Instant, Kind, Memory, Role, Status, instant, moment
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask, Recaller
from mnemo_mcp.settings import Budgets
from mnemo_mcp.times import Clock

_STANDING = (Kind.PREFERENCE, Kind.DECISION, Kind.STATE)
_MOST_AT_OPENING = 12
_MOST_BEFORE_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class Occasion:
    """Whose session it is, in which project, when, and which prompt (episode id) it answers.

    A hook that got no answer by `answer_by` has left; what it is told then, nobody reads.
    """

    profile: str
    project: str
    now: Instant
    prompt: str = ""
    answer_by: Instant | None = None
    zone: tzinfo = UTC

    @property
    def projects(self) -> frozenset[str]:
        return frozenset({self.project})


class Injector:
    """Chooses, renders and accounts for what a hook says."""

    def __init__(
        self,
        store: Store,
        index: Index,
        recaller: Recaller,
        budgets: Budgets,
        count: Count,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._recaller = recaller
        self._budgets = budgets
        self._count = count
        self._clock = clock

    def session_open(self, call: HookCall, occasion: Occasion) -> str:
        """What a colleague would say at the door: standing decisions, preferences, states still true."""
        standing = self._standing(occasion)
        with self._store.write() as tx:
            accounts = self._store.accounts
            accounts.open_session(
                tx, occasion.profile, call.session, call.client, occasion.project, occasion.now
            )
            if call.source in ("compact", "clear"):
                accounts.forget_shown(tx, occasion.profile, call.session)
            return self._say(tx, call, occasion, standing, "nothing stands for this project")

    def pre_message(self, call: HookCall, occasion: Occasion) -> str:
        """What the prompt asks about, where it is surely relevant; else nothing."""
        if call.prompt is None or not call.prompt.strip():
            return ""
        if silence := _no_question(call):
            self._note_silence(call, occasion, silence)
            return ""
        found = self._relevant(call.prompt, occasion)
        with self._store.write() as tx:
            return self._say(tx, call, occasion, found, "nothing relevant")

    def _relevant(self, prompt: str, occasion: Occasion) -> list[Memory]:
        ask = Ask(
            prompt,
            occasion.profile,
            occasion.now,
            limit=4 * _MOST_BEFORE_MESSAGE,
            projects=occasion.projects,
            past=False,
            episodes=False,
            zone=occasion.zone,
        )
        found = [each.memory for each in self._recaller.answer(ask).memories if each.sure]
        return [memory for memory in found if self._tellable(memory, occasion)]

    def _standing(self, occasion: Occasion) -> list[Memory]:
        index = self._index.profile(occasion.profile)
        with index.lock:
            scope = index.inside(Scope(occasion.projects, frozenset(_STANDING)))
            rows = (scope & index.states.having(occasion.now, Status.CURRENT)).nonzero()[0]
            memories = [index.memories[int(row)] for row in rows]
        memories = [
            each for each in memories if self._tellable(each, occasion) and each.origin is not Role.TOOL
        ]
        kept = self._store.accounts.standing(each.id for each in memories)
        memories.sort(key=lambda each: each.id)
        memories.sort(key=lambda each: each.valid_from, reverse=True)
        memories.sort(
            key=lambda each: (not (each.id in kept and kept[each.id].keep), _STANDING.index(each.claim.kind))
        )
        return memories[: 4 * _MOST_AT_OPENING]

    def _tellable(self, memory: Memory, occasion: Occasion) -> bool:
        """A state grows old: after its life span it is told only when somebody asks."""
        if memory.claim.kind is not Kind.STATE:
            return True
        oldest = moment(occasion.now) - timedelta(days=self._budgets.state_days)
        return memory.valid_from >= instant(oldest)

    def _say(
        self, tx: Connection, call: HookCall, occasion: Occasion, memories: Sequence[Memory], nothing: str
    ) -> str:
        accounts = self._store.accounts
        shown = accounts.shown(tx, occasion.profile, call.session)
        fresh = [
            each for each in memories if each.id not in shown and not self._said_here(each, call.session)
        ]
        most = _MOST_AT_OPENING if call.moment == "session-open" else _MOST_BEFORE_MESSAGE
        left = self._budgets.session_tokens - accounts.spent(tx, occasion.profile, call.session)
        said = Block("", 0, ())
        late = occasion.answer_by is not None and instant(self._clock()) > occasion.answer_by
        if fresh and not late:
            said = block(
                fresh[:most],
                self._count,
                min(self._budgets.block_tokens, left),
                self._budgets.block_characters,
            )
        silent = "the hook had stopped waiting" if late else _why_silent(memories, fresh, nothing)
        reason = "" if said.memories else silent
        accounts.record(
            tx,
            Injection(
                occasion.profile,
                call.session,
                call.moment,
                occasion.now,
                occasion.prompt,
                said.tokens,
                tuple(each.id for each in said.memories),
                reason,
            ),
        )
        return said.text

    def _said_here(self, memory: Memory, session: str) -> bool:
        """Whether every source of a memory is this very session: it is not handed back what it said."""
        cited = self._store.episodes.many(memory.episodes).values()
        return bool(cited) and all(each.session == session for each in cited)

    def _note_silence(self, call: HookCall, occasion: Occasion, reason: str) -> None:
        with self._store.write() as tx:
            self._store.accounts.record(
                tx,
                Injection(
                    occasion.profile, call.session, call.moment, occasion.now, occasion.prompt, 0, (), reason
                ),
            )


def _no_question(call: HookCall) -> str:
    """Why a prompt is not a question, "" if it may be one."""
    prompt = call.prompt or ""
    if call.subagent:
        return "a subagent's task"
    if is_notice(prompt):
        return "a machine's notice"
    if is_command(prompt):
        return "a command"
    return "an acknowledgement" if read(prompt).bare else ""


def _why_silent(found: Sequence[Memory], fresh: Sequence[Memory], nothing: str) -> str:
    if not found:
        return nothing
    return "the session's budget is used up" if fresh else "already in this session"
