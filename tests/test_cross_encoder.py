"""The cross-encoder's process: what it scores, and that no trouble with it costs more than its scores."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from product import ROOT, alive, until
from tiny_onnx import tiny_model

from mnemo_mcp.models import cross_encoder_child
from mnemo_mcp.models.cross_encoder import CrossEncoder, Limits, blended, configured
from mnemo_mcp.settings import Recall, Settings

PATIENCE = 60.0  # seconds for a process that imports onnxruntime on a busy machine
WORDS = ("[PAD]", "[UNK]", "low", "middle", "high", "asked")
SCORES = np.array([[-9], [-5], [1], [2], [3], [0]], np.float32)
QUICK = Limits(wait=0.02, wait_most=0.05)

Make = Callable[..., CrossEncoder]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose score is the highest of its words'."""
    tiny_model(tmp_path / "model", vectors=SCORES, words=WORDS)
    return tmp_path / "model"


@pytest.fixture
def make(tmp_path: Path, model: Path) -> Iterator[Make]:
    made: list[CrossEncoder] = []

    def new(limits: Limits = QUICK, script: str = "", folder: Path = model) -> CrossEncoder:
        """With `script`, this Python program stands in for the real one."""
        command = (sys.executable, "-I", "-c", PRELUDE + script) if script else ()
        made.append(CrossEncoder(folder, tmp_path / "lock", limits, command))
        return made[-1]

    yield new
    for each in made:
        each.close()


PRELUDE = """
import json, os, sys, time
def say(**line): print(json.dumps(line), flush=True)
"""


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def ready(encoder: CrossEncoder) -> CrossEncoder:
    encoder.start()
    until(lambda: encoder.ready or bool(encoder.problem), PATIENCE)
    assert encoder.problem == ""
    return encoder


def pid(encoder: CrossEncoder) -> int:
    assert encoder._child is not None
    return encoder._child.pid


# What it gives


def test_every_text_has_its_score(make: Make) -> None:
    encoder = ready(make())
    texts = ["low", "high and low", "middle", "nothing of it", ""] * 9
    assert encoder.rerank("asked", texts, soon()) == [1, 3, 2, 0, 0] * 9
    assert encoder.rerank("high", ["low"], soon()) == [3]
    assert encoder.rerank("asked", [], soon()) == []


def test_any_text_is_scored(make: Make) -> None:
    encoder = ready(make())
    odd = ["\ud800 high", "high\0", "[SEP] [CLS]", "high\n\n", "x" * 100_000, "low " * 50_000]
    assert encoder.rerank("asked \udfff\0", odd, soon()) == [3, 3, 0, 3, 0, 1]
    assert encoder.rerank("asked " * 10_000, ["high"], soon()) is not None


def test_threads_take_turns(make: Make) -> None:
    encoder = ready(make())
    texts = [["low"], ["middle", "high"], ["high", "low", "middle"]] * 60
    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda each: encoder.rerank("asked", each, soon()), texts))
    assert found == [[1], [2, 3], [3, 1, 2]] * 60


