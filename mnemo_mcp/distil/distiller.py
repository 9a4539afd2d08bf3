"""Distilling: reads a quiet thread, chunk by chunk, and hands what is worth having to the judge.

One chunk a task, so that a long thread holds nothing up and a restart repeats nothing: how far a thread was
read is kept in the transaction that stores what came of it, and a model's answer is at hand until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from mnemo_mcp.capture.payload import HookCall
from mnemo_mcp.capture.privacy import Privacy
from mnemo_mcp.distil import prompt
from mnemo_mcp.distil.checks import Background
from mnemo_mcp.distil.chunks import OVERLAP_LINES, Chunk, next_chunk
from mnemo_mcp.distil.claims import Checked, checked
from mnemo_mcp.distil.drafts import Draft, drafts
from mnemo_mcp.distil.instructions import instruction_lines
from mnemo_mcp.distil.likeness import Likeness
from mnemo_mcp.errors import CutOff, NotFound, NotUnderstood, Refused
from mnemo_mcp.index.index import Index
from mnemo_mcp.judge.judge import STALE, Decision, Judge
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.threads import KIND, LEFT_OUT, Extraction, Thread, extraction_id
from mnemo_mcp.ledger.work import Task
from mnemo_mcp.memory import Instant, Memory, instant, moment
from mnemo_mcp.models.chat import Chat, Messages
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import Distilling
from mnemo_mcp.times import Clock

_MOST_EPISODES = 200  # looked at for one chunk
_MOST_RECALLED = 60  # notes shown to a session that are looked for in what was said
_NEWEST = (1 << 63) - 1
_SPARE_TOKENS = 120  # for what is said where an answer was of no use

Finish = Callable[[Connection], None]


@dataclass(frozen=True, slots=True)
class _Settled:
    """A draft with what was decided of it."""

    id: str
    checked: Checked
    decision: Decision | None


class Distiller:
    """Over one store; asks its model while no transaction is open."""

    def __init__(
        self,
        store: Store,
        index: Index,
        encoders: EncoderPair,
        judge: Judge,
        chat: Chat | None,
        constants: Distilling,
        clock: Clock,
        privacy: Privacy,
    ) -> None:
        """Without a `chat` nothing is read, and nothing is lost: the threads wait."""
        self._store = store
        self._index = index
        self._judge = judge
        self._chat = chat
        self._constants = constants
        self._clock = clock
        self._privacy = privacy
        self._likeness = Likeness(encoders, store.vectors, constants)
        self._done = 0  # threads read since none was due

    def serve(self, serve: Callable[[str, Callable[[Task], Finish]], None]) -> None:
        """Offer to read threads, where there is a model for it."""
        if self._chat is not None:
            serve(KIND, self.distil)

    def told(self) -> str:
        """In words, what is read and what waits; "" while nothing does."""
        now = self._now()
        queue = next((each for each in self._store.work.queues(now) if each.kind == KIND), None)
        if queue is None:
            return ""
        waiting = queue.waiting + queue.running + queue.stuck
        threads = "thread" if waiting == 1 else "threads"
        if self._chat is None:
            verb = "waits" if waiting == 1 else "wait"
            return f"{waiting} {threads} {verb}: no model is set to read them (`extraction` under [models])."
        due = self._store.work.due(KIND, now) + queue.running
        if not due:
            return f"{waiting} {threads} not due yet"
        total = self._done + due
        return f"distilling: {self._done + 1} of {total} {'thread' if total == 1 else 'threads'}"

    def distil(self, task: Task) -> Finish:
        """Read the next chunk of a thread; what writes what came of it. Raises an `EndpointError`."""
        assert self._chat is not None
        thread = self._store.threads.get(task.profile, task.subject)
        try:
            self._privacy.check([thread.folder], thread.profile, thread.session)
        except Refused:
            return lambda tx: None  # declared private, or excluded, since it was said
        notes = self._recalled(thread)
        chunk = self._next(thread, notes, self._chat)
        found: list[_Settled] = []
        if chunk.worth_reading:
            self._index.catch_up()
            elements = self._read(chunk, self._chat, first=task.attempts <= 1)
            background = Background(tuple(notes), tuple(instruction_lines(thread.folder)))
            found = [
                self._settled(thread, each, chunk, background)
                for each in drafts(elements, self._constants.chunk_memories)
            ]

        def finish(tx: Connection) -> None:
            self._write(tx, thread, chunk, found)

        return finish

    def _next(self, thread: Thread, notes: Sequence[str], chat: Chat) -> Chunk:
        store, wall, name = self._store, thread.profile, thread.session
        fresh = store.episodes.thread(wall, name, thread.reached, _MOST_EPISODES)
        earlier = store.episodes.before(wall, name, thread.reached, OVERLAP_LINES)
        known = store.threads.written_on_request(episode.id for _, episode in fresh)
        head = [{"role": "system", "content": prompt.instructions(self._constants.chunk_memories)}]
        room = chat.max_input_tokens - chat.tokens(head) - _SPARE_TOKENS
        chunk = next_chunk(fresh, earlier, notes, known, chat.count, min(room, self._constants.chunk_tokens))
        if len(fresh) == _MOST_EPISODES and not chunk.more:
            return Chunk(chunk.lines, chunk.reached, more=True)
        return chunk

    def _recalled(self, thread: Thread) -> list[str]:
        """What the notes said that a session was shown."""
        shown: dict[str, None] = {}
        for injection in self._store.accounts.injections(thread.profile, thread.session):
            shown |= dict.fromkeys(injection.memories)
        return [
            memory.claim.what for name in [*shown][:_MOST_RECALLED] if (memory := self._memory(name, thread))
        ]

    def _memory(self, name: str, thread: Thread) -> Memory | None:
        with suppress(NotFound):
            return self._store.truth.get(name, thread.profile)
        return None

    def _read(self, chunk: Chunk, chat: Chat, *, first: bool) -> Sequence[object]:
        """What a model takes from a chunk. An answer of no use is asked for once more at the first try, with
        what was wrong; the rest of one that was cut off is asked for once. Raises an `EndpointError`.
        """
        project = chunk.lines[-1].episode.project
        asked = prompt.messages(chunk, project, self._constants.chunk_memories)
        try:
            given, whole = _ask(chat, asked, chunk)
        except (NotUnderstood, CutOff) as error:
            if not first:
                raise
            return _ask(chat, prompt.again(asked, error.message), chunk)[0]
        if whole or not given:
            return given
        with suppress(NotUnderstood, CutOff, Refused):
            rest = prompt.the_rest(asked, given)
            if chat.tokens(rest) <= chat.max_input_tokens:
                return [*given, *_ask(chat, rest, chunk)[0]]
        return given

    def _settled(self, thread: Thread, draft: Draft, chunk: Chunk, background: Background) -> _Settled:
        name = extraction_id(thread.profile, thread.session, thread.reached, draft.what)
        result = checked(draft, chunk, self._likeness, background, self._constants)
        known = result.candidate is None or self._store.threads.has(name)
        candidate = None if known else result.candidate
        return _Settled(name, result, self._judge.consider(candidate) if candidate else None)

    def _write(self, tx: Connection, thread: Thread, chunk: Chunk, found: Sequence[_Settled]) -> None:
        """Store what was decided, and how far the thread is read. What had become stale is judged again."""
        now = self._now()
        left = self._constants.thread_memories - self._store.threads.kept(thread.profile, thread.session)
        stale = False
        for each in found:
            if each.checked.candidate is None:
                self._keep(tx, thread, each, LEFT_OUT, each.checked.reason, "", now)
            elif each.decision is None:
                continue  # settled before a restart
            elif self._erased(each.checked.episodes):
                continue  # whoever erased a source wants nothing to come of it
            elif left <= 0:
                self._keep(tx, thread, each, LEFT_OUT, "this thread has left as much as one may", "", now)
            else:
                outcome, reason, memory = self._apply(tx, each.decision)
                if outcome == STALE:
                    stale = True
                    continue
                left -= bool(memory) and outcome != "confirmed"
                told = "; ".join(filter(None, (reason, *(f"without {part}" for part in each.checked.mended))))
                self._keep(tx, thread, each, outcome, told, memory, now)
        if not stale:
            self._store.threads.advance(tx, thread.profile, thread.session, chunk.reached, now)
        if stale or chunk.more:
            self._store.work.add(tx, KIND, thread.profile, thread.session, now)
        else:
            self._done = self._done + 1 if self._store.work.due(KIND, now) else 0

    def _erased(self, episodes: Sequence[str]) -> bool:
        """Whether one of these was erased while a model read it."""
        return not all(each.text for each in self._store.episodes.many(episodes).values())

    def _apply(self, tx: Connection, decision: Decision) -> tuple[str, str, str]:
        try:
            outcome = self._judge.apply(tx, decision)
        except Refused as error:
            return LEFT_OUT, error.message, ""
        return outcome.outcome, outcome.reason, outcome.id

    def _keep(
        self,
        tx: Connection,
        thread: Thread,
        settled: _Settled,
        outcome: str,
        reason: str,
        memory: str,
        now: Instant,
    ) -> None:
        draft = settled.checked.draft
        extraction = Extraction(
            thread.profile,
            thread.session,
            str(draft.kind),
            draft.what,
            outcome,
            reason,
            memory,
            settled.checked.episodes,
            now,
            settled.id,
        )
        self._store.threads.add(tx, [extraction])

    def _now(self) -> Instant:
        return instant(self._clock())


def _ask(chat: Chat, messages: Messages, chunk: Chunk) -> tuple[list[object], bool]:
    """The elements of an answer, and whether it was whole."""
    answer = chat.complete(messages, prompt.SCHEMA, purpose=KIND, sources=chunk.episodes, outer=prompt.READ)
    return list(answer.parsed["memories"]), answer.finish_reason != "length"


def ask_for_reading(
    store: Store, tx: Connection, call: HookCall, profile: str, at: Instant, quiet_seconds: float
) -> None:
    """Have a thread read once it is quiet; at once when its session ended or lost its context."""
    ended = call.moment == "session-end" or call.source == "compact"
    due = at if ended else instant(moment(at) + timedelta(seconds=quiet_seconds))
    if ended and not store.episodes.before(profile, call.session, _NEWEST, 1):
        return
    if call.cwd:
        store.threads.note(tx, profile, call.session, call.cwd)
    store.work.add(tx, KIND, profile, call.session, due)
