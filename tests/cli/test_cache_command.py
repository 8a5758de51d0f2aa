"""The command that shows and clears what is kept for later runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from residapt.data.pixel_file import PixelFile
from support.cli import invoke


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESIDAPT_CACHE", str(tmp_path))
    for name in ("new", "old"):
        file = PixelFile(tmp_path / f"{name}.rows", "key", (3, 8, 8), limit=1e9, what=f"{name} photos")
        file.write(file.slots([b"0123456789abcdef"])[0], np.ones((3, 8, 8), np.uint8))
    os.utime(tmp_path / "old.rows", (time.time() - 10 * 86400,) * 2)
    return tmp_path


def test_the_files_are_listed_with_their_origin(folder: Path) -> None:
    code, text = invoke("cache", "list")
    assert code == 0
    assert text.index("new photos") < text.index("old photos")
    assert f"in {folder}" in text


def test_old_files_and_then_all_are_cleared(folder: Path) -> None:
    assert invoke("cache", "clear", "--older", "5")[0] == 0
    assert [path.name for path in folder.glob("*.rows")] == ["new.rows"]
    assert invoke("cache", "clear")[0] == 0
    assert not list(folder.glob("*.rows"))
    assert "0 files" in invoke("cache", "list")[1]
