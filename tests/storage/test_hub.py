"""Adapters on the Hugging Face Hub, with its own client against a stand-in on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import residapt
from residapt.errors import ConfigError, ModelError
from residapt.storage.hub import CARD, CONFIG, WEIGHTS, adapter_folder, push_to_hub
from support.hub import Hub, hub

pytest.importorskip("huggingface_hub", reason="needs the extra hub")

NETWORK = """
import sys, torch, residapt
from torch import nn
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
def attempt(call):
    try:
        return call()
    except residapt.ResidaptError as error:
        print(f"{type(error).__name__}: {error}")
"""


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.fixture
def server() -> Iterator[Hub]:
    with hub() as running:
        yield running


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    streams = residapt.TwoStream(network(), left_rank=2, right_rank=2)
    metadata = residapt.AdapterMetadata(method="rpt", classes=("a", "b", "c"))
    residapt.save_pretrained(streams, tmp_path / "adapter", metadata=metadata)
    (tmp_path / "adapter" / "pytorch_model.bin").write_bytes(b"not to be uploaded")
    return tmp_path / "adapter"


def client(code: str, place: Path, endpoint: str, **more: str) -> str:
    """What a fresh Python prints: the client reads its environment when it is imported."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(place / "hf"), "HF_TOKEN": "hf_made_up"}
    command = [sys.executable, "-c", NETWORK + code]
    done = subprocess.run(command, env={**inherited, **own, **more}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_adapter_goes_up_and_comes_back(adapter: Path, server: Hub, tmp_path: Path) -> None:
    push = f"print(residapt.push_to_hub({str(adapter)!r}, 'me/camera-7'))\n"
    load = (
        "print(residapt.load(network, 'me/camera-7').ranks() == "
        f"residapt.load(network, {str(adapter)!r}).ranks())\n"
        "print(residapt.load(network, 'me/camera-7', revision='main')(torch.ones(1, 4), stream='target').sum().item())"
    )
    lines = client(push + load, tmp_path, server.address).splitlines()
    assert lines[0] == f"{server.address}/me/camera-7"
    assert lines[1] == "True"
    streams = residapt.load(network(), adapter)
    assert float(lines[2]) == pytest.approx(streams(torch.ones(1, 4), stream="target").sum().item(), rel=1e-6)
    files = server.repositories["me/camera-7"]
    assert set(files) == {WEIGHTS, CONFIG, CARD}
    assert files[WEIGHTS] == (adapter / WEIGHTS).read_bytes()
    card = files[CARD].decode()
    assert "library_name: residapt" in card
    assert 'residapt.load(model, "me/camera-7")' in card
    # What was downloaded once works without a network.
    assert client(load, tmp_path, server.address, HF_HUB_OFFLINE="1").splitlines() == lines[1:]


def test_only_the_three_files_are_downloaded_and_what_is_not_there_is_said(
    adapter: Path, server: Hub, tmp_path: Path
) -> None:
    files = {name: (adapter / name).read_bytes() for name in (WEIGHTS, CONFIG, CARD)}
    server.repositories["me/more"] = {**files, "pytorch_model.bin": b"cos\nsystem\n", "code.py": b"boom"}
    server.repositories["me/other"] = {"pytorch_model.bin": b"cos\nsystem\n"}
    calls = ("'me/more'", "'me/other'", "'me/nothing'", "'me/more', revision='v9'")
    code = "".join(f"attempt(lambda: residapt.load(network, {call}))\n" for call in calls)
    other, nothing, revision = client(code, tmp_path, server.address).splitlines()
    assert not list((tmp_path / "hf").rglob("*.bin")) + list((tmp_path / "hf").rglob("*.py"))
    assert all(line.startswith("ModelError") for line in (other, nothing, revision))
    assert CONFIG in other
    assert "no such repository" in nothing
    assert "no such revision" in revision


def test_without_a_network_or_a_right(adapter: Path, server: Hub, tmp_path: Path) -> None:
    load = "attempt(lambda: residapt.load(network, 'me/camera-7'))\n"
    push = f"attempt(lambda: residapt.push_to_hub({str(adapter)!r}, 'me/camera-7'))\n"
    for more in ({"HF_HUB_OFFLINE": "1"}, {}):
        found = client(load + push, tmp_path, "http://127.0.0.1:9", **more).splitlines()
        assert [line.partition(":")[0] for line in found] == ["ModelError"] * 2
        assert all("give its path" in line for line in found)
    server.status = 403
    (found,) = client(push, tmp_path, server.address).splitlines()
    assert "hf auth login" in found


def test_paths_never_ask_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (tmp_path / "runs").mkdir()
    for name in ("runs", "runs/camera-7", "/no/such", "a/b/c", "camera", "../x", "./me/camera-7"):
        assert adapter_folder(name) == Path(name)
    with pytest.raises(ConfigError, match="revision"):
        adapter_folder("runs", revision="main")
    with pytest.raises(ModelError, match=r"residapt\[hub\]"):
        adapter_folder("me/camera-7")


def test_a_damaged_adapter_stays_here(adapter: Path) -> None:
    with pytest.raises(ConfigError, match="user/name"):
        push_to_hub(adapter, "camera-7")
    (adapter / WEIGHTS).write_bytes(b"torn")
    with pytest.raises(ModelError, match="damaged"):
        push_to_hub(adapter, "me/camera-7")
