"""Code that a file names runs only when the user has allowed it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import residapt
from residapt.config import load_config, write_config
from residapt.deploy import load_run
from residapt.errors import ModelError
from residapt.models import InputSpec
from residapt.run import Request
from residapt.run.prepare import prepare
from residapt.storage import AdapterMetadata, write_model
from residapt.trust import names_code, refuse_code
from support.cli import invoke

CALLS: list[int] = []
SPEC = f"{__name__}:counted"


def counted(num_classes: int) -> nn.Module:
    """A network whose making is noticed."""
    CALLS.append(num_classes)
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(8 * 8, num_classes))


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLS.clear()


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        *(("lenet", False), ("torchvision:resnet18", False), ("timm:x", False), ("hf:a/b", False)),
        *((SPEC, True), ("os:system", True), ("given:TinyNet", False)),
    ],
)
def test_which_specs_run_code(spec: str, code: bool) -> None:
    assert names_code(spec) is code


def test_a_network_that_was_an_object_is_not_imported() -> None:
    with pytest.raises(ModelError, match="TinyNet"):
        refuse_code("given:TinyNet", where="run 'x'", trust_code=True)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    form = InputSpec(size=8, channels=1, mean=(0.5,), std=(0.5,))
    metadata = AdapterMetadata(method="rpt", classes=("a", "b", "c"), model=SPEC, input=form)
    write_model(counted(3), tmp_path / "m.safetensors", metadata)
    CALLS.clear()
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("command", ["predict", "eval", "export"])
def test_a_model_file_that_names_code_is_refused_by_name(command: str, model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    places = () if command == "export" else (str(tmp_path / "images"),)
    code, text = invoke(command, str(model_file), *places)
    assert code == 2
    assert f"names code as its network, '{SPEC}'" in text
    assert "--trust-code" in text
    assert not CALLS


def test_it_is_read_when_that_is_allowed(model_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="trust_code=True"):
        load_run(model_file)
    assert not CALLS
    assert load_run(model_file, trust_code=True).spec == SPEC
    assert CALLS
    code, text = invoke("export", str(model_file), "-f", "state-dict", "--trust-code")
    assert code == 0, text


def test_inspecting_and_reporting_run_nothing(model_file: Path) -> None:
    code, text = invoke("inspect", str(model_file))
    assert code == 0
    assert SPEC in text
    assert not CALLS


def data() -> dict[str, object]:
    images: Tensor = torch.randn(30, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return {"source": (images, torch.arange(30) % 3), "target": images + 0.2}


def test_a_spec_in_the_program_needs_no_word_but_one_in_a_run_does(tmp_path: Path) -> None:
    settings = {"steps": 1, "pretrain.steps": 1, "train.batch_size": 4, "device": "cpu"}
    residapt.adapt(SPEC, **data(), out=tmp_path / "run", **settings)
    assert CALLS
    CALLS.clear()
    # Whoever writes the base run's configuration does not decide what is imported here.
    config = load_config(None, [f"model.base='{tmp_path / 'run'}'", "train.steps=1"])
    with pytest.raises(ModelError, match=SPEC):
        prepare(Request(config=config, **data()))
    assert not CALLS


def test_a_configuration_or_run_from_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("source/a", "source/b", "target"):
        (tmp_path / name).mkdir(parents=True)
    places = ("-s", str(tmp_path / "source"), "-t", str(tmp_path / "target"))
    write_config(load_config(None, [f"model.spec={SPEC}"]), tmp_path / "c.toml")
    code, text = invoke("adapt", *places, "--config", str(tmp_path / "c.toml"), "-o", str(tmp_path / "out"))
    assert (code, SPEC in text) == (2, True)
    (tmp_path / "run").mkdir()
    shutil.copy(tmp_path / "c.toml", tmp_path / "run" / "config.toml")
    code, text = invoke("adapt", "--resume", str(tmp_path / "run"), "--set", f"data.source='{tmp_path / 'source'}'")
    assert code == 2  # data.source would make another run
    code, text = invoke("adapt", "--resume", str(tmp_path / "run"))
    assert (code, SPEC in text) == (2, True)
    assert not CALLS
    # Typed, it is the user's own word: now the empty folders are what is wrong.
    code, text = invoke("adapt", *places, "-m", SPEC, "-o", str(tmp_path / "out"))
    assert (code, "names code" in text) == (2, False)
