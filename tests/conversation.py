"""Conversations through the hooks' own door, read by a scripted model at a time that a test sets."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from desk import ATLAS, OFF, StillClock
from openai_server import Answer, ModelServer, Request, says

from mnemo_mcp.ledger.threads import Extraction
from mnemo_mcp.memory import Memory, Status, instant
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Endpoint, Models, Settings

USER, ASSISTANT = "user", "assistant"
GATEWAY = "Gateway timeout is now 600 s because the LB cut streams at 120 s."
_LINE = re.compile(
    r"^\[(\d+)\] (person|assistant|tool output|[a-z ]+), ([^:]+:\d\d [+-]\d\d:\d\d): ", re.MULTILINE
)


def memory(what: str, *episodes: int, kind: str = "fact", **parts: Any) -> dict[str, Any]:
    """A memory in the shape that a model is asked for; without numbers it cites the first line."""
    empty = dict.fromkeys(("why", "how", "who", "where", "when", "until"), "")
    given = {"what": what, **empty, "kind": kind, "entities": [], "episodes": list(episodes or (1,))}
    return {**given, **parts}


def answers(*memories: Mapping[str, Any]) -> str:
    return json.dumps({"memories": list(memories)}, ensure_ascii=False)


def lines_in(request: Request) -> dict[int, tuple[str, str]]:
    """The lines a request shows: by number who said it and what."""
    text = request.body["messages"][1]["content"]
    found = list(_LINE.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return {
        int(each[1]): (each[2], text[each.end() : end].strip()) for each, end in zip(found, ends, strict=True)
    }


def number_of(request: Request, part: str) -> int:
    """The number of the last line that holds a text."""
    return next(number for number, (_, text) in reversed(lines_in(request).items()) if part in text)


Script = Mapping[str, Callable[[Request], Iterable[Mapping[str, Any]]] | Iterable[Mapping[str, Any]]]


def scripted(script: Script) -> Answer:
    """A model that answers by what it is shown: for each text it finds, the memories of that."""

    def answer(request: Request) -> Any:
        shown = "\n".join(text for _, text in lines_in(request).values())
        found: list[Mapping[str, Any]] = []
        for part, given in script.items():
            if part in shown:
                found += given(request) if callable(given) else given
        return says(answers(*found))

    return answer


class Conversation:
    """One person's service, a model's server behind it, and what is said in its sessions."""

    def __init__(
        self,
        home: Path,
        server: ModelServer | None,
        *,
        zone: str = "UTC",
        vectors: bool = False,
        decisions: bool = False,
        at: datetime | None = None,
        **endpoint: Any,
    ) -> None:
        self.home = home
        self.clock = StillClock()
        if at is not None:
            self.clock.now = at
        self.server = server
        self.zone = zone
        self._vectors, self._decisions, self._endpoint = vectors, decisions, endpoint
        self._turns = itertools.count(1)
        self.service = self._open()

    def _open(self) -> Service:
        models = Models()
        if self.server is not None:
            described = Endpoint(**{"timeout_seconds": 5.0, **self.server.settings(), **self._endpoint})
            models = Models(
                endpoint={"lm": described},
                extraction="lm",
                decisions="lm" if self._decisions else "",
                decisions_api="openai",
            )
        settings = Settings(
            home=self.home / "data",
            zone=self.zone,
            models=models,
            encoders=Encoders() if self._vectors else OFF,
            transcript_roots=(str(self.home / ".claude/projects"),),
        )
        return Service.open(clock=self.clock, settings=settings)

    def again(self) -> None:
        """As after a restart."""
        self.service.close()
        self.service = self._open()

    def later(self, **span: float) -> None:
        self.clock.now += timedelta(**span)

    def hook(self, moment: str, session: str, **fields: Any) -> str:
        events = {"pre-message": "UserPromptSubmit", "turn-end": "Stop", "session-end": "SessionEnd"}
        payload = {
            "session_id": session,
            "cwd": ATLAS,
            "hook_event_name": events.get(moment, "SessionStart"),
            **fields,
        }
        return self.service.hook("claude", moment, json.dumps(payload).encode())

    def say(self, *lines: tuple[str, str], session: str = "s-1", **fields: Any) -> None:
        """What is said one after the other, some seconds apart: a person's line opens a turn."""
        turn = f"t-{next(self._turns)}"
        for who, text in lines:
            self.later(seconds=5)
            if who == USER:
                turn = f"t-{next(self._turns)}"
                self.hook("pre-message", session, prompt=text, prompt_id=turn, **fields)
            else:
                self.hook("turn-end", session, last_assistant_message=text, prompt_id=turn, **fields)

    def read(self, **span: float) -> None:
        """Let threads become quiet and have them read."""
        self.later(**(span or {"minutes": 3}))
        while self.service.tasks.work_off("distil"):
            pass

    @property
    def memories(self) -> list[Memory]:
        """Every memory that stands, oldest first."""
        found = self.service.store.truth.changed_since(0)[1]
        return [each for each in found if not each.retracted and not each.merged_into and not each.erased]

    @property
    def whats(self) -> list[str]:
        return [each.claim.what for each in self.memories]

    @property
    def current(self) -> list[str]:
        now = instant(self.clock())
        return [each.claim.what for each in self.memories if each.status(now) is Status.CURRENT]

    @property
    def extractions(self) -> list[Extraction]:
        return self.service.store.threads.extractions("personal")

    @property
    def reasons(self) -> dict[str, str]:
        """Why claims were left out."""
        return {each.what: each.reason for each in self.extractions if not each.memory}

    def sources(self, found: Memory) -> list[str]:
        """The texts a memory cites."""
        episodes = self.service.store.episodes.many(found.episodes)
        return [episodes[name].text for name in found.episodes]

    def close(self) -> None:
        self.service.close()


Talk = Callable[..., Conversation]
"""Opens a conversation whose model answers as told."""

CLAIM = memory("The gateway timeout is 600 s.", why="The LB cut streams at 120 s.", kind="fact")
ONE = json.dumps(CLAIM)


def calls(conversation: Conversation) -> int:
    assert conversation.server is not None
    return len(conversation.server.asked())
