"""What a new user trips over: README.md beside this file lists by number which test keeps what."""

from __future__ import annotations

import inspect
import re
import socket
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import nn

import residapt
from residapt.cli import commands
from residapt.errors import ModelError
from residapt.models import build_model, read_weights
from support.cli import invoke

ROOT = Path(__file__).parents[2]
LISTED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (Path(__file__).with_name("README.md")).read_text())
NUMBERS = re.findall(r"^\| (\d+) \|", (Path(__file__).with_name("README.md")).read_text(), re.MULTILINE)


def test_the_list_has_all_numbers_and_tests_that_exist() -> None:
    assert [str(number) for number in range(1, 14)] == NUMBERS
    gone = [(file, name) for file, name in LISTED if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")]
    assert gone == []


def test_the_hint_about_training_names_an_argument() -> None:
    x, y = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 2
    x[:, 0] += 4.0 * y
    network = nn.Linear(6, 2)
    nn.init.zeros_(network.weight)  # a guess
    data = {"source": (x, y), "target": x + 0.5}
    run = residapt.adapt(network, **data, steps=1, verbose=False, **{"pretrain.steps": 30, "pretrain.lr": 0.05})
    hints = [name for note in run.summary.notes for name in re.findall(r"Set (\w+)", note)]
    assert hints
    assert set(hints) <= set(inspect.signature(residapt.adapt).parameters)


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x80\x04\x95 garbage", b"PK\x03\x04 garbage"])
@pytest.mark.filterwarnings("error")
def test_a_broken_file_of_weights_is_not_answered_with_unsafe_advice(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bad.pth"
    file.write_bytes(content)
    with pytest.raises(ModelError) as error:
        read_weights(file)
    assert str(file) in str(error.value)
    assert "weights_only" not in str(error.value)
    assert not isinstance(error.value.__cause__, Warning)


def test_without_internet_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hub's library would retry for more than a minute where its name cannot be found."""
    pytest.importorskip("timm")
    constants = pytest.importorskip("huggingface_hub.constants")
    asked, during = [], []

    def nowhere(host: str, *rest: object) -> None:
        asked.append(host)
        during.append(constants.HF_HUB_OFFLINE)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    monkeypatch.setattr("residapt.models.zoo.getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError) as error:
        build_model("timm:resnet10t", num_classes=2, in_channels=3, image_size=32, pretrained=True)
    assert len(asked) == 1
    assert not any(during)
    assert str(error.value).count("timm:resnet10t") == 1, "not wrapped into another message"
    assert all(words in str(error.value) for words in ("--weights FILE", "--weights none"))
    assert not constants.HF_HUB_OFFLINE


def test_a_group_of_commands_that_cannot_be_loaded_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_package.cli:app", commands.GROUPS)
    monkeypatch.setattr(commands, "entry_points", lambda group: [broken])
    code, text = invoke("config", "seed")
    assert code == 0
    assert "seed = 0" in text
    assert "residapt broken" in text
    assert "no_such_package" in text
