"""Models that can be fetched: where from, which files, and that their bytes are the ones meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mnemo_mcp.errors import SettingsError

KNOWN: Mapping[str, Mapping[str, Any]] = {
    "embeddinggemma-2": {
        "repo": "onnx-community/embeddinggemma-2-ONNX",
        "revision": "daa72c51243991dfcaf9f9137d2c573d8f7790c0",
        "files": [
            {
                "path": "tokenizer.json",
                "bytes": 32_170_510,
                "sha256": "4d777ef5bdc1aa36227abdfb77c3e49e7b9c892d16e1b6bda41c393504828be4",
            },
            {
                "path": "onnx/model_quantized.onnx",
                "bytes": 495_165,
                "sha256": "d06edd601f851c633a2519304cbeb8dc6170d7ceb61b436625c17fb9b6e74953",
            },
            {
                "path": "onnx/model_quantized.onnx_data",
                "bytes": 313_724_928,
                "sha256": "278a7ff1248c3618e4bd11a607fc54f7bdc7778854230f3956d3f86bd9db4f3b",
            },
        ],
        "path": "onnx/model_quantized.onnx",
        "tokenizer": "tokenizer.json",
        "pooling": "sentence_embedding",
        "dims": 768,
        "max_tokens": 512,
        "bos_id": 2,
        "eos_id": 1,
        "query_prefix": "task: search result | query: ",
        "document_prefix": "title: none | text: ",
    },
}
"""Descriptions of ONNX encoders, in the form of `[encoders.onnx.<name>]` in config.toml."""

SOURCE = ("repo", "revision", "files")
"""The settings that tell where a model is fetched from; the others tell how it is used."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a model: its path in the repository, and what its bytes must be."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model at the hub."""

    name: str
    repo: str
    revision: str
    files: tuple[HubFile, ...]

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.files)

    def url(self, hub: str, file: HubFile) -> str:
        return f"{hub.rstrip('/')}/{self.repo}/resolve/{self.revision}/{file.path}"


def described(name: str, onnx: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """How an ONNX encoder is described: in the settings, else here; None where nowhere."""
    return onnx.get(name, KNOWN.get(name))


def hub_model(name: str, table: Mapping[str, Any]) -> HubModel | None:
    """Where the encoder described by `table` is fetched from; None where that is not told.

    Raises `SettingsError` for a description that cannot be meant.
    """
    if not any(key in table for key in SOURCE):
        return None
    where = f"encoders.onnx.{name}"
    files = table.get("files")
    if not all(table.get(key) for key in SOURCE) or not isinstance(files, list):
        raise SettingsError(f"{where} is not whole.", f"Set all of {', '.join(SOURCE)}.")
    model = HubModel(name, table["repo"], table["revision"], tuple(_file(where, each) for each in files))
    for part in (name, model.repo, model.revision):
        _check_inside(where, part)
    return model


def place(folder: Path, name: str, path: str) -> Path:
    """Where a file of a model lies. Raises `SettingsError` for a path that leads out of its folder."""
    _check_inside(f"encoders.onnx.{name}", path)
    return folder / name / path


def _file(where: str, entry: Any) -> HubFile:
    match entry:
        case {"path": str(path), "bytes": int(size), "sha256": str(digest), **rest} if not rest:
            if size > 0 and len(digest) == 64:
                _check_inside(where, path)
                return HubFile(path, size, digest.lower())
    raise SettingsError(
        f"{where}.files holds {entry!r}.",
        "Each file is a table of `path`, `bytes` and `sha256` (64 digits).",
    )


def _check_inside(where: str, path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or any(part in ("..", ".") for part in parts):
        raise SettingsError(f"{where} holds the path {path!r}.", "It must stay inside its folder.")
