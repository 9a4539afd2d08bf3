"""The processes of one product seen from outside: which there are, what they use, where they listen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from product import Product, alive

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc")


def processes(product: Product) -> dict[int, str]:
    """The command of every living process of a product, by its id."""
    mark = f"MNEMO_HOME={product.data}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            environ, command = _read(folder / "environ"), _read(folder / "cmdline")
            if mark in environ.split(b"\0") and alive(int(folder.name)):
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def daemons(product: Product) -> list[int]:
    """The daemons among them; one that finds the folder owned lives for a moment too."""
    return [pid for pid, command in processes(product).items() if " mnemo_mcp.daemon" in command]


def cpu_seconds(pid: int) -> float:
    """The processor time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def listening(pid: int) -> list[str]:
    """The TCP addresses a process listens on, as /proc writes them."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    found = []
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1])
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # it ended meanwhile, or belongs to somebody else
