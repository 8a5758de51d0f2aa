"""Every wrong input ends with exit code 2, one message that names it, and nothing written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from residapt.errors import ConfigError
from residapt.run.checks import check_output
from support.cli import invoke
from support.digit_folders import QUICK


@pytest.fixture
def refused(digits: Path, tmp_path: Path) -> Callable[..., str]:
    """Run with changed parts; assert exit code 2 and that nothing was written; give back the message."""

    def check(*more: str, source: Path | None = None, target: Path | None = None, out: Path | None = None) -> str:
        out = out or tmp_path / "out" / "run"
        there = set(tmp_path.rglob("*"))
        code, text = invoke(
            *("adapt", "-s", str(source or digits / "printed"), "-t", str(target or digits / "written")),
            *("-o", str(out), *QUICK, *more),
        )
        assert code == 2, text
        assert text.splitlines()[-1].startswith("error: ") or text.startswith("error: ")
        assert "Traceback" not in text
        assert set(tmp_path.rglob("*")) == there
        return text

    return check


def copy_of(folder: Path, place: Path) -> Path:
    shutil.copytree(folder, place)
    return place


def test_missing_folders(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "does not exist" in refused(source=tmp_path / "nowhere")
    assert "does not exist" in refused(target=tmp_path / "nowhere")
    assert "does not exist" in refused("--evaluate", str(tmp_path / "nowhere"))


def test_folders_that_are_not_given(tmp_path: Path) -> None:
    code, text = invoke("adapt", "-o", str(tmp_path / "run"))
    assert code == 2
    assert "no source is given" in text
    code, text = invoke("adapt", "-s", str(tmp_path))
    assert code == 2
    assert "no output is given" in text


def test_a_target_without_images(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no images at any depth" in refused(target=tmp_path / "empty")


def test_an_empty_class_folder(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed", tmp_path / "s")
    (source / "digit x").mkdir()
    assert "digit x' has no images" in refused(source=source)


def test_one_class_only(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed" / "digit 1", tmp_path / "s" / "digit 1").parent
    assert "1 class only ('digit 1')" in refused(source=source)


def test_classes_that_differ_only_in_case(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed", tmp_path / "s")
    if (source / "Digit 1").exists():
        pytest.skip("this file system cannot hold both names")
    (source / "digit 2").rename(source / "Digit 1")
    assert "differ only in case" in refused(source=source)


def test_more_than_half_of_the_images_broken(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    target = copy_of(digits / "written", tmp_path / "t")
    for path in sorted(target.rglob("*.png"))[:31]:
        path.write_bytes(b"broken")
    text = refused(target=target)
    assert "31 of 60 images cannot be read" in text
    assert ".png" in text


def test_weights_that_do_not_fit(refused: Callable[..., str], tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.zeros(3, 3)}, tmp_path / "w.safetensors")
    assert "does not fit LeNet: 'conv1.weight'" in refused("--weights", str(tmp_path / "w.safetensors"))
    (tmp_path / "bad.safetensors").write_bytes(b"xx")
    assert "not a valid safetensors file" in refused("--weights", str(tmp_path / "bad.safetensors"))
    assert "does not exist" in refused("--weights", str(tmp_path / "none.pth"))
    assert "not a run directory" in refused("--base", str(tmp_path))


def test_unknown_settings_names_and_values(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "Did you mean 'rank.weight'" in refused("--set", "rank.wieght=1")
    (tmp_path / "c.toml").write_text("[train]\nstep = 4\n")
    assert "there is no setting 'train.step'" in refused("--config", str(tmp_path / "c.toml"))
    assert "Did you mean 'rpt'" in refused("--method", "rtp")
    assert "is no score" in refused("--select", "luck")
    assert "model 'lenett' is unknown" in refused("-m", "lenett")
    assert "device = 'tpu' cannot be used" in refused("--device", "tpu")
    assert "'conv9' matches none" in refused("--set", 'transform.include=["conv9"]')
    assert "needs" in refused("--method", "target_only")


def test_an_image_size_that_the_network_cannot_read(refused: Callable[..., str]) -> None:
    assert "image_size=9 is too small" in refused("--image-size", "9")


def test_an_existing_run_directory(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.toml").write_text("")
    assert "exists already" in refused(out=tmp_path / "old")
    (tmp_path / "file").write_text("")
    assert "exists already" in refused(out=tmp_path / "file")


def test_an_output_that_cannot_be_written(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert "is no folder that you may write to" in refused(out=tmp_path / "file" / "run")
    (tmp_path / "locked").mkdir(mode=0o555)
    if os.geteuid() == 0:  # permissions do not bind this user, so what the system would say is put in its mouth
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "locked")
    assert "is no folder that you may write to" in refused(out=tmp_path / "locked" / "run")


def test_an_empty_folder_may_be_the_output(tmp_path: Path) -> None:
    check_output(tmp_path)
    check_output(tmp_path / "new" / "deeper")
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigError, match="exists already"):
        check_output(tmp_path)
