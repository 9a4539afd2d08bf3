"""A change of encoders: until the new ones have all vectors, the ones that served before read questions.

Which ones served is kept beside the models; where that is not known, the vectors there are tell it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mnemo_mcp.errors import SettingsError
from mnemo_mcp.models.catalogue import KNOWN, described
from mnemo_mcp.models.encoder import Encoder
from mnemo_mcp.models.options import MINILM
from mnemo_mcp.models.registry import OFF, PACKAGED, EncoderPair, Make
from mnemo_mcp.models.use import USE
from mnemo_mcp.settings import Encoders

_log = logging.getLogger("mnemo")


@dataclass(frozen=True, slots=True)
class Served:
    """Two encoders that have all vectors: what makes them, and the ids of their vectors."""

    english: str
    other: str
    tables: Mapping[str, Mapping[str, Any]]
    english_id: str
    other_id: str

    def settings(self, now: Encoders) -> Encoders:
        """The settings that make them again."""
        kinds: dict[str, dict[str, Mapping[str, Any]]] = {"onnx": {}, "endpoint": {}}
        for name, table in self.tables.items():
            kinds["endpoint" if "url" in table else "onnx"][name] = table
        return Encoders(self.english, self.other, **kinds, hub=now.hub)

    @property
    def ids(self) -> tuple[str, str]:
        return self.english_id, self.other_id


class MovingPair(EncoderPair):
    """The encoders of the settings, and while they lack vectors those that served before.

    `load` first brings back the former ones. Where that fails nobody reads questions until `arrive`: words
    alone answer, and `problems` say why.
    """

    def __init__(self, settings: Encoders, folder: Path) -> None:
        super().__init__(settings, folder)
        self._record = folder / "serving.json"
        self._folder = folder
        self._served: Served | None = None
        self._former: EncoderPair | None = None
        self._gone = ""  # why the former ones cannot be had again
        self._moving = False

    def begin(self, held: Sequence[str]) -> None:
        """Find out who served before; `held` are the ids of all encoders there are vectors of."""
        self._served = _served(self._record, self.settings, held) if self._make else None
        if self._served is not None:
            before, settings = self._served.settings(self.settings), self.settings
            self._moving = _makers(before) != _makers(settings)
            self._former = self._made_again(before) if self._moving else None

    def load(self) -> None:
        if self._former is not None and self._served is not None:
            self._former.load()
            self._check(self._former, self._served)
        super().load()
        self._decide()

    @property
    def moving(self) -> bool:
        """Whether the former encoders still serve, or would."""
        return self._moving

    @property
    def coming(self) -> tuple[Encoder, ...]:
        """The encoders of the settings."""
        return super().ready_encoders()

    @property
    def ready(self) -> bool:
        former = self._former
        return super().ready and (former is None or former.ready)

    def serving(self) -> tuple[Encoder, ...]:
        """The encoders that read questions."""
        former = self._former
        if not self._moving:
            return super().ready_encoders()
        return former.ready_encoders() if former else ()

    def ready_encoders(self) -> tuple[Encoder, ...]:
        both = {encoder.id: encoder for encoder in (*self.serving(), *super().ready_encoders())}
        return tuple(both.values())

    def for_question(self, text: str) -> Encoder | None:
        former = self._former  # read first: another thread may arrive meanwhile
        if not self._moving:
            return super().for_question(text)
        return former.for_question(text) if former else None

    def arrive(self) -> None:
        """The encoders of the settings have all their vectors: from now on they read questions."""
        self._moving, self._former, self._gone = False, None, ""
        self._keep()

    @property
    def whole(self) -> bool:
        """Whether every encoder of the settings is loaded, so that it may take over."""
        return super().ready and bool(self._loaded) and not self._failed

    @property
    def route(self) -> str:
        """From which encoders to which; empty where nothing moves."""
        if not self._moving or self._served is None:
            return ""
        to = _named(each.id for each in self.coming) or _named(self._make)
        return f"from {_named(self._served.ids)} to {to}"

    @property
    def problems(self) -> tuple[str, ...]:
        if not self._moving:
            return super().problems
        former, serving = self._former, _named(each.id for each in self.serving())
        told = self._told(f"questions are still read by {serving}" if serving else "only words are searched")
        gone = f"Words alone answer until the new encoder has all its vectors: {self._gone}"
        return (*([gone] if self._gone else ()), *(former.problems if former else ()), *told)

    def _made_again(self, before: Encoders) -> EncoderPair | None:
        own, theirs = _makers(self.settings), _makers(before)
        shared: dict[str, Make] = {
            name: partial(self.take, name) for name in theirs if name in own and own[name] == theirs[name]
        }
        try:
            return EncoderPair(before, self._folder, shared)
        except SettingsError as error:
            self._gone = str(error)
            return None

    def _check(self, former: EncoderPair, served: Served) -> None:
        """Let the former ones go if they are not the ones that made the vectors: files may be replaced."""
        found = {each.id if each else "" for each in former.readers()}
        if not found <= set(served.ids):
            self._gone = " ".join(former.problems) or f"{_named(served.ids)} cannot be loaded any more."
            self._former = None

    def _decide(self) -> None:
        """Loaded, an encoder may turn out to be the same under other settings, or another under the same."""
        if self._served is None:
            self._keep()
            return
        pairs = zip(self.readers(), self._served.ids, strict=True)
        others = [encoder for encoder, before in pairs if encoder is not None and encoder.id != before]
        if not others and self.whole:
            self.arrive()
        elif others and not self._moving and self.whole:
            self._moving = True
            self._gone = f"{_named(self._served.ids)} cannot be loaded any more: its files are others now."

    def _keep(self) -> None:
        """Note who serves. Without the note, the vectors there are would tell."""
        english, other = self.readers()
        if not self.whole or english is None or other is None:
            return
        tables = {
            name: dict(table) for name in self._make if (table := _table(name, self.settings)) is not None
        }
        served = Served(self._english, self._other, tables, english.id, other.id)
        if served == self._served:
            return
        self._served = served
        fresh = self._record.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(json.dumps(asdict(served), indent=1), "utf-8")
            fresh.chmod(0o600)
            fresh.replace(self._record)
        except OSError as error:
            _log.warning("who reads questions cannot be noted in %s: %s", self._record, error)


def _served(record: Path, settings: Encoders, held: Sequence[str]) -> Served | None:
    """Who served before, as far as there are vectors of theirs."""
    if not held:
        return None
    noted = _noted(record)
    if noted is not None and set(noted.ids) & set(held):
        return noted
    if all(_id_of(name, held) for name in _makers(settings)):
        return None
    names = [*PACKAGED, *settings.onnx, *settings.endpoint, *KNOWN]
    found = {name: encoder for name in names if (encoder := _id_of(name, held))}
    if not found:
        return Served(OFF, OFF, {}, held[0], held[0])
    english = MINILM if MINILM in found else next(iter(found))
    other = USE if USE in found else next((name for name in found if name != MINILM), english)
    tables = {name: table for name in (english, other) if (table := _table(name, settings)) is not None}
    return Served(english, other, tables, found[english], found[other])


def _noted(record: Path) -> Served | None:
    try:
        match json.loads(record.read_text("utf-8")):
            case {
                "english": str(english),
                "other": str(other),
                "tables": dict(tables),
                "english_id": str(english_id),
                "other_id": str(other_id),
            }:
                return Served(english, other, tables, english_id, other_id)
    except (OSError, ValueError):
        pass
    return None


def _makers(settings: Encoders) -> dict[str, Mapping[str, Any] | None]:
    """The names in use and what describes them: equal ones make equal encoders."""
    return {name: _table(name, settings) for name in (settings.english, settings.other) if name != OFF}


def _table(name: str, settings: Encoders) -> Mapping[str, Any] | None:
    if name in PACKAGED:
        return None
    found = described(name, settings.onnx)
    return settings.endpoint.get(name) if found is None else found


def _id_of(name: str, held: Iterable[str]) -> str:
    """The id among `held` that an encoder of this name gave its vectors; "" where there is none."""
    return next((each for each in held if each == name or each.startswith(f"{name}-")), "")


def _named(ids: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(each for each in ids if each))
