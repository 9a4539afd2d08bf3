"""The hooks' log: one line for each kind of trouble, never a word of a payload."""

import os
import time

from . import link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME = "hooks.log"
SILENT_SECONDS = 600  # the same trouble is told again after these
TAIL_BYTES = 4096


def note(arguments: "list[str]", environ: "Mapping[str, str]", trouble: str) -> None:
    """Append one line, unless the same trouble was told a short while ago."""
    for folder in folders(environ):
        try:
            _append(folder, " ".join(arguments), trouble)
        except OSError:
            continue
        return


def note_fault(arguments: "list[str]", environ: "Mapping[str, str]", fault: BaseException) -> None:
    """Append one line about a fault of ours: its kind and place, for its text may quote a payload."""
    place = fault.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f" in {place.tb_frame.f_code.co_name}, line {place.tb_lineno}" if place else ""
    note(arguments, environ, f"unexpected {type(fault).__name__}{where}")


def folders(environ: "Mapping[str, str]") -> "Iterator[str]":
    """Where the log may be: in the data folder, or among the user's state where that one is out of use."""
    for place in (_in_data, _in_state):
        try:
            yield place(environ)
        except link.Unreachable:
            continue


def _in_data(environ: "Mapping[str, str]") -> str:
    return f"{link.data_folder(environ)}/log"


def _in_state(environ: "Mapping[str, str]") -> str:
    return link.user_folder(environ, "XDG_STATE_HOME", ".local/state", "Library/Logs")


def _append(folder: str, who: str, trouble: str) -> None:
    parent, _, name = folder.rpartition("/")
    link.private_folder(parent, name)
    file = os.open(f"{folder}/{NAME}", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        length = os.fstat(file).st_size
        told = os.pread(file, TAIL_BYTES, max(length - TAIL_BYTES, 0)).decode("utf-8", "replace")
        now = time.time()
        if not _told_since(told, _stamp(now - SILENT_SECONDS), trouble):
            os.write(file, f"{_stamp(now)} {who}: {trouble}\n".encode("utf-8", "replace"))
    finally:
        os.close(file)


def _stamp(instant: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(instant))


def _told_since(told: str, since: str, trouble: str) -> bool:
    return any(line >= since and line.endswith(f": {trouble}") for line in told.splitlines())
