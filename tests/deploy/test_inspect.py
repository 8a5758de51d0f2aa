"""Numbers that ``inspect`` shows against the network itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from residapt.deploy import inspect_run
from residapt.errors import ConfigError
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream
from support.small_run import METADATA


def test_run_and_adapter(run: RunDirectory, two_stream: TwoStream, network: nn.Module) -> None:
    for path in (run.path, run.adapter):
        found = inspect_run(path)
        assert {layer.name: layer.ranks for layer in found.layers} == two_stream.ranks()
        assert found.adapter_parameters == sum(p.numel() for p in two_stream.transforms.parameters())
        assert found.network_parameters == sum(t.numel() for t in network.state_dict().values())
        assert found.share == pytest.approx(100 * found.adapter_parameters / found.network_parameters)
        assert found.base == "reference"
        assert found.files == {
            file.relative_to(path).as_posix(): file.stat().st_size for file in path.rglob("*") if file.is_file()
        }
    assert inspect_run(run.path).files["adapter/adapter_model.safetensors"] > 0


def test_layers_have_shapes_and_ranks_before_and_after(run: RunDirectory) -> None:
    layers = {layer.name: layer for layer in inspect_run(run.path).layers}
    assert layers["full3"].shape == (500, 800)
    assert layers["full3"].before == layers["full3"].ranks == (3, 2)
    assert layers["conv2"].before == (0, 0)


def test_without_an_adapter(run: RunDirectory) -> None:
    found = inspect_run(run.model)
    assert (found.layers, found.base, found.adapter_parameters) == ((), None, 0)
    assert found.metadata == METADATA
    assert found.network_parameters == inspect_run(run.path).network_parameters
    assert found.files == {"model.safetensors": run.model.stat().st_size}


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        inspect_run(tmp_path / "nowhere")
