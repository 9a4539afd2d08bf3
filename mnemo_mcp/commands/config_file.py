"""A value in a person's config.toml is changed in its place: their comments and their order stay."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemo_mcp.errors import SettingsError


def set_values(file: Path, table: str, values: Mapping[str, str]) -> None:
    """Set texts in one table of `file`, which need not be there yet.

    Raises `SettingsError` where the file cannot be read, or leaves no place for them as it is written.
    """
    try:
        text = file.read_bytes().decode() if file.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.", "Mend or remove the file.") from None
    written = _with(text, table, values)
    wanted = {**before, table: {**before.get(table, {}), **values}}
    if _read(written) != wanted:
        lines = _lines(values)
        raise SettingsError(
            f"[{table}] of {file} is written in a way that cannot be changed from here.",
            f"Set it there yourself: {'; '.join(lines.values())}.",
        )
    _replace(file, written)


def _with(text: str, table: str, values: Mapping[str, str]) -> str:
    lines = text.removesuffix("\n").split("\n") if text else []
    start = next((at for at, line in enumerate(lines) if _is_header(line, table)), None)
    new, ending = _lines(values), "\r" if "\r\n" in text else ""
    if start is None:
        fresh = [*([""] if lines else []), f"[{table}]", *new.values()]
        return "\n".join([*lines, *(line + ending for line in fresh)]) + "\n"
    end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    for at in range(start + 1, end):
        for key in list(new):
            if found := re.match(
                rf"""(\s*["']?{re.escape(key)}["']?\s*=\s*)("[^"]*"|'[^']*')(.*)""", lines[at]
            ):
                lines[at] = f"{found[1]}{new.pop(key).partition(' = ')[2]}{found[3]}"
    fresh = [line + ending for line in new.values()]
    return "\n".join([*lines[: start + 1], *fresh, *lines[start + 1 :]]) + "\n"


def _is_header(line: str, table: str) -> bool:
    return re.fullmatch(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?", line) is not None


def _lines(values: Mapping[str, str]) -> dict[str, str]:
    import tomli_w

    return {key: tomli_w.dumps({key: value}).rstrip("\n") for key, value in values.items()}


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _replace(file: Path, text: str) -> None:
    """Whole or not at all; where the file is a link, what it leads to is changed."""
    target = file.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        fresh.write_bytes(text.encode())
        fresh.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o600)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise SettingsError(f"{file} cannot be written ({error.strerror}).", "See to the folder.") from None
