"""A queue and a model's server to work it off with."""

from __future__ import annotations

import json
from datetime import timedelta

from language_models import BEGIN

from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import instant

ONE = json.dumps({"memories": [{"what": "The gateway listens on port 8443"}]})
NOW = instant(BEGIN)


def after(seconds: float) -> str:
    return instant(BEGIN + timedelta(seconds=seconds))


def add(store: Store, *subjects: str, kind: str = "distil", due: str = NOW) -> None:
    with store.write() as tx:
        for subject in subjects:
            store.work.add(tx, kind, "personal", subject, due)
