"""Checkpoints on disk: one folder each, complete or not there at all, never pickle.

``step-00000200/`` holds ``state.safetensors``, ``state.json`` and ``manifest.json`` with the size and SHA-256 of both.
It is written under another name, synced and renamed, so that a folder of that name is whole unless the disk damages it
later, which the manifest shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import safetensors.torch
from pydantic import Field
from safetensors import SafetensorError
from torch import Tensor

from residapt.errors import ModelError, ResidaptError
from residapt.settings import Settings

S = TypeVar("S", bound=Settings)

TENSORS, RECORD, MANIFEST = "state.safetensors", "state.json", "manifest.json"
TEMPORARY = ".tmp-"
LARGEST_JSON = 64_000_000
"""Bytes; a larger file is not one of ours."""


class CheckpointLength(Settings):
    """How many steps a training has, as :class:`residapt.train.length.Length` says it."""

    steps: int = Field(ge=0)
    """Number of the last step."""
    since: int = Field(ge=0)
    """The step after which that was last changed."""
    done: float = Field(ge=0, le=1)
    """Progress after that step."""


class CheckpointRecord(Settings):
    """``state.json``: everything in a checkpoint that is no tensor."""

    format: Literal["residapt-checkpoint"] = "residapt-checkpoint"
    """What kind of file this is."""
    format_version: Literal[1] = 1
    """Version of the format."""
    step: int = Field(ge=0)
    """Completed steps."""
    method: str
    """Name of the method."""
    train: dict[str, Any]
    """Settings of the loop."""
    optimizer: dict[str, dict[str, bool | int | float | None]] = {}
    """What the optimiser remembers that is no tensor, by parameter."""
    scaler: dict[str, int | float] = {}
    """Loss scale of fp16."""
    length: CheckpointLength
    """How many steps there are."""
    callbacks: dict[str, dict[str, Any]] = {}
    """Values of the callbacks, by name."""
    recovery: dict[str, Any]
    """How often the training went back after it had diverged, and what it needs to do so again."""
    paired: bool | None = None
    """Whether one call of the network serves both streams; None before the first step."""


class FileRecord(Settings):
    """One file of a checkpoint."""

    bytes: int = Field(ge=0)
    """Its size."""
    sha256: str
    """Its hash."""


class Manifest(Settings):
    """``manifest.json``."""

    files: dict[str, FileRecord]
    """The other files of the folder."""


def folder_of(directory: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return directory / f"step-{step:08d}"


def steps_in(directory: Path) -> list[int]:
    """Steps of which there is a checkpoint, whole or damaged, newest first."""
    names = [entry.name for entry in directory.glob("step-*") if entry.is_dir()] if directory.is_dir() else []
    return sorted((int(name[5:]) for name in names if name[5:].isdecimal()), reverse=True)


def write_checkpoint_folder(folder: Path, record: CheckpointRecord, tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint, whole or not at all; raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    temporary.mkdir()
    try:
        _save_tensors(temporary / TENSORS, tensors)
        (temporary / RECORD).write_text(record.model_dump_json(), encoding="utf-8")
        manifest = Manifest(files={name: _describe(temporary / name) for name in (TENSORS, RECORD)})
        (temporary / MANIFEST).write_text(manifest.model_dump_json(), encoding="utf-8")
        for name in (TENSORS, RECORD, MANIFEST):
            _sync(temporary / name)
        _sync_folder(temporary)
        if folder.exists():
            remove_folder(folder)
        os.rename(temporary, folder)
        _sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_folder(folder: Path) -> tuple[CheckpointRecord, dict[str, Tensor]]:
    """The content of a checkpoint, or a ModelError that says what is wrong with it."""
    check_folder(folder)
    record = _parse(CheckpointRecord, folder / RECORD)
    if folder_of(folder.parent, record.step) != folder:
        raise ModelError(f"'{folder / RECORD}' is of step {record.step}, which is not what its folder is called.")
    try:
        return record, dict(safetensors.torch.load_file(folder / TENSORS))
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"'{folder / TENSORS}' is not a valid safetensors file: {error}.") from None


def check_folder(folder: Path) -> None:
    """Reject a checkpoint with a file that is missing, cut short or changed."""
    manifest = _parse(Manifest, folder / MANIFEST)
    if set(manifest.files) != {TENSORS, RECORD}:
        raise ModelError(f"'{folder / MANIFEST}' does not list the files of a checkpoint.")
    for name, listed in manifest.files.items():
        try:
            found = _describe(folder / name)
        except OSError as error:
            raise ModelError(f"'{folder / name}' cannot be read: {error.strerror}.") from None
        if found != listed:
            what = f"{found.bytes} bytes instead of {listed.bytes}" if found.bytes != listed.bytes else "other content"
            raise ModelError(f"'{folder / name}' is damaged: it has {what}.")


def remove_folder(folder: Path) -> None:
    """Take a checkpoint away; it loses its name first, so that a half removed one is never read."""
    aside = folder.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_unfinished_checkpoints(directory: Path) -> None:
    """Take away what an earlier process left when it was killed while it wrote."""
    for entry in directory.glob(f"{TEMPORARY}*"):
        shutil.rmtree(entry, ignore_errors=True)


def _save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        # The format has no shared storage: a tied weight is written under each of its names.
        plain[name] = own.clone() if own.untyped_storage().data_ptr() in seen else own
        seen.add(own.untyped_storage().data_ptr())
    try:
        safetensors.torch.save_file(plain, file)
    except SafetensorError as error:
        raise OSError(None, _reason(file, error)) from None


def _reason(file: Path, error: SafetensorError) -> str:
    """What the system said; the library wraps it in words of its own."""
    free = shutil.disk_usage(file.parent).free
    return "no space left on the device" if free < 1_000_000 or "code: 28" in str(error) else str(error)


def _describe(file: Path) -> FileRecord:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return FileRecord(bytes=size, sha256=digest.hexdigest())


def _parse(kind: type[S], file: Path) -> S:
    """The record in a JSON file, or a ModelError."""
    content = _read_json(file)
    try:
        return kind.parse(content, where=str(file))
    except ResidaptError as error:
        raise ModelError(str(error)) from None


def _read_json(file: Path) -> Any:
    try:
        if file.stat().st_size > LARGEST_JSON:
            raise ModelError(f"'{file}' has {file.stat().st_size} bytes and is not a file of a checkpoint.")
        return json.loads(file.read_bytes())
    except OSError as error:
        raise ModelError(f"'{file}' cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"'{file}' cannot be read as JSON: {error}.") from None


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can sync folders; the files themselves are safe by now
        _sync(folder)
