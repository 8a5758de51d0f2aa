"""Every wrong input ends with exit code 2, one message that names it, and nothing written."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torchvision.models import WeightsEnum

from residapt.config import load_config
from residapt.errors import ConfigError
from residapt.models import input_spec
from residapt.run.checks import check_output
from residapt.run.networks import build_network
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


def has(text: str, *values: object) -> bool:
    """Whether the message names all of these values."""
    missing = [str(value) for value in values if str(value) not in text]
    assert not missing, (missing, text)
    return True


def test_missing_folders(refused: Callable[..., str], tmp_path: Path) -> None:
    assert has(refused(source=tmp_path / "nowhere"), "source", tmp_path / "nowhere")
    assert has(refused(target=tmp_path / "nowhere"), "target", tmp_path / "nowhere")
    assert has(refused("--evaluate", str(tmp_path / "nowhere")), "evaluate", tmp_path / "nowhere")
    assert has(refused("--target-labels", str(tmp_path / "n.csv")), "target_labels", tmp_path / "n.csv")


def test_folders_that_are_not_given(tmp_path: Path) -> None:
    code, text = invoke("adapt", "-o", str(tmp_path / "run"))
    assert code == 2
    assert has(text, "-s", "data.source")
    code, text = invoke("adapt", "-s", str(tmp_path))
    assert code == 2
    assert has(text, "-o")


def test_a_target_without_images(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert has(refused(target=tmp_path / "empty"), tmp_path / "empty")


def test_an_empty_class_folder(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed", tmp_path / "s")
    (source / "digit x").mkdir()
    assert has(refused(source=source), source / "digit x")


def test_one_class_only(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed" / "digit 1", tmp_path / "s" / "digit 1").parent
    assert has(refused(source=source), source, "'digit 1'")


def test_classes_that_differ_only_in_case(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    source = copy_of(digits / "printed", tmp_path / "s")
    if (source / "Digit 1").exists():
        pytest.skip("this file system cannot hold both names")
    (source / "digit 2").rename(source / "Digit 1")
    assert has(refused(source=source), "'Digit 1'", "'digit 1'")


def test_more_than_half_of_the_images_broken(refused: Callable[..., str], digits: Path, tmp_path: Path) -> None:
    target = copy_of(digits / "written", tmp_path / "t")
    for path in sorted(target.rglob("*.png"))[:31]:
        path.write_bytes(b"broken")
    assert has(refused(target=target), "31", "60", ".png")


def test_weights_that_do_not_fit(refused: Callable[..., str], tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.zeros(3, 3)}, tmp_path / "w.safetensors")
    assert has(refused("--weights", str(tmp_path / "w.safetensors")), "LeNet", "'conv1.weight'")
    (tmp_path / "bad.safetensors").write_bytes(b"xx")
    assert has(refused("--weights", str(tmp_path / "bad.safetensors")), tmp_path / "bad.safetensors")
    (tmp_path / "bad.pth").write_bytes(b"xx")
    text = refused("--weights", str(tmp_path / "bad.pth"))
    assert has(text, tmp_path / "bad.pth")
    assert "weights_only" not in text, "no advice to run the code in a file"
    assert has(refused("--weights", str(tmp_path / "none.pth")), tmp_path / "none.pth")
    assert has(refused("--base", str(tmp_path)), tmp_path)


def test_unknown_settings_names_and_values(refused: Callable[..., str], tmp_path: Path) -> None:
    assert has(refused("--set", "rank.wieght=1"), "'rank.wieght'", "'rank.weight'")
    (tmp_path / "c.toml").write_text("[train]\nstep = 4\n")
    assert has(refused("--config", str(tmp_path / "c.toml")), "'train.step'", tmp_path / "c.toml")
    assert has(refused("--method", "rtp"), "'rtp'", "'rpt'")
    assert has(refused("--method", "rpt+"), "'rpt+'")
    assert has(refused("--select", "luck"), "'luck'", "infomax")
    assert has(refused("-m", "lenett"), "'lenett'")
    assert has(refused("--device", "tpu"), "device", "'tpu'")
    assert has(refused("--set", 'transform.include=["conv9"]'), "'conv9'")
    assert has(refused("--method", "target_only"), "target_only")


def test_an_image_size_that_the_network_cannot_read(refused: Callable[..., str]) -> None:
    assert has(refused("--image-size", "9"), "image_size=9")


def test_an_existing_folder(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.toml").write_text("")
    assert has(refused(out=tmp_path / "old"), tmp_path / "old", "--resume")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("")
    for place in (tmp_path / "photos", tmp_path / "photos" / "a.png"):
        text = refused(out=place)
        assert has(text, place)
        assert "--resume" not in text, "what is no run cannot go on"


def test_an_output_that_cannot_be_written(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert has(refused(out=tmp_path / "file" / "run"), tmp_path / "file")
    (tmp_path / "locked").mkdir(mode=0o555)
    if os.geteuid() == 0:  # permissions do not bind this user, so what the system would say is put in its mouth
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "locked")
    assert has(refused(out=tmp_path / "locked" / "run"), tmp_path / "locked")


def test_an_empty_folder_may_be_the_output(tmp_path: Path) -> None:
    check_output(tmp_path)
    check_output(tmp_path / "new" / "deeper")
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigError):
        check_output(tmp_path)


ADAPT = "adapt -s {digits}/printed -t {digits}/written -o {out}/run "
MISTAKES = {
    "a mistyped setting": ADAPT + "--set rank.wieght=1",
    "a mistyped option value": ADAPT + "--steps -3",
    "a missing folder": ADAPT + "-s nowhere",
    "a missing list": ADAPT + "-s nowhere.csv",
    "an output in use": ADAPT + "-o .",
    "a missing weights file": ADAPT + "--weights none.pth",
    "a missing base": ADAPT + "--base nowhere",
    "a mistyped method": ADAPT + "--method rtp",
    "a mistyped score": ADAPT + "--select infomx",
    "a mistyped recipe": ADAPT + "--recipe plsu",
    "a source without class folders": ADAPT + "-s {digits}/written/roll\\ 0",
    "images to score that are of no class": ADAPT + "--evaluate {digits}/written",
    "a list of labels that names nothing": ADAPT + "--target-labels {out}/few.csv",
    "a study over no setting": "tune -s {digits}/printed -t {digits}/written -o {out}/study --search rnk=log:1..2",
    "no run to resume": "adapt --resume nowhere",
    "no run to accept": "accept nowhere",
    "no run to compare": "compare {out}",
    "no run to predict with": "predict nowhere {digits}/written",
    "no images to score": "eval {digits} nowhere",
    "no run to export": "export {digits}",
    "no run to label for": "suggest nowhere",
    "no run to report": "report nowhere",
    "no run to inspect": "inspect nowhere",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_needs_no_torch_is_refused_without_it(mistake: str, digits: Path, tmp_path: Path) -> None:
    """In less than a second of processor time."""
    code = "import sys; from residapt.cli import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    (tmp_path / "few.csv").write_text("path,class\n")
    arguments = shlex.split(MISTAKES[mistake].format(digits=digits, out=tmp_path))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout.strip()) == (2, "False"), done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def offline(*given: Any, **options: Any) -> Any:
    raise OSError("no route to host")


@pytest.mark.parametrize("spec", ["timm:resnet10t", "torchvision:resnet18"])
def test_published_weights_that_cannot_be_downloaded(
    spec: str, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    timm = pytest.importorskip("timm")
    real = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: (offline if k["pretrained"] else real)(*a, **k))
    monkeypatch.setattr(WeightsEnum, "get_state_dict", offline)
    text = refused("-m", spec, "--image-size", "32", "--set", "data.channels=3")
    assert has(text, spec, "no route to host", "--weights FILE", "--weights none")
    config = load_config(None, [f"model.spec={spec}", "model.weights=none"])
    assert not build_network(config, input_spec(spec), ("a", "b")).pretrained


def test_published_weights_are_taken_with_a_new_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision gives them: all but the classifier, which has as many outputs as there are classes."""
    published = torchvision.models.resnet18(weights=None).state_dict()
    monkeypatch.setattr(WeightsEnum, "get_state_dict", lambda *a, **k: dict(published))
    config = load_config(None, ["model.spec=torchvision:resnet18"])
    found = build_network(config, input_spec("torchvision:resnet18"), ("a", "b"))
    assert found.pretrained
    state = found.module.state_dict()
    assert [name for name in published if not torch.equal(published[name], state[name])] == ["fc.weight", "fc.bias"]
    assert state["fc.weight"].shape == (2, 512)
