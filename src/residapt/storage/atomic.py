"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from residapt.errors import ConfigError


@contextmanager
def atomic_file(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well, and else is removed.

    An existing file, or a place that cannot be written, is rejected before the block begins.
    """
    refuse_existing(path, overwrite=overwrite)
    temporary = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield temporary
        temporary.chmod(mode)  # some writers put a private file in its place
        _sync(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, in a new folder at once; in an existing one they are replaced one by one, in order."""
    temporary = _beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, content in files.items():
            (temporary / name).write_bytes(content)
            _sync(temporary / name)
        _sync(temporary)
        _move_into_place(temporary, folder, files)
        _sync(folder.parent)
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Reject an output that is there already, unless it may be overwritten; never overwrite a folder."""
    if path.is_dir():
        raise ConfigError(f"output '{path}' is a folder. Give the name of a file.")
    if path.exists() and not overwrite:
        raise ConfigError(f"output '{path}' exists already. Choose another name, or allow it with --overwrite.")


def _move_into_place(temporary: Path, folder: Path, names: Mapping[str, bytes]) -> None:
    if not folder.exists():
        os.rename(temporary, folder)
        return
    for name in names:
        os.replace(temporary / name, folder / name)
    _sync(folder)


def _beside(path: Path) -> Path:
    # In the same folder, so that the last step is a rename; the suffix stays, since some writers read it.
    return path.absolute().parent / f".residapt-{secrets.token_hex(8)}{path.suffix}"


def _sync(path: Path) -> None:
    """Bring a file or folder to the disk, where the system can do that."""
    with suppress(PermissionError):  # Windows does not open folders
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with suppress(OSError):  # nor do all file systems sync them
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> ConfigError:
    in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "there is a file where a folder has to be" if in_the_way else error.strerror or str(error)
    return ConfigError(f"output '{path}' cannot be written: {reason}. Choose another place.")
