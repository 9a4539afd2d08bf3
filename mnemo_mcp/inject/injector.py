"""The two moments at which mnemo may speak unasked: a session opens, a message is about to be answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from typing import Any

from mnemo_mcp.capture.payload import HookCall, is_command, is_notice
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.profile import Scope
from mnemo_mcp.inject.door import STANDING, likeliest, worth_telling
from mnemo_mcp.inject.render import BLOCKS, Block, Count, block
from mnemo_mcp.inject.sessions import enter
from mnemo_mcp.ledger.accounts import Heard, Injection
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Instant, Kind, Memory, Status, instant, moment
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask, Recaller
from mnemo_mcp.settings import Budgets
from mnemo_mcp.times import Clock

_MOST_AT_OPENING = 12
_MOST_BEFORE_MESSAGE = 5
_NAMED = 12  # ids an account names of what was withheld for one reason

NOTHING = "nothing relevant"

_OWN_BLOCKS = re.compile(BLOCKS, re.DOTALL)


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


@dataclass(frozen=True, slots=True)
class Candidates:
    """What might be told, best first; how many others are not sure enough; what the account is to hold."""

    memories: tuple[Memory, ...] = ()
    weak: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)


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
        # what heads the list and no more: one that is muted, or there already, makes no room for the next
        heading = self._standing(occasion)[:_MOST_AT_OPENING]
        standing = Candidates(tuple(heading), detail={"source": call.source})
        with self._store.write() as tx:
            enter(self._store.accounts, tx, call, occasion.profile, occasion.project, occasion.now)
            return self._say(tx, call, occasion, standing, "nothing stands for this project")

    def pre_message(self, call: HookCall, occasion: Occasion) -> str:
        """What the prompt asks about, where it is surely relevant; else nothing."""
        if call.prompt is None or not call.prompt.strip():
            return ""
        question = _OWN_BLOCKS.sub(" ", call.prompt)
        silence = _no_question(call, question)
        found = Candidates() if silence else self._relevant(question, occasion)
        with self._store.write() as tx:
            self._store.accounts.open_session(
                tx, occasion.profile, call.session, call.client, occasion.project, occasion.now
            )
            if silence:
                self._record(tx, call, occasion, Block("", 0, ()), silence, {})
                return ""
            return self._say(tx, call, occasion, found, "nothing surely relevant" if found.weak else NOTHING)

    def _relevant(self, prompt: str, occasion: Occasion) -> Candidates:
        ask = Ask(
            prompt,
            occasion.profile,
            occasion.now,
            limit=4 * _MOST_BEFORE_MESSAGE,
            projects=occasion.projects,
            past=False,
            episodes=False,
            zone=occasion.zone,
            late=lambda: self._late(occasion),
        )
        answer = self._recaller.answer(ask).memories
        sure = [each for each in answer if each.sure and self._tellable(each.memory, occasion)]
        sure.sort(key=lambda each: -each.speaks)
        least = self._budgets.nearly_as_sure * sure[0].speaks if sure else 0.0
        sure = [each for each in sure if each.speaks >= least]
        detail = {
            "found": {
                each.memory.id: {"score": round(each.score, 4), "ranks": dict(each.ranks)} for each in sure
            }
        }
        return Candidates(tuple(each.memory for each in sure), len(answer) - len(sure), detail)

    def _standing(self, occasion: Occasion) -> list[Memory]:
        index = self._index.profile(occasion.profile)
        with index.lock:
            scope = index.inside(Scope(occasion.projects, frozenset(STANDING)))
            standing_now = scope & index.states.having(occasion.now, Status.CURRENT)
            rows = standing_now.nonzero()[0]
            likely = likeliest(index.states, rows, occasion.now, self._oldest_state(occasion)).tolist()
            known = (index.row(each) for each in self._store.accounts.valued(occasion.profile))
            valued = [row for row in known if row is not None and standing_now[row]]
            memories = [index.memory(row) for row in dict.fromkeys([*likely, *valued])]
        memories = [each for each in memories if self._tellable(each, occasion)]
        standing = self._store.accounts.standing(each.id for each in memories)
        return worth_telling(memories, standing, occasion.project, occasion.now)

    def _late(self, occasion: Occasion) -> bool:
        return occasion.answer_by is not None and instant(self._clock()) > occasion.answer_by

    def _tellable(self, memory: Memory, occasion: Occasion) -> bool:
        """A state grows old: after its life span it is told only when somebody asks."""
        if memory.claim.kind is not Kind.STATE:
            return True
        return memory.valid_from >= self._oldest_state(occasion)

    def _oldest_state(self, occasion: Occasion) -> Instant:
        return instant(moment(occasion.now) - timedelta(days=self._budgets.state_days))

    def _say(
        self, tx: Connection, call: HookCall, occasion: Occasion, found: Candidates, nothing: str
    ) -> str:
        accounts = self._store.accounts
        opening = call.moment == "session-open"
        most = _MOST_AT_OPENING if opening else _MOST_BEFORE_MESSAGE
        tokens = self._budgets.block_tokens
        if opening:
            tokens = min(tokens, self._budgets.door_tokens)
        fresh, withheld = self._fresh(tx, call, occasion, found.memories, most)
        left = self._budgets.session_tokens - accounts.spent(tx, occasion.profile, call.session)
        said = Block("", 0, ())
        late = self._late(occasion)
        if fresh and not late:
            said = block(
                fresh[:most],
                self._count,
                min(tokens, left),
                self._budgets.block_characters,
            )
        if not said.memories and late:
            reason = "the hook had stopped waiting"
        elif not said.memories and fresh:
            used_up = left < tokens
            reason = "the session's budget is used up" if used_up else "too long for one block"
        else:
            reason = "" if said.memories else next(iter(withheld), nothing)
        told = {each.id for each in said.memories}
        if room := [each.id for each in fresh if each.id not in told]:
            withheld["no room"] = room[:_NAMED]
        self._record(tx, call, occasion, said, reason, {**found.detail, "withheld": withheld})
        return said.text

    def _fresh(
        self, tx: Connection, call: HookCall, occasion: Occasion, found: Sequence[Memory], most: int
    ) -> tuple[list[Memory], dict[str, list[str]]]:
        """Those of `found` that may be told to this session, and why the others may not."""
        accounts = self._store.accounts
        shown = accounts.shown(tx, occasion.profile, call.session)
        muted = accounts.muted(tx, occasion.profile, door=call.moment == "session-open")
        heard = accounts.heard(tx, occasion.profile, call.session)
        fresh: list[Memory] = []
        withheld: dict[str, list[str]] = {}
        for memory in found:
            if memory.id in shown:
                reason = "already in this session"
            elif memory.id in muted:
                reason = "muted: shown in vain too often"
            elif self._heard(memory, heard):
                reason = "what the session itself said"
            else:
                fresh.append(memory)
                if len(fresh) == 4 * most:
                    break
                continue
            withheld.setdefault(reason, []).append(memory.id)
        return fresh, {reason: ids[:_NAMED] for reason, ids in withheld.items()}

    def _heard(self, memory: Memory, heard: Sequence[Heard]) -> bool:
        """Whether every source of a memory stands in the session's own context: it is not handed back."""
        cited = self._store.episodes.many(memory.episodes).values()
        return bool(cited) and all(
            any(
                each.session == stretch.session and stretch.since <= each.recorded_at <= stretch.until
                for stretch in heard
            )
            for each in cited
        )

    def _record(
        self,
        tx: Connection,
        call: HookCall,
        occasion: Occasion,
        said: Block,
        reason: str,
        detail: Mapping[str, Any],
    ) -> None:
        injection = Injection(
            occasion.profile,
            call.session,
            call.moment,
            occasion.now,
            occasion.prompt,
            said.tokens,
            tuple(each.id for each in said.memories),
            reason,
            detail,
        )
        self._store.accounts.record(tx, injection)


def _no_question(call: HookCall, question: str) -> str:
    """Why a prompt is not a question, "" if it may be one; `question` is it without notes of mnemo."""
    prompt = call.prompt or ""
    if call.subagent:
        return "a subagent's task"
    if is_notice(prompt) or is_notice(question):
        return "a machine's notice"
    if is_command(prompt):
        return "a command"
    if not question.strip():
        return "notes of mnemo"
    return "an acknowledgement" if read(question).bare else ""
