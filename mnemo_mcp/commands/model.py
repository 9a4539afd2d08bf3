"""The command `mnemo model`: which encoders there are, fetching one, and choosing who reads what."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mnemo_mcp.commands.door import Commands, Failed, Result, command, show

if TYPE_CHECKING:
    from mnemo_mcp.models.catalogue import HubFile, HubModel
    from mnemo_mcp.settings import Settings

_DEFAULT = "default"
_BETWEEN_SECONDS = 0.2  # two tellings of progress, on a terminal
_BETWEEN_SHARE = 0.1  # and elsewhere


def add(commands: Commands) -> None:
    """Enter this command in the parser."""
    parser = commands.add_parser("model", help="encoders: list them, fetch one, choose one")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    command(actions, "list", _list, "encoders that can be used, and which are")
    command(actions, "fetch", _fetch, "bring a model's files here; the only download there is").add_argument(
        "name"
    )
    use = command(actions, "use", _use, "write into config.toml who reads questions")
    use.add_argument("name", help=f"an encoder, or {_DEFAULT!r} for the packaged pair")
    use.add_argument("--for", dest="reads", choices=("english", "other"), help="for these questions alone")


def _list(options: argparse.Namespace) -> None:
    with _told():
        settings = _settings()
        show(options, {"models": [*_models(settings)]}, _told_list)


def _fetch(options: argparse.Namespace) -> None:
    with _told():
        from mnemo_mcp.models.fetch import Hub, fetch, missing

        settings = _settings()
        model = _hub_model(options.name, settings)
        if model is None:
            raise Failed(f"{options.name!r} names no model that can be fetched. See `mnemo model list`.")
        progress = _Progress(model)
        try:
            fetch(model, Hub(settings.encoders.hub), settings.model_files, progress.tell)
        finally:
            progress.end()
        folder = settings.model_files / model.name
        result = {
            "name": model.name,
            "folder": str(folder),
            "bytes": model.bytes,
            "fetched": progress.fetched,
            "missing": [each.path for each in missing(model, settings.model_files)],
        }
        show(options, result, lambda told: f"{told['name']} is in {told['folder']}.")


def _use(options: argparse.Namespace) -> None:
    with _told():
        from mnemo_mcp.commands.config_file import set_values
        from mnemo_mcp.models.fetch import missing
        from mnemo_mcp.models.registry import EncoderPair
        from mnemo_mcp.settings import Encoders

        settings = _settings()
        packaged = Encoders()
        chosen = {"english": options.name, "other": options.name}
        if options.name == _DEFAULT:
            chosen = {"english": packaged.english, "other": packaged.other}
        if options.reads:
            chosen = {options.reads: chosen[options.reads]}
        described = Encoders(onnx=settings.encoders.onnx, endpoint=settings.encoders.endpoint, **chosen)
        EncoderPair(described, settings.model_files)  # names and descriptions that cannot be meant
        for name in chosen.values():
            model = _hub_model(name, settings)
            if model is not None and missing(model, settings.model_files):
                raise Failed(f"The files of {name} are not here. Run `mnemo model fetch {name}` first.")
        file = settings.home / "config.toml"
        set_values(file, "encoders", chosen)
        show(options, {**chosen, "file": str(file)}, _told_use)


def _models(settings: Settings) -> Iterator[dict[str, Any]]:
    from mnemo_mcp.models.catalogue import KNOWN
    from mnemo_mcp.models.fetch import missing
    from mnemo_mcp.settings import Encoders

    encoders, packaged = settings.encoders, Encoders()

    def entry(name: str, kind: str, there: bool, size: int = 0) -> dict[str, Any]:
        reads = [side for side in ("english", "other") if getattr(encoders, side) == name]
        return {"name": name, "kind": kind, "there": there, "bytes": size, "reads": reads}

    for name in (packaged.english, packaged.other):
        yield entry(name, "packaged", True)
    for name in dict.fromkeys([*encoders.onnx, *KNOWN]):
        if model := _hub_model(name, settings):
            yield entry(name, "hub", not missing(model, settings.model_files), model.bytes)
        else:
            yield entry(name, "onnx", _path(name, settings).is_file())
    for name in encoders.endpoint:
        yield entry(name, "endpoint", True)


def _hub_model(name: str, settings: Settings) -> HubModel | None:
    from mnemo_mcp.models.catalogue import described, hub_model

    table = described(name, settings.encoders.onnx)
    return None if table is None else hub_model(name, table)


def _path(name: str, settings: Settings) -> Any:
    from mnemo_mcp.models.options import from_settings

    return from_settings(name, settings.encoders.onnx[name], settings.model_files).path


def _settings() -> Settings:
    from mnemo_mcp import settings

    return settings.load()


@contextmanager
def _told() -> Iterator[None]:
    """What mnemo raises on purpose, as the failure of a command."""
    from mnemo_mcp.errors import MnemoError

    try:
        yield
    except MnemoError as error:
        raise Failed(str(error)) from None


class _Progress:
    """Tells on standard error how far a fetch is: on a terminal in one line, elsewhere every tenth."""

    def __init__(self, model: HubModel) -> None:
        self._model = model
        self._here: dict[str, int] = {}
        self.fetched = 0  # bytes that came in this run
        self._began = self._last = time.monotonic()
        self._share = 0.0
        self._live = sys.stderr.isatty()

    def tell(self, file: HubFile, here: int) -> None:
        self.fetched += max(0, here - self._here.get(file.path, here))
        self._here[file.path] = here
        now, share = time.monotonic(), here / file.bytes
        due = now - self._last > _BETWEEN_SECONDS if self._live else share - self._share >= _BETWEEN_SHARE
        if due or here == file.bytes:
            self._last, self._share = now, 0.0 if here == file.bytes else share
            self._line(file, here, now)

    def end(self) -> None:
        if self._live and self._here:
            print(file=sys.stderr)

    def _line(self, file: HubFile, here: int, now: float) -> None:
        speed = self.fetched / max(now - self._began, 1e-3)
        line = (
            f"{self._model.name}/{file.path}: {_size(here)} of {_size(file.bytes)}"
            f" ({here / file.bytes:.0%}), {_size(speed)}/s"
        )
        start, end = ("\r\x1b[K", "") if self._live else ("", "\n")
        print(start + line, end=end, file=sys.stderr, flush=True)


def _size(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"


def _told_list(result: Result) -> str:
    return "\n".join(map(_told_model, result["models"]))


def _told_model(model: Mapping[str, Any]) -> str:
    reads = " and ".join({"english": "English", "other": "other"}[side] for side in model["reads"])
    size = f", {_size(model['bytes'])}" if model["bytes"] else ""
    there = "" if model["there"] else ", not here yet"
    used = f"; reads {reads} questions" if reads else ""
    return f"{model['name']}: {model['kind']}{size}{there}{used}"


def _told_use(result: Result) -> str:
    sides = {"english": "English questions", "other": "All other questions"}
    lines = [f"{about}: {result[side]}" for side, about in sides.items() if side in result]
    return "\n".join([*lines, "It takes effect when the daemon starts again: `mnemo stop`."])
