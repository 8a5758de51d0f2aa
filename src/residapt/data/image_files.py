"""Which files of a folder are images, found by their names; the command line does this before torch is loaded."""

from __future__ import annotations

import os
from pathlib import Path

from residapt.errors import DataError

# Pillow alone does not read .heic and .heif. They are listed all the same: passing over a phone's photographs
# without a word would be worse than naming them.
SUFFIXES = frozenset(
    f".{name}"
    for name in "jpg jpeg jfif png webp bmp gif tif tiff ppm pgm pbm avif heic heif".split()  # noqa: SIM905
)
"""File names that count as images, in small letters."""


def list_images(folder: Path) -> list[Path]:
    """All images at any depth, sorted by path; hidden files and folders are left out. There may be none."""
    require_folder(folder)
    seen: set[str] = set()
    found: list[Path] = []
    for parent, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        real = os.path.realpath(parent)
        if real in seen:  # a link that leads back up
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        here = Path(parent)
        found += [here / name for name in files if is_image_name(name)]
    return sorted(found, key=lambda path: path.parts)


def require_folder(folder: Path) -> None:
    """Reject what is not a folder."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"image folder '{folder}' {what}. Give a folder with images.")


def is_image_name(name: str) -> bool:
    """Whether a file of that name is taken for an image."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES


def _refuse(error: OSError) -> None:
    raise DataError(f"folder '{error.filename}' cannot be listed: {error.strerror}. Allow reading it, or remove it.")
