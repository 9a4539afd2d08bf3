"""The launcher that clients start: one file in the data folder, whose path outlives every update."""

from __future__ import annotations

import shlex
from pathlib import Path

from mnemo_mcp.clients.files import content_of, write
from mnemo_mcp.thin import link

_SOURCE = Path(__file__).with_name("mnemo-run")


class Launcher:
    """The launcher of one data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.path = data / "run/mnemo-run"

    @property
    def server(self) -> tuple[str, ...]:
        """The command line of the MCP server."""
        return "/bin/sh", str(self.path), "mcp"

    def hook(self, client: str, moment: str) -> str:
        """What a client's shell runs at a moment; without the launcher nothing, and that successfully."""
        path = shlex.quote(str(self.path))
        return f"test ! -r {path} || /bin/sh {path} hook {client} {moment}"

    def place(self) -> None:
        """Put it where clients find it, and note which Python serves them."""
        folder = Path(link.private_folder(str(self._data), "run"))
        (folder.parent / link.UNINSTALLED).unlink(missing_ok=True)
        if content_of(self.path) != _SOURCE.read_bytes():
            write(self.path, _SOURCE.read_bytes(), 0o700)
        link.write_pointer(str(self._data))

    def retire(self) -> None:
        """Leave it in place for sessions that are still open, and let it do nothing from here on."""
        run = self._data / "run"
        if run.is_dir():
            (self._data / link.UNINSTALLED).touch(mode=0o600)
            (run / "launch").unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