def test_the_process_loads_nothing_of_mnemo() -> None:
    tree = ast.parse(Path(cross_encoder_child.__file__).read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {(node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) for node in nodes}
    assert {str(each).partition(".")[0] for each in modules} - set(sys.stdlib_module_names) == {
        "numpy",
        "onnxruntime",
        "tokenizers",
    }


def test_it_is_off_unless_a_folder_is_set(tmp_path: Path) -> None:
    assert configured(Settings(tmp_path)) is None
    relative = configured(Settings(tmp_path, recall=Recall(cross_encoder="judge")))
    assert relative is not None
    assert str(tmp_path / "models" / "judge") in relative._command
    assert not relative.ready


# Blending


def test_both_orders_are_blended() -> None:
    assert blended([2.0, -2.0, 0.0], [0.5, 1.0, 0.25]) == [0.875, 0.25, 0.4375]
    assert blended([2.0, -2.0, 0.0], [0.5, 1.0, 0.25], about_time=True) == [0.75, 0.5, 0.375]


def test_scores_that_are_all_alike_leave_the_order_to_the_fused_ones() -> None:
    assert blended([1.0, 1.0, 1.0], [0.2, 0.4, 0.1]) == [0.125, 0.25, 0.0625]
    assert blended([1.0], [0.0]) == [0.0]
    assert blended([], []) == []


# Not ready, not in time


def test_nobody_waits_while_it_loads(make: Make) -> None:
    encoder = make(script="time.sleep(60)")
    began = time.monotonic()
    assert encoder.rerank("asked", ["high"], soon()) is None
    assert time.monotonic() - began < 5
    assert not encoder.ready
    assert encoder.problem == ""


def test_a_deadline_holds(make: Make) -> None:
    encoder = ready(make(script="say(ready=True); sys.stdin.readline(); time.sleep(60)"))
    began = time.monotonic()
    assert encoder.rerank("asked", ["high"], soon(0.2)) is None
    assert encoder.rerank("asked", ["high"], soon(0.2)) is None
    assert encoder.rerank("asked", ["high"], soon(-1)) is None
    assert time.monotonic() - began < 5


def test_loading_that_takes_too_long_is_ended(make: Make) -> None:
    limits = Limits(wait=0.02, wait_most=0.02, loading=0.3, attempts=2)
    encoder = make(limits, "time.sleep(60)")
    encoder.start()
    until(lambda: encoder._broken)
    assert "was not loaded within 0.3 s" in encoder.problem
    assert encoder.rerank("asked", ["high"], soon()) is None
    until(lambda: encoder._supervisor is None)


def test_a_late_answer_is_not_taken_for_the_next_one(make: Make) -> None:
    script = """
say(ready=True)
first = json.loads(sys.stdin.readline())
time.sleep(0.6)
say(id=first["id"], scores=[1.0])
second = json.loads(sys.stdin.readline())
say(id=first["id"], scores=[1.0])
say(id=second["id"], scores=[2.0])
time.sleep(60)
"""
    encoder = ready(make(script=script))
    assert encoder.rerank("asked", ["high"], soon(0.1)) is None
    assert encoder.rerank("asked", ["high"], soon()) == [2.0]


@pytest.mark.parametrize(
    "scores", ["null", "[]", "[1.0]", "[1.0, 2.0, 3.0]", '[1.0, "2"]', "[1.0, NaN]", "[true, 1.0]", "{}"]
)
def test_an_answer_without_a_score_for_each_text_is_none(make: Make, scores: str) -> None:
    script = f"""
say(ready=True)
for line in sys.stdin:
    print('{{"id": %d, "done": true, "scores": {scores}}}' % json.loads(line)["id"], flush=True)
"""
    encoder = ready(make(script=script))
    assert encoder.rerank("asked", ["high", "low"], soon()) is None
    assert "no score for each text" in encoder.problem
    assert encoder.ready


def test_noise_on_its_output_is_passed_over(make: Make) -> None:
    script = """
print("loading...", "[1]", "{", "null", '{"id": null}', '{"id": 1, "scores": [9.0]}', sep="\\n", flush=True)
say(ready=True)
for line in sys.stdin:
    os.write(1, b"warning: \\xff\\n")
    say(id=json.loads(line)["id"], scores=[1.0])
"""
    assert ready(make(script=script)).rerank("asked", ["high"], soon()) == [1.0]


def test_what_a_library_prints_is_no_answer(make: Make, model: Path) -> None:
    script = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("child", {str(cross_encoder_child.__file__)!r})
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
real = child.Model.scores
def noisy(self, question, texts):
    os.write(1, b'{{"id": 1, "scores": [7.0]}}')
    print("noise", flush=True)
    return real(self, question, texts)
child.Model.scores = noisy
sys.argv = ["child", {str(model)!r}]
child.main()
"""
    assert ready(make(script=script)).rerank("asked", ["high"], soon()) == [3.0]


def test_endless_output_is_ended(make: Make) -> None:
    encoder = make(Limits(attempts=1), "\nwhile True: os.write(1, b'x' * 65536)")
    encoder.start()
    until(lambda: encoder._broken)
    assert "says too much" in encoder.problem


# Its end


def test_a_model_that_cannot_be_loaded_is_tried_once(make: Make, tmp_path: Path) -> None:
    encoder = make(folder=tmp_path / "nowhere")
    encoder.start()
    until(lambda: bool(encoder.problem), PATIENCE)
    assert "tokenizer.json" in encoder.problem
    assert encoder._failures == 1
    assert encoder.rerank("asked", ["high"], soon()) is None
    until(lambda: encoder._supervisor is None)
    assert encoder._child is None


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_damaged_files_are_tried_once(make: Make, model: Path, name: str) -> None:
    (model / name).write_bytes(b"\xff not a model")
    encoder = make()
    encoder.start()
    until(lambda: bool(encoder.problem), PATIENCE)
    assert encoder._broken


def test_a_process_killed_in_mid_answer_begins_anew(make: Make) -> None:
    encoder = ready(make())
    first = pid(encoder)
    os.kill(first, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(encoder.rerank, "asked", ["high"], soon())
        until(lambda: encoder._sent_at is not None)
        os.kill(first, signal.SIGKILL)
        assert asked.result(PATIENCE) is None
    until(lambda: encoder.ready, PATIENCE)
    assert encoder.rerank("asked", ["high"], soon()) == [3]
    assert pid(encoder) != first
    assert encoder.problem == ""


def test_a_process_that_keeps_ending_is_given_up(make: Make, tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"open({str(count)!r}, 'a').write('x'); say(ready=True); os._exit(7)"
    encoder = make(Limits(wait=0.01, wait_most=0.02, attempts=4), script)
    encoder.start()
    until(lambda: encoder._broken)
    until(lambda: encoder._supervisor is None)
    assert "exit code 7" in encoder.problem
    assert count.read_text() == "xxxx"
    encoder.start()
    assert encoder._supervisor is None


def test_waits_grow_up_to_their_most(make: Make) -> None:
    encoder = make(Limits(attempts=99))
    assert [encoder._failed("x") for _ in range(7)] == [3, 6, 9, 12, 15, 15, 15]


def test_a_stuck_process_is_replaced(make: Make) -> None:
    encoder = ready(make(Limits(wait=0.02, wait_most=0.05, request=0.3)))
    first = pid(encoder)
    os.kill(first, signal.SIGSTOP)
    began = time.monotonic()
    assert encoder.rerank("asked", ["x" * 4_000] * 200, soon()) is None
    assert time.monotonic() - began < 10
    until(lambda: not alive(first), PATIENCE)
    until(lambda: encoder.ready, PATIENCE)
    assert encoder.rerank("asked", ["high"], soon()) == [3]


def test_it_begins_anew_after_so_many_requests(make: Make) -> None:
    encoder = ready(make(Limits(requests=3)))
    first = pid(encoder)
    for _ in range(3):
        assert encoder.rerank("asked", ["high"], soon()) == [3]
    until(lambda: not alive(first), PATIENCE)
    until(lambda: encoder.ready, PATIENCE)
    assert encoder.rerank("asked", ["low"], soon()) == [1]
    assert encoder.problem == ""


def test_it_ends_when_idle_and_begins_again_when_asked(make: Make) -> None:
    encoder = ready(make(Limits(idle=1.0)))
    first = pid(encoder)
    until(lambda: not alive(first), PATIENCE)
    assert not encoder.ready
    assert encoder.problem == ""
    until(lambda: encoder._supervisor is None)
    assert encoder.rerank("asked", ["high"], soon()) is None
    until(lambda: encoder.rerank("asked", ["high"], soon()) == [3], PATIENCE)


def test_one_worker_a_machine(make: Make) -> None:
    first = ready(make())
    second = make()
    second.start()
    until(lambda: bool(second.problem))
    assert "another mnemo" in second.problem
    assert second.rerank("asked", ["high"], soon()) is None
    first.close()
    until(lambda: second.ready, PATIENCE)
    assert second.problem == ""
    assert second.rerank("asked", ["high"], soon()) == [3]


def test_two_that_start_at_once_run_one(make: Make) -> None:
    both = [make(), make()]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda each: each.start(), both))
    until(lambda: any(each.ready for each in both), PATIENCE)
    until(lambda: any(each.problem for each in both), PATIENCE)
    assert sorted(each.ready for each in both) == [False, True]


@pytest.mark.parametrize("when", ["loading", "ready", "deaf"])
def test_closing_leaves_no_process(make: Make, when: str) -> None:
    deaf = "import signal; say(ready=True); time.sleep(600)"
    encoder = make(script=deaf) if when == "deaf" else make()
    encoder.start()
    until(lambda: encoder._child is not None)
    process = pid(encoder)
    if when != "loading":
        until(lambda: encoder.ready, PATIENCE)
    encoder.close()
    until(lambda: not alive(process), PATIENCE)
    assert encoder.rerank("asked", ["high"], soon()) is None
    assert encoder._child is None


@pytest.mark.parametrize("when", ["loading", "ready"])
def test_killing_the_parent_leaves_no_process(model: Path, tmp_path: Path, when: str) -> None:
    code = f"""
import time
from pathlib import Path
from mnemo_mcp.models.cross_encoder import CrossEncoder
encoder = CrossEncoder(Path({str(model)!r}), Path({str(tmp_path / "lock")!r}))
encoder.start()
while encoder._child is None or {when == "ready"} and not encoder.ready:
    time.sleep(0.01)
print(encoder._child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
    finally:
        parent.kill()
        parent.communicate()
    until(lambda: not alive(child), PATIENCE)
