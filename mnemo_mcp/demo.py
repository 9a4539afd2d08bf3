"""`mnemo demo`: a proof on this machine. Stores a few memories in a throw-away folder and asks for them."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

_MEMORIES: tuple[Mapping[str, Any], ...] = (
    {
        "kind": "decision",
        "what": "The order service stores its data in PostgreSQL",
        "why": "Billing needs transactions over several tables",
        "how": "One schema a service, migrations with Alembic",
    },
    {
        "kind": "fact",
        "what": "The gateway gives up on a request after 600 s",
        "why": "The load balancer cut long exports at 120 s",
        "how": "timeout_sec in lb.tf",
    },
    {
        "kind": "preference",
        "what": "Commit messages are written in the imperative and name no ticket",
        "why": "The tracker links commits by itself",
    },
    {
        "kind": "procedure",
        "what": "A release is rolled back by promoting the previous image again",
        "how": "make promote TAG=<previous>, then watch the error rate for ten minutes",
    },
    {
        "kind": "state",
        "what": "Staging runs without the message queue",
        "why": "Its disk is being replaced",
    },
)
_QUESTIONS = (
    "Why does the order service use PostgreSQL?",
    "¿Por qué la pasarela espera 600 segundos?",
    "How do we roll back a release?",
)
_EXPECTED = (0, 1, 3)


def main() -> int:
    """0 when each question finds its memory first, 1 otherwise."""
    with tempfile.TemporaryDirectory(prefix="mnemo-demo-") as folder:
        print("Loading the encoders ...", flush=True)
        with Service.open(settings=Settings(home=Path(folder) / "data")) as service:
            return _show(service)


def _show(service: Service) -> int:
    ids = [service.remember(**claim).id for claim in _MEMORIES]
    print(f"{len(ids)} memories stored.\n")
    right = 0
    for question, expected in zip(_QUESTIONS, _EXPECTED, strict=True):
        began = time.perf_counter()
        answer = service.recall(question, limit=1)
        took = (time.perf_counter() - began) * 1000
        first = answer.memories[0].memory if answer.memories else None
        right += first is not None and first.id == ids[expected]
        print(f"? {question}\n  {first.claim.text() if first else 'nothing'}  ({took:.0f} ms)")
    payload = {"session_id": "demo", "hook_event_name": "UserPromptSubmit", "prompt": _QUESTIONS[0]}
    said = service.hook("claude", "pre-message", json.dumps(payload).encode())
    block = json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else "(nothing)"
    print(f"\nInjected before the message {_QUESTIONS[0]!r}:\n{block}")
    print(f"\n{right} of {len(_QUESTIONS)} questions found their memory first.")
    return 0 if right == len(_QUESTIONS) and said else 1
