"""A person with clients' configuration files in a home of their own."""

from __future__ import annotations

import io
import json
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from product import Product

from mnemo_mcp.cli import main
from mnemo_mcp.clients import ours

SETTINGS = """{
  "model": "opus",
  "permissions": {"allow": ["Bash(ls:*)"]},
  "hooks": {
    "SessionStart": [{"matcher": "compact", "hooks": [{"type": "command", "command": "echo one"}]}],
    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo two"}]}],
    "Stop": [{"hooks": [{"type": "command", "command": "echo three"}]}]
  },
  "futureKey": [1, 2.50, {"x": null}]
}
"""
CODEX = """# top comment
model = "x"   # inline

[mcp_servers.alpha]
command = "npx"
args = [ "-y", "alpha" ]  # keep
startup_timeout_sec = 30
future_unknown_key = "keep-me"

[mcp_servers.alpha.env]
K = '1'

# last comment, no newline at the end"""
PROMPT = {"session_id": "s-1", "cwd": "/home/dev/atlas", "prompt": "why does atlas use postgres?"}


class Person:
    """Somebody with clients, and a mnemo that they have not seen yet."""

    def __init__(self, product: Product) -> None:
        self.product, self.home = product, product.home
        product.environ["PATH"] = "/usr/bin:/bin"  # no client's own program
        del product.environ["MNEMO_HOME"]
        product.data = self.home / ".local/share/mnemo"

    def file(self, path: str, content: str | bytes) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def both(self) -> None:
        self.file(".claude/settings.json", SETTINGS)
        self.file(".codex/config.toml", CODEX)

    def run(self, *arguments: str) -> str:
        """What a command prints that goes well."""
        code, out, err = self._command(*arguments)
        assert (code, err) == (0, "")
        return out

    def refused(self, *arguments: str) -> str:
        """What a command says that fails; it changes no file of a client's."""
        before = self.files()
        code, _, err = self._command(*arguments)
        assert code == 1
        assert self.files() == before
        return err

    def _command(self, *arguments: str) -> tuple[int, str, str]:
        """In this process: a command's own start would be most of it."""
        mask = os.umask(0o022)
        out, err = io.StringIO(), io.StringIO()
        try:
            with (
                mock.patch.dict(os.environ, self.product.environ, clear=True),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                return main([*arguments]), out.getvalue(), err.getvalue()
        finally:
            os.umask(mask)

    def files(self) -> dict[str, bytes]:
        """Everything in the home but the memory's own folder."""
        return {
            str(each.relative_to(self.home)): each.read_bytes() if each.is_file() else b"/"
            for each in self.home.rglob("*")
            if not each.is_relative_to(self.home / ".local")
        }

    def command(self, client: str, event: str) -> str:
        """The command of our hook, as it stands in the client's file."""
        file = self.home / {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}[client]
        groups = json.loads(file.read_text("utf-8-sig"))["hooks"][event]
        [command] = [each["command"] for group in groups for each in group["hooks"] if ours.is_hook(each)]
        return str(command)

    def shell(self, command: str, payload: Any = PROMPT, **environ: str) -> bytes:
        """What a hook's command prints in a bare environment; it always ends well and quietly."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(payload).encode(),
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **environ},
            cwd=self.home,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout
