"""Two files of one folder change places in one step: whoever does that sees exactly what was there before."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_HERE = -100  # AT_FDCWD
_SWAP = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS


def exchange(first: Path, second: Path) -> bool:
    """Let two files change places. False, with nothing done, where the system or the disk cannot."""
    system = ctypes.CDLL(None)
    names = os.fsencode(first), os.fsencode(second)
    try:
        if sys.platform == "darwin":
            return bool(system.renamex_np(*names, _SWAP) == 0)
        return bool(system.renameat2(_HERE, names[0], _HERE, names[1], _SWAP) == 0)
    except AttributeError:  # an older system library
        return False
