"""The pair of encoders in use: one for English questions, one for all others, each the other's substitute."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mnemo_mcp.errors import ModelError, SettingsError
from mnemo_mcp.models import embeddings
from mnemo_mcp.models.catalogue import KNOWN, described
from mnemo_mcp.models.cut import cut_question
from mnemo_mcp.models.encoder import Encoder
from mnemo_mcp.models.language import is_english
from mnemo_mcp.models.onnx import OnnxEncoder
from mnemo_mcp.models.options import MINILM, from_settings, minilm
from mnemo_mcp.models.use import USE, UseEncoder
from mnemo_mcp.settings import Encoders

OFF = "off"

Make = Callable[[], Encoder]


class EncoderPair:
    """Both encoders of the settings. Usable from any thread before, while and after `load` runs.

    Raises `SettingsError` for a name that is not known; whether the models are there, `load` finds out.
    """

    def __init__(
        self, settings: Encoders, folder: Path | None = None, shared: Mapping[str, Make] | None = None
    ) -> None:
        """`folder` holds the models that were fetched, each in a folder of its name.

        An encoder that is `shared` is taken from there, not loaded a second time.
        """
        self.settings = settings
        self._english, self._other = settings.english, settings.other
        self._make = {
            name: (shared or {}).get(name) or _maker(name, settings, folder) for name in self._wanted()
        }
        self._loaded: Mapping[str, Encoder] = {}
        self._failed: Mapping[str, ModelError] = {}
        self._lock = threading.RLock()

    def load(self) -> None:
        """Load what is not loaded yet; blocks, while the encoder loaded first already serves."""
        with self._lock:
            for name in self._make:
                with suppress(ModelError):
                    self.take(name)
            _one_thread()
            _give_memory_back()

    def take(self, name: str) -> Encoder:
        """One of the encoders, loaded where it is not yet. Raises `ModelError` where it cannot be."""
        with self._lock:
            if name in self._failed:
                raise self._failed[name]
            if name not in self._loaded:
                try:
                    self._loaded = {**self._loaded, name: self._make[name]()}
                except ModelError as error:
                    self._failed = {**self._failed, name: error}
                    raise
            return self._loaded[name]

    def readers(self) -> tuple[Encoder | None, Encoder | None]:
        """Who reads English questions and who all others, as far as they are loaded."""
        return self._reader(True), self._reader(False)

    def warm(self) -> None:
        """Let every encoder read a sentence, so that the first question finds memory and code in place."""
        for encoder in self.ready_encoders():
            encoder.encode(["Which port does the gateway listen on, and why was it moved?"], query=True)

    @property
    def ready(self) -> bool:
        """Whether loading has ended, well or not."""
        return all(name in self._loaded or name in self._failed for name in self._make)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Every encoder a memory needs a vector of; empty until loading has ended, so that none is missed."""
        return self.ready_encoders() if self.ready else ()

    def ready_encoders(self) -> tuple[Encoder, ...]:
        """The encoders that can be used at this moment."""
        loaded = self._loaded
        return tuple(loaded[name] for name in self._make if name in loaded)

    def for_question(self, text: str) -> Encoder | None:
        """The encoder to read `text` with; None while it loads, or when there is none.

        The other one stands in only where the right one is off or broken, not while it loads: the same
        question is to find the same.
        """
        return self._reader(is_english(cut_question(text)))

    def _reader(self, english: bool) -> Encoder | None:
        for name in (self._english, self._other) if english else (self._other, self._english):
            if name in self._loaded:
                return self._loaded[name]
            if name != OFF and name not in self._failed:
                return None
        return None

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be loaded, who serves in its place, and what to do about it."""
        serving = self.ready_encoders()
        return self._told(f"{serving[0].id} reads every question" if serving else "only words are searched")

    def _told(self, instead: str) -> tuple[str, ...]:
        failed = self._failed
        return tuple(
            f"The encoder {name} is not available, {instead}: {failed[name]}"
            for name in self._make
            if name in failed
        )

    def _wanted(self) -> list[str]:
        return [name for name in dict.fromkeys((self._english, self._other)) if name != OFF]


PACKAGED: Mapping[str, Make] = {
    MINILM: lambda: OnnxEncoder(MINILM, minilm(), fixed_id=True),
    USE: UseEncoder,
}


def _maker(name: str, settings: Encoders, folder: Path | None) -> Make:
    if name in PACKAGED:
        return PACKAGED[name]
    if (table := described(name, settings.onnx)) is not None:
        options = from_settings(name, table, folder)
        return lambda: OnnxEncoder(name, options)
    if name in settings.endpoint:
        address = embeddings.from_settings(name, settings.endpoint[name])
        return lambda: embeddings.EndpointEncoder(name, address)
    known = ", ".join([*PACKAGED, *settings.onnx, *settings.endpoint, *KNOWN, OFF])
    raise SettingsError(f"There is no encoder {name!r}.", f"Known are {known}.")


def _one_thread() -> None:
    """Let matrix products run on one thread.

    A question is small work: on two busy cores the second thread made a scan of 10,000 vectors 15 times
    slower (23 ms against 1.5, seen with `bench/warm_recall.py`).
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def _give_memory_back() -> None:
    """Loading leaves 64 MB of freed heap behind (MiniLM, glibc); other C libraries return it themselves."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
