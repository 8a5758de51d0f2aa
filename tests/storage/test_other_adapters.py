"""Adapters of methods without transforms: saved and loaded like RPT's, on a base that is the same bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from residapt.errors import ModelError
from residapt.methods import MethodConfig, build_method
from residapt.storage import AdapterMetadata, base_hashes, load, read_config, save_pretrained
from residapt.transform import TransformConfig

METADATA = AdapterMetadata(method="any", classes=("cat", "dog", "bird"))
NAMES = ("norm_statistics", "norm_affine", "bias_only", "last_layer", "separate", "lora", "dora", "shot", "source_free")


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_comes_back(name: str, tmp_path: Path) -> None:
    if name in ("lora", "dora"):
        pytest.importorskip("peft")
    base, x = network(), torch.randn(6, 1, 8, 8)
    before = base_hashes(base)
    config = MethodConfig(train_source=False, transform=TransformConfig(left_rank=2, right_rank=2))
    streams = build_method(name, base, config, example=x[:2]).streams
    streams.train()(x + 3, stream="target")
    with torch.no_grad():
        for parameter in streams.target_only_parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    streams.eval()
    assert base_hashes(base) == before
    wanted = streams(x, stream="target")
    assert not torch.allclose(wanted, streams(x, stream="source"))
    save_pretrained(streams, tmp_path / "a", metadata=METADATA, original=before)
    assert read_config(tmp_path / "a").carried == ()
    fresh = network()
    back = load(fresh, tmp_path / "a")
    torch.testing.assert_close(back(x, stream="target"), wanted)
    torch.testing.assert_close(back.merge_and_unload(x)(x), wanted)
    assert torch.equal(back(x, stream="source"), fresh(x))
    assert {id(p) for p in fresh.parameters()} <= {id(p) for p in back.parameters()}, "the base is there once"
    domains = load(fresh, {"gate": tmp_path / "a"})
    torch.testing.assert_close(domains(x, stream="gate"), wanted)
    with pytest.raises(ModelError, match="other values"):
        load(network(1), tmp_path / "a")


def test_lora_is_what_its_equation_says() -> None:
    pytest.importorskip("peft")
    base = network()
    config = MethodConfig(train_source=False, transform=TransformConfig(left_rank=2, include=("4",)))
    streams = build_method("lora", base, config, example=torch.zeros(2, 1, 8, 8)).streams
    assert torch.equal(streams.target_state()["4.weight"], base[4].weight)
    additions = dict(streams.additions())  # type: ignore[operator]
    a, b = additions["4.lora_A.default.weight"], additions["4.lora_B.default.weight"]
    assert (tuple(a.shape), tuple(b.shape)) == ((2, 144), (3, 2))
    with torch.no_grad():
        b.normal_()
    torch.testing.assert_close(streams.target_state()["4.weight"], base[4].weight + b @ a)
