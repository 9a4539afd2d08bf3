"""The cross-encoder: reads question and text together, in a process of its own that nobody waits for.

Off unless a folder with a model is set. All trouble ends alike: no scores, and the order stays as it was.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import platformdirs

from mnemo_mcp.settings import Settings, expanded

_CHILD = Path(__file__).with_name("cross_encoder_child.py")
_MOST_BYTES = 1 << 20  # of a line from the child
_TOLD_BYTES = 2_000  # kept of what it says on standard error
_TEXT_CHARACTERS = 4_000
_FAREWELL_SECONDS = 2.0  # after the end of its input a process is killed
_WEIGHT, _WEIGHT_IN_TIME = 0.75, 0.5


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds, and how often they are tried."""

    request: float = 15.0
    loading: float = 90.0
    idle: float = 1_800.0
    wait: float = 3.0  # before the second try; so much more before each further one
    wait_most: float = 15.0
    attempts: int = 5
    requests: int = 500  # after so many the process begins anew


def configured(settings: Settings) -> CrossEncoder | None:
    """The cross-encoder of the settings, not started; None where it is off, as it is by default."""
    if not settings.recall.cross_encoder:
        return None
    folder = settings.model_files / expanded(settings.recall.cross_encoder)  # an absolute path stays as it is
    return CrossEncoder(folder, platformdirs.user_cache_path("mnemo", appauthor=False) / "cross-encoder.lock")


def blended(scores: Sequence[float], fused: Sequence[float], *, about_time: bool = False) -> list[float]:
    """One score of both: `scores` of the cross-encoder count more, but for questions about a time.

    Where they are all alike they say nothing, and the fused ones alone make the order.
    """
    weight = _WEIGHT_IN_TIME if about_time else _WEIGHT
    least, span = min(scores, default=0.0), max(scores, default=0.0) - min(scores, default=0.0)
    most = max(fused, default=0.0)
    return [
        weight * ((score - least) / span if span > 0 else 0.0)
        + (1 - weight) * (before / most if most > 0 else 0.0)
        for score, before in zip(scores, fused, strict=True)
    ]


