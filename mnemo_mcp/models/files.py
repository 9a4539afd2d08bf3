"""Files of models: where a package keeps them, and whether their bytes are the ones expected."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from mnemo_mcp.errors import ModelError

VOCABULARY = Path(__file__).with_name("vocabulary") / "bert-uncased.json"
VOCABULARY_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def package_folder(module: str, distribution: str) -> Path:
    """The folder of an installed package, which is not imported for it. Raises `ModelError`."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"The package {distribution} is not installed.",
            f"Run `pip install {distribution}` in the environment of mnemo.",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def checked(path: Path, expected: str | None = None) -> str:
    """The sha256 of a file. Raises `ModelError` when it cannot be read or is not the one expected."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({error.strerror}).",
            "Put the file there, or set the right path in config.toml.",
        ) from None
    if expected is not None and found != expected.lower():
        raise ModelError(
            f"{path} is not the file expected: its sha256 is {found}, not {expected}.",
            "Install or fetch it again.",
        )
    return found
