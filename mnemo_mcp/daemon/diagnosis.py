"""Why no daemon answers: what one would meet as it starts, looked at in this process."""

from __future__ import annotations

from mnemo_mcp import settings as configuration
from mnemo_mcp.errors import MnemoError, StoreBusy
from mnemo_mcp.ledger.folder import Ownership, prepare
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.times import system_clock


def cause(trouble: str) -> str:
    """What keeps a daemon from serving, with what to do; `trouble` is what its caller saw."""
    try:
        settings = configuration.load()
        prepare(settings.home)
        ownership = Ownership(settings.home)
        try:
            if settings.database.exists():
                Store(settings.database, system_clock()).close()
        finally:
            ownership.release()
    except StoreBusy as error:
        return f"The daemon does not answer ({trouble}). {error}"
    except MnemoError as error:
        return str(error)
    return f"No daemon answers ({trouble}). See {settings.log / 'daemon.log'}, and try again."
