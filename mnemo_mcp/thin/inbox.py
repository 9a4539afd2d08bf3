"""The inbox folder: payloads that no daemon took in time, each in a file until the next one does."""

# ruff: noqa: PTH104, PTH123

import os

from . import link

FOLDER = "inbox"


def name_of(delivery: str, client: str, moment: str, profile: str) -> str:
    """The file name of a payload. Names sort by arrival; a profile, if any, follows an @ in hexadecimal."""
    mark = f"@{os.fsencode(profile).hex()}" if profile else ""
    return f"{delivery}-{client}-{moment}{mark}.json"


def read_name(name: str) -> "tuple[int, str, str, str] | None":
    """Received (ns since the epoch), client, moment, profile ("" if none); None for any other name."""
    stem, _, profile = name.removesuffix(".json").partition("@")
    parts = stem.split("-", 3)
    if not name.endswith(".json") or len(parts) != 4 or not (parts[0] + parts[1]).isdecimal():
        return None
    try:
        return int(parts[0]), parts[2], parts[3], bytes.fromhex(profile).decode("utf-8", "replace")
    except ValueError:
        return None


def keep(data: str, name: str, payload: bytes) -> None:
    """Put a payload into the inbox, on disk when this returns; readers see a whole file or none."""
    folder = link.private_folder(data, FOLDER)
    path = f"{folder}/{name}"
    unfinished = f"{path}.tmp"
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
