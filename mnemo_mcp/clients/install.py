"""Installing into clients and taking it back: all is looked at first, then written file by file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemo_mcp.clients import claude, codex
from mnemo_mcp.clients.catalog import BY_NAME, CLIENTS, Client, Part, Places
from mnemo_mcp.clients.doubt import Doubt
from mnemo_mcp.clients.files import Backups, Change, apply, change, content_of, decoded, resolved
from mnemo_mcp.clients.launcher import Launcher
from mnemo_mcp.clients.toml_entries import TomlTrust
from mnemo_mcp.errors import Refused


@dataclass(frozen=True, slots=True)
class Done:
    """What was done for a client in one place, or would be: `did` is one word, `diff` the exact edit."""

    client: str
    where: str
    did: str
    diff: str = ""
    backup: str = ""


class Installer:
    """Installs into one person's clients the mnemo of one data folder."""

    def __init__(self, data: Path, places: Places) -> None:
        self._places = places
        self.launcher = Launcher(data)
        self._backups = Backups(data / "backups/clients")

    def found(self) -> list[Client]:
        """The clients that are in use here."""
        return [client for client in CLIENTS if client.is_here(self._places)]

    def install(self, names: Sequence[str], *, dry_run: bool = False) -> list[Done]:
        """Add mnemo to clients. Whatever cannot be added stops all of it before anything is written."""
        plugged = self._plugs() if "claude" in names else None
        if "codex" in names and codex.is_plugged(self._parts("codex")[0].path):
            raise Refused(
                "Codex has mnemo as a plugin already; installed twice it would say everything twice.",
                "Run `codex plugin remove mnemo@mnemo` first, or leave it as it is.",
            )
        adding = [
            (name, part) for name in names if not (name == "claude" and plugged) for part in self._parts(name)
        ]
        taking = [("claude", part) for part in self._parts("claude")] if plugged else []
        planned = [self._planned(name, part, adding=True) for name, part in adding]
        planned += [self._planned(name, part, adding=False) for name, part in taking]
        if dry_run:
            return [*([self._plug_told(plugged, "to add")] if plugged else []), *planned]
        self.launcher.place()
        done = [self._plug(plugged)] if plugged else []
        if plugged and done[0].did == "refused":  # then by its files
            return [*done, *(self._done("claude", part, adding=True) for part in self._parts("claude"))]
        done += [self._done(name, part, adding=False) for name, part in taking]
        return [*done, *(self._done(name, part, adding=True) for name, part in adding)]

    def trust(self) -> list[Done]:
        """Note the person's trust in our hooks where Codex looks for it. Raises `Refused`."""
        config, hooks = (part.path for part in self._parts("codex"))
        part = Part(config, TomlTrust(codex.asked(self._places, hooks)))
        return [self._done("codex", part, adding=True)]

    def uninstall(self, names: Sequence[str], *, dry_run: bool = False) -> Iterator[Done | Refused]:
        """Take mnemo out of clients, of each as far as it goes."""
        for name in names:
            yield from self._unplugged(dry_run) if name == "claude" else ()
            for part in self._leaving(name):
                try:
                    yield (self._planned if dry_run else self._done)(name, part, adding=False)
                except Refused as refused:
                    yield refused
            if not dry_run:
                self._settle(name)

    def retire(self) -> None:
        """Let what open sessions still start do nothing."""
        self.launcher.retire()

    # one file

    def _parts(self, name: str) -> Sequence[Part]:
        return BY_NAME[name].parts(self._places, self.launcher)

    def _leaving(self, name: str) -> Iterator[Part]:
        """The files that may hold anything of ours, trust first: its keys name the hooks."""
        parts = [part for part in self._parts(name) if b"mnemo" in (content_of(resolved(part.path)) or b"")]
        if name == "codex":
            config, hooks = (part.path for part in self._parts(name))
            try:
                keys = {hook.key: hook.digest for hook in codex.declared(hooks)}
            except Refused:
                keys = {}  # it cannot be read, which is told when it is its turn
            if keys and content_of(resolved(config)) is not None:
                yield Part(config, TomlTrust(keys))
        yield from parts

    def _settle(self, name: str) -> None:
        """Forget what files were before once they hold nothing of ours."""
        for part in self._parts(name):
            target = resolved(part.path)
            if b"mnemo" not in (content_of(target) or b""):
                self._backups.done(target)

    def _planned(self, name: str, part: Part, *, adding: bool) -> Done:
        planned = change(part.path, part.entries, self._backups, adding=adding)
        return self._told(name, planned, _what(planned, adding, done=False))

    def _done(self, name: str, part: Part, *, adding: bool) -> Done:
        made = apply(part.path, part.entries, self._backups, adding=adding)
        if made is None:
            made = Change(resolved(part.path), None, None)
        return self._told(name, made, _what(made, adding, done=True))

    def _told(self, name: str, made: Change, did: str) -> Done:
        first = self._backups.first(made.path)
        backup = str(first) if made.before is not None and first.exists() else ""
        return Done(name, str(made.path), did, _diff(made), backup)

    # the plugin of Claude Code

    def _plugs(self) -> claude.Plugins | str | None:
        """How the plugin is handled: by the client's program, or as it is there already; None by files."""
        if claude.is_plugged(self._settings()):
            return "already there"
        program, folder = self._places.has("claude"), claude.marketplace()
        return claude.Plugins(program, self._places) if program and folder else None

    def _settings(self) -> Path:
        return self._places.moved("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"

    def _is_traced(self) -> bool:
        """Whether the client's settings name our plugin or its marketplace. Raises `Refused`."""
        settings = resolved(self._settings())
        content = content_of(settings)
        try:
            return b"mnemo" in (content or b"") and claude.Traces().holds(decoded(content)[0])
        except Doubt as doubt:
            raise doubt.in_file(settings) from None

    def _plug(self, how: claude.Plugins | str) -> Done:
        folder = claude.marketplace()
        if isinstance(how, str) or folder is None:
            return self._plug_told(how, "already there")
        settings = resolved(self._settings())
        if not self._is_traced():
            self._backups.keep(settings, content_of(settings))
        trouble = how.install(folder)
        return self._plug_told(how, "refused" if trouble else "added", trouble)

    def _plug_told(self, how: claude.Plugins | str, did: str, trouble: str = "") -> Done:
        commands = (
            f"claude plugin marketplace add '{claude.marketplace()}'\nclaude plugin install {claude.PLUGIN}\n"
        )
        if isinstance(how, str):
            return Done("claude", f"plugin {claude.PLUGIN}", "already there")
        return Done("claude", f"plugin {claude.PLUGIN}", did, trouble or commands)

    def _unplugged(self, dry_run: bool) -> Iterator[Done | Refused]:
        settings, program = self._settings(), self._places.has("claude")
        try:
            if not self._is_traced():
                return
            if dry_run:
                yield Done("claude", f"plugin {claude.PLUGIN}", "to remove")
                return
            if program:
                claude.Plugins(program, self._places).uninstall()
            apply(settings, claude.Traces(), self._backups, adding=False)
            yield Done("claude", f"plugin {claude.PLUGIN}", "removed")
        except Refused as refused:
            yield refused


def _what(made: Change, adding: bool, *, done: bool) -> str:
    if made.before == made.after:
        return "already there" if adding else "not there"
    if adding:
        return "added" if done else "to add"
    return "removed" if done else "to remove"


def _diff(made: Change) -> str:
    """The edit as lines; a byte order mark is passed over."""
    before, after = (decoded(each)[0] or "" for each in (made.before, made.after))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        str(made.path) if made.before is not None else "/dev/null",
        str(made.path) if made.after is not None else "/dev/null",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