class CrossEncoder:
    """The parent's side. Usable from any thread; starting it, and starting it again, happens behind."""

    def __init__(
        self,
        folder: Path,
        lock: Path,
        limits: Limits | None = None,
        command: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` holds model.onnx and tokenizer.json. Who holds `lock` runs the one worker of a machine."""
        self._lock_file = lock
        self._limits = limits or Limits()
        self._command = command or (sys.executable, "-I", str(_CHILD), str(folder))
        self._clock = clock
        self._changed = threading.Condition()  # held wherever what follows is changed
        self._supervisor: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None  # that may be asked
        self._ready = self._closed = self._broken = False
        self._ended_for: str | None = None  # why the process was ended from here; "" as it should be
        self._number = self._answered = self._failures = 0
        self._sent_at: float | None = None  # when the request that is out was sent
        self._used_at = self._ended_at = 0.0
        self._waiting: set[int] = set()  # numbers of requests whose askers have not gone away
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._trouble = ""

    @property
    def ready(self) -> bool:
        """Whether a question asked now would be scored."""
        return self._ready

    @property
    def problem(self) -> str:
        """Why it gives no scores, in words; empty where it does or is only loading."""
        return f"The cross-encoder gives no scores: {self._trouble}" if self._trouble else ""

    def start(self) -> None:
        """Let the process begin, if none runs; returns at once."""
        with self._changed:
            self._used_at = self._clock()
            if self._supervisor is None and not self._closed and not self._broken:
                self._supervisor = threading.Thread(target=self._supervise, name="cross-encoder", daemon=True)
                self._supervisor.start()

    def rerank(self, question: str, texts: Sequence[str], deadline: float) -> list[float] | None:
        """A score for each text, or None: not ready, not in time, or no usable answer.

        `deadline` is an instant of the clock.
        """
        if not texts:
            return []
        self.start()
        until = min(deadline, self._clock() + self._limits.request)
        with self._changed:
            number = self._send(question, texts, until)
            if number is None:
                return None
            self._waiting.add(number)
            self._changed.wait_for(lambda: number in self._answers or not self._ready, until - self._clock())
            self._waiting.discard(number)
            answer = self._answers.pop(number, None)
            if answer is None:
                self._kill_if_stuck()
                return None
            scores = _scores(answer, len(texts))
            self._trouble = "" if scores is not None else _told_of(answer)
            self._failures = 0 if scores is not None else self._failures
            return scores

    def close(self) -> None:
        """End the process and wait for it."""
        with self._changed:
            supervisor, child = self._supervisor, self._child
            self._closed = True
            self._end("")
        if supervisor is not None:
            supervisor.join(_FAREWELL_SECONDS)
            if supervisor.is_alive() and child is not None:
                child.kill()
            supervisor.join(_FAREWELL_SECONDS)

    def _send(self, question: str, texts: Sequence[str], until: float) -> int | None:
        """Send a request once the one before is answered; its number."""
        self._kill_if_stuck()
        if not self._changed.wait_for(
            lambda: self._sent_at is None or not self._ready, until - self._clock()
        ):
            return None
        child = self._child
        if not self._ready or child is None or child.stdin is None:
            return None
        self._number += 1
        cut = [text[:_TEXT_CHARACTERS] for text in texts]
        request = {"id": self._number, "question": question[:_TEXT_CHARACTERS], "texts": cut}
        if not _written(child.stdin, json.dumps(request).encode() + b"\n", until - self._clock()):
            self._kill("it takes no question in.")
            return None
        self._sent_at = self._clock()
        return self._number

    def _supervise(self) -> None:
        """One process after another, until idle, closed or broken."""
        while True:
            pause = self._once()
            with self._changed:
                if pause is not None:
                    self._changed.wait_for(lambda: self._closed or self._broken, pause)
                if pause is None or self._closed or self._broken:
                    self._supervisor = None
                    return

    def _once(self) -> float | None:
        """Run one process to its end; seconds until the next one is due, None where none is wanted."""
        try:
            self._lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self._lock_file.open("a")
        except OSError as error:
            return self._failed(f"{self._lock_file} cannot be used ({error.strerror}).")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._trouble = "another mnemo on this machine runs it."
                return None if self._is_idle() else self._limits.wait_most
            child = self._begun()
            if child is None:
                return self._failed("its process cannot be started.")
            told = self._follow(child)
            _dispose(child)
            return self._after(child, told)

    def _begun(self) -> subprocess.Popen[bytes] | None:
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
            )
        except OSError:
            return None
        with self._changed:
            self._child, self._answered, self._sent_at, self._ended_for = child, 0, None, None
            if self._closed:
                self._end("")
        return child

    def _after(self, child: subprocess.Popen[bytes], told: str) -> float | None:
        """What follows on the end of a process."""
        with self._changed:
            was_ready, ended_for = self._ready, self._ended_for
            self._ready, self._child, self._sent_at = False, None, None
            self._changed.notify_all()
        if ended_for == "":
            return None if self._closed or self._is_idle() else 0.0
        if ended_for:
            return self._failed(ended_for)
        if child.returncode == 1 and not was_ready:
            self._broken = True  # what cannot be loaded once cannot be loaded again
            return self._failed(told or "the model cannot be loaded.")
        return self._failed(f"its process ended ({_ending(child.returncode)}).")

    def _failed(self, trouble: str) -> float:
        self._trouble = trouble
        self._failures += 1
        self._broken = self._broken or self._failures >= self._limits.attempts
        return min(self._limits.wait * self._failures, self._limits.wait_most)

    def _follow(self, child: subprocess.Popen[bytes]) -> str:
        """Take in what a process says until it ends; the last line of what it said on standard error."""
        loading_until = self._clock() + self._limits.loading
        told, line = b"", b""
        streams = [stream for stream in (child.stdout, child.stderr) if stream is not None]
        while child.stdout in streams:
            for stream in select.select(streams, [], [], self._patience(loading_until))[0]:
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    streams.remove(stream)
                elif stream is child.stderr:
                    told = (told + chunk)[-_TOLD_BYTES:]
                else:
                    *lines, line = (line + chunk).split(b"\n")
                    for each in lines:
                        self._take(each)
            with self._changed:
                self._look_at_the_clock(child, loading_until)
                if len(line) > _MOST_BYTES:
                    self._kill("it says too much.")
        if child.stderr in streams and child.stderr is not None:
            told += child.stderr.read(_TOLD_BYTES) or b""
        rest = told.decode("utf-8", "replace").strip().splitlines()
        return rest[-1][:300] if rest else ""

    def _patience(self, loading_until: float) -> float:
        """Seconds until something is due even if the process says nothing."""
        if self._ended_for is not None:
            return _FAREWELL_SECONDS
        until = self._used_at + self._limits.idle if self._ready else loading_until
        return max(0.01, until - self._clock())

    def _look_at_the_clock(self, child: subprocess.Popen[bytes], loading_until: float) -> None:
        if self._ended_for is not None:
            if self._clock() - self._ended_at > _FAREWELL_SECONDS:
                child.kill()
        elif not self._ready:
            if self._clock() > loading_until:
                self._kill(f"it was not loaded within {self._limits.loading:g} s.")
        elif self._is_idle() or self._answered >= self._limits.requests:
            self._end("")

    def _take(self, line: bytes) -> None:
        """One line of the process. What is no answer to the request that is out is passed over."""
        try:
            said = json.loads(line)
        except ValueError:
            return
        if not isinstance(said, dict):
            return
        with self._changed:
            if said.get("ready") is True and self._child is not None:
                self._ready, self._trouble = True, ""
            elif said.get("id") == self._number and self._sent_at is not None:
                if self._number in self._waiting:
                    self._answers[self._number] = said
                self._answered += 1
                self._sent_at = None
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return self._clock() - self._used_at >= self._limits.idle

    def _kill_if_stuck(self) -> None:
        if self._sent_at is not None and self._clock() - self._sent_at >= self._limits.request:
            self._kill(f"it did not answer within {self._limits.request:g} s.")

    def _end(self, trouble: str) -> None:
        """Let the process end by itself: the end of its input is the end of its life."""
        child, self._child, self._ready = self._child, None, False
        self._ended_for, self._ended_at = trouble, self._clock()
        if child is not None and child.stdin is not None:
            child.stdin.close()
        self._changed.notify_all()

    def _kill(self, trouble: str) -> None:
        child = self._child
        self._end(trouble)
        if child is not None:
            child.kill()


def _written(pipe: IO[bytes], data: bytes, seconds: float) -> bool:
    """Whether all of `data` went into a pipe in time; a process that has stopped takes nothing."""
    until = time.monotonic() + seconds
    os.set_blocking(pipe.fileno(), False)
    rest = memoryview(data)
    while rest:
        if not select.select([], [pipe], [], max(0.0, until - time.monotonic()))[1]:
            return False
        try:
            rest = rest[os.write(pipe.fileno(), rest) :]
        except OSError:
            return False
    return True


def _dispose(child: subprocess.Popen[bytes]) -> None:
    """Collect a process that has closed its output, and let go of its pipes."""
    try:
        child.wait(_FAREWELL_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _scores(answer: Mapping[str, Any], count: int) -> list[float] | None:
    """The scores of an answer, if there is a finite one for each text."""
    scores = answer.get("scores")
    if not isinstance(scores, list) or len(scores) != count:
        return None
    if not all(type(score) in (int, float) and math.isfinite(score) for score in scores):
        return None
    return [float(score) for score in scores]


def _told_of(answer: Mapping[str, Any]) -> str:
    return str(answer.get("error") or "its answer holds no score for each text.")[:300]


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
