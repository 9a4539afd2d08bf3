"""The hook script, `hook.py CLIENT MOMENT`: whatever happens it ends well and says nothing of its own."""

import os
import sys
import time

if not __package__:  # run by its path: then `thin` is a package of its own, spared mnemo_mcp's imports
    sys.path.append(__file__.rsplit("/", 2)[0])
    __package__ = "thin"


def main(arguments: "list[str]") -> None:
    """Serve one moment of a client. A fault of ours becomes a line in the log, never one of the client's."""
    began = time.monotonic()
    os.umask(0o077)  # also for the folders above ours, where those are missing
    try:
        from . import moments  # here, so that a damaged installation is silent as well

        moments.serve(arguments, os.environ, began)
    except BaseException as fault:  # noqa: BLE001  the one place where anything at all may arrive
        from . import hooklog

        hooklog.note_fault(arguments, os.environ, fault)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)
