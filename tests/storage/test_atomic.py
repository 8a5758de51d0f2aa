"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from residapt.errors import ConfigError
from residapt.storage.atomic import atomic_file, write_folder


def test_file_appears_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with atomic_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.suffix == ".txt"
        assert temporary.parent == path.parent
    assert path.read_text() == "whole"
    assert os.listdir(path.parent) == ["a.txt"]


def test_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_file(tmp_path / "a") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_failure_leaves_nothing_new_and_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_file(path, overwrite=True) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_full_disk_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No space left on device"), atomic_file(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "folder").mkdir()
    for path, message in ((tmp_path / "a", "exists already"), (tmp_path / "folder", "is a folder")):
        with pytest.raises(ConfigError, match=message), atomic_file(path):
            pytest.fail("the block must not be entered")
    with pytest.raises(ConfigError), atomic_file(tmp_path / "folder", overwrite=True):
        pytest.fail("the block must not be entered")
    with pytest.raises(ConfigError), atomic_file(tmp_path / "a" / "b"):
        pytest.fail("the block must not be entered")


def test_new_folder_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    rename = os.rename

    def watch(old: Path, new: Path) -> None:
        seen.append(sorted(os.listdir(old)))
        assert not Path(new).exists()
        rename(old, new)

    monkeypatch.setattr("residapt.storage.atomic.os.rename", watch)
    write_folder(tmp_path / "a", {"x": b"1", "y": b"2"})
    assert seen == [["x", "y"]]
    assert (tmp_path / "a" / "y").read_bytes() == b"2"


def test_files_of_an_existing_folder_are_replaced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "a", {"x": b"1", "y": b"2"})
    (tmp_path / "a" / "mine").write_text("kept")
    order = []
    replace = os.replace

    def watch(old: Path, new: Path) -> None:
        order.append(Path(new).name)
        replace(old, new)

    monkeypatch.setattr("residapt.storage.atomic.os.replace", watch)
    write_folder(tmp_path / "a", {"y": b"3", "x": b"4"})
    assert order == ["y", "x"]
    assert {f.name: f.read_bytes() for f in (tmp_path / "a").iterdir()} == {"x": b"4", "y": b"3", "mine": b"kept"}
    assert os.listdir(tmp_path) == ["a"]


def test_folder_that_must_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the superuser, whom no folder's mode stops."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("residapt.storage.atomic.Path.touch", refuse)
    with pytest.raises(ConfigError, match="Permission denied"), atomic_file(tmp_path / "a"):
        pytest.fail("the block must not be entered")
    monkeypatch.undo()
    monkeypatch.setattr("residapt.storage.atomic.Path.mkdir", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        write_folder(tmp_path / "b", {"x": b""})
    assert os.listdir(tmp_path) == []
