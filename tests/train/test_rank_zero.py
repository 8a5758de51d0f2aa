"""With every layer at rank 0, RPT is DANN with flipped labels: the same loss, the same gradients, the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.batches import Batch, Batches
from residapt.losses.adversarial import DomainLogits, flipped_loss
from residapt.methods import DiscrepancyConfig, MethodConfig, build_method
from residapt.train import Method, TrainConfig, Trainer
from residapt.transform import TransformConfig

NETS = ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied", "dropout"]


def config(norm: Any = "per-domain") -> MethodConfig:
    transform = TransformConfig(left_rank=0, right_rank=0, norm=norm)
    return MethodConfig(transform=transform, discrepancy=DiscrepancyConfig(hidden=(8,)))


def gradients(method: Method, batch: Batch, progress: float) -> tuple[dict[str, Tensor], dict[str, float]]:
    torch.manual_seed(0)
    method.zero_grad()
    losses = method.losses(batch, progress)
    losses.total.backward()
    found = {name: p.grad.clone() for name, p in method.named_parameters() if p.grad is not None}
    return found, {name: part.item() for name, part in losses.parts.items()}


@pytest.mark.parametrize(
    ("net", "norm"), [*((net, "per-domain") for net in NETS), ("resnet", "shared"), ("resnet", "frozen")]
)
def test_gradients_are_those_of_dann_with_flipped_labels(
    nets: Callable[..., Any], pairs: Callable[..., Any], net: str, norm: str
) -> None:
    model, x = nets(net)
    batch = Batches(pairs(tuple(x.shape[1:])), size=6, seed=0).batch(0)
    rpt = build_method("rpt", model, config(norm), example=x).double()
    dann = build_method("dann_flip", nets(net).model, config(norm), example=x).double()
    found, parts = gradients(rpt, batch, 0.5)
    expected, expected_parts = gradients(dann, batch, 0.5)
    assert "stream" not in parts
    assert parts == pytest.approx(expected_parts, abs=1e-12)
    assert set(found) == set(expected)
    assert len(found) >= len(list(model.parameters()))
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-12, rtol=0)
    buffers = dict(dann.named_buffers())
    for name, buffer in rpt.named_buffers():
        torch.testing.assert_close(buffer, buffers[name], atol=1e-12, rtol=0)


def test_and_both_are_the_plain_formula(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    """Written out by hand: two passes of a plain network, cross-entropy, flipped domain labels."""
    model, x = nets("resnet")
    batch = Batches(pairs(tuple(x.shape[1:])), size=6, seed=0).batch(0)
    rpt = build_method("rpt", model, config(), example=x).double()
    found, _ = gradients(rpt, batch, 0.5)
    plain, classifier = nets("resnet").model, rpt.discrepancy.classifier
    logits_s, logits_t = plain(batch.source), plain(batch.target)
    weight = 2 / (1 + torch.tensor(-5.0, dtype=torch.float64).exp()) - 1
    loss = nn.functional.cross_entropy(logits_s, batch.labels)
    loss = loss + weight * flipped_loss(DomainLogits(classifier(logits_s), classifier(logits_t)))
    for (name, _), gradient in zip(
        plain.named_parameters(), torch.autograd.grad(loss, list(plain.parameters())), strict=True
    ):
        torch.testing.assert_close(found[f"streams.model.{name}"], gradient, atol=1e-12, rtol=0)


@pytest.mark.parametrize("net", ["mlp", "resnet"])
def test_whole_runs_are_the_same(nets: Callable[..., Any], pairs: Callable[..., Any], net: str) -> None:
    results = []
    for name in ("rpt", "dann_flip"):
        model, x = nets(net)
        method = build_method(name, model, config(), example=x).double()
        Trainer(method, pairs(tuple(x.shape[1:])), TrainConfig(steps=10, batch_size=6)).run()
        results.append(torch.cat([parameter.reshape(-1) for parameter in model.parameters()]))
    torch.testing.assert_close(results[0], results[1], atol=1e-12, rtol=0)
