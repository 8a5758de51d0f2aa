"""The whole way on many architectures: wrap, train, prune, merge, save, load."""

from __future__ import annotations

import copy
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from residapt.data.batches import Batch
from residapt.methods import MethodConfig, build_method
from residapt.rank import RankConfig, shrink
from residapt.storage import load, save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.train import Method, TrainConfig
from residapt.train.optimiser import build_optimizer
from support.architectures import ARCHITECTURES, CLASSES, Architecture

SETTINGS = MethodConfig.parse({"transform": {"left_rank": 4, "right_rank": 4, "energy": 20.0}})
METADATA = AdapterMetadata(method="rpt", classes=tuple(f"class {number}" for number in range(CLASSES)))


def cases() -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if found.slow else [], id=name)
        for name, found in ARCHITECTURES.items()
    ]


def made(name: str) -> tuple[Method, Batch, Architecture]:
    library = name.split()[0]
    if importlib.util.find_spec({"hf": "transformers"}.get(library, library)) is None:
        pytest.skip(f"{library} is not installed")
    chosen = ARCHITECTURES[name]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        network = chosen.build()
        shape = (4, 3, chosen.size, chosen.size)
        batch = Batch(torch.randn(shape), torch.arange(4), torch.randn(shape) + 0.5)
        method = build_method("rpt", network, SETTINGS, example=batch.source).train()
    return method, batch, chosen


def logits_of(result: Any) -> Tensor:
    return getattr(result, "logits", result)


@pytest.mark.parametrize("name", cases())
def test_the_whole_way(name: str, tmp_path: Path) -> None:
    method, batch, chosen = made(name)
    streams = method.streams
    assert set(chosen.layers) <= set(streams.layers)
    optimizer = build_optimizer(method.groups(), TrainConfig())
    _step(method, batch, optimizer)
    _check_gradients(method)
    # Larger steps until a rank falls: how large depends on the sizes of the layers.
    assert any(shrink(streams, RankConfig(step=0.01 * 1.5**number), optimizer) for number in range(12))
    assert any(min(ranks) > 0 for ranks in streams.ranks().values())
    _step(method, batch, optimizer)
    method.eval()
    plain = streams.merge_and_unload(batch.target).eval()
    with torch.no_grad():
        live, source = streams(batch.target, stream="target"), streams(batch.target, stream="source")
        torch.testing.assert_close(logits_of(plain(batch.target)), live, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(live, source, atol=1e-6), "the streams differ, or nothing was tested"
        base = copy.deepcopy(streams.model)
        save_pretrained(streams, tmp_path / "adapter", metadata=METADATA)
        loaded = load(base, tmp_path / "adapter").eval()
        assert loaded.ranks() == streams.ranks()
        assert torch.equal(loaded(batch.target, stream="target"), live)
        assert torch.equal(loaded(batch.target, stream="source"), source)


def _step(method: Method, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
    torch.manual_seed(0)
    optimizer.zero_grad(set_to_none=True)
    total = method.losses(batch, 0.5).total
    assert bool(torch.isfinite(total))
    total.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _check_gradients(method: Method) -> None:
    """Every transform has gradients; the stream loss alone would give them to D, so B2's must be finite as well."""
    for name in method.streams.layers:
        transform = method.streams.transform(name)
        for parameter in transform.parameters():
            assert parameter.grad is not None, name
            assert bool(torch.isfinite(parameter.grad).all()), name
        assert bool(transform.D.grad.abs().sum() > 0), name


def test_at_least_twenty_five_run_by_default() -> None:
    assert sum(not found.slow for found in ARCHITECTURES.values()) >= 25


@pytest.mark.parametrize("name", ["torchvision vit", "timm vit_tiny", "hf vit"])
def test_target_attention_has_gradients_of_its_own(name: str) -> None:
    """The gradient of the target's logits reaches the projections' transforms, not only by way of the stream loss."""
    method, batch, _ = made(name)
    streams = method.streams.eval().requires_grad_(True)
    streams(batch.target, stream="target").square().sum().backward()  # type: ignore[no-untyped-call]
    projections = [layer for layer in streams.layers if any(word in layer for word in ("in_proj", "qkv", "attention"))]
    assert len(projections) >= 4
    for layer in projections:
        # Softmax does not see the bias of the keys, so that only weights are asked.
        assert bool(streams.transform(layer).D.grad.abs().sum() > 0), layer
