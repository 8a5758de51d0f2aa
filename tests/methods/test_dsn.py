"""Domain Separation Networks: each term by hand, when they start, and who is trained by what."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from residapt.methods import DiscrepancyConfig, DSNConfig, MethodConfig, build_method
from residapt.methods.dsn import decoder, private_encoder

CONFIG = MethodConfig(
    discrepancy=DiscrepancyConfig(hidden=(7,), gamma=0.0, weight=0.5),
    dsn=DSNConfig(alpha=0.2, beta=0.3, gamma=0.4, start_share=0.25),
)


def slow_scale_invariant(x: Tensor, y: Tensor) -> float:
    values = []
    for a, b in zip(x.flatten(1), y.flatten(1), strict=True):
        d = [float(p) - float(q) for p, q in zip(a, b, strict=True)]
        k = len(d)
        values.append(sum(v * v for v in d) / k - sum(d) ** 2 / k**2)
    return sum(values) / len(values)


def slow_difference(private: Tensor, shared: Tensor) -> float:
    def rows(h: Tensor) -> list[list[float]]:
        values = [[float(v) for v in row] for row in h]
        means = [sum(c) / len(values) for c in zip(*values, strict=True)]
        centred = [[v - m for v, m in zip(row, means, strict=True)] for row in values]
        return [[v / sum(w * w for w in row) ** 0.5 for v in row] for row in centred]

    p, c = rows(private), rows(shared)
    entries = [sum(p[n][i] * c[n][j] for n in range(len(p))) ** 2 for i in range(len(p[0])) for j in range(len(c[0]))]
    return sum(entries) / len(entries)


def test_terms_and_weights(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    method = build_method("dsn", make_mlp(), CONFIG, example=batch.source).train()
    losses = method.losses(batch, 0.5)
    recon = difference = 0.0
    for domain, x in (("source", batch.source), ("target", batch.target)):
        shared = method.streams.outputs(x, inner=("head:input",)).inner["head:input"]
        private = method.private[domain](x)
        recon += slow_scale_invariant(method.decoder(shared + private), x)
        difference += slow_difference(private, shared)
    assert float(losses.parts["reconstruction"]) == pytest.approx(recon, rel=1e-9)
    assert float(losses.parts["difference"]) == pytest.approx(difference, rel=1e-9)
    parts = {name: float(value) for name, value in losses.parts.items()}
    total = parts["class"] + 0.4 * 0.5 * parts["confusion"] + parts["domain"] + 0.2 * recon + 0.3 * difference
    assert float(losses.total) == pytest.approx(total, rel=1e-9)


def test_only_the_task_counts_until_the_start(make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build_method("dsn", make_mlp(), CONFIG, example=batch.source).train()
    losses = method.losses(batch, 0.2499)
    assert set(losses.parts) == {"class", "target_class"}
    expected = nn.functional.cross_entropy(method.predict(batch.few), batch.few_labels)
    assert float(losses.parts["target_class"]) == pytest.approx(float(expected), rel=1e-12)
    assert "reconstruction" in method.losses(batch, 0.25).parts


def test_every_part_is_trained(make_lenet, make_image_batch):
    batch, model = make_image_batch(), make_lenet()
    method = build_method("dsn", model, CONFIG, example=batch.source).train()
    method.losses(batch, 0.5).total.backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
    helpers = [*method.private.parameters(), *method.decoder.parameters(), *method.discrepancy.parameters()]
    assert {id(p) for p in method.groups()["adversary"]} == {id(p) for p in helpers}


def test_private_encoders_are_private_and_reconstruction_trains_the_shared_one(make_mlp, make_mlp_batch):
    batch, model = make_mlp_batch(), make_mlp()
    method = build_method("dsn", model, CONFIG, example=batch.source).train()
    source = method.streams.outputs(batch.source, inner=method.inner)
    recon, _ = method._separate(batch.source, source, "source")
    recon.backward()
    assert all(p.grad is None for p in method.private["target"].parameters())
    assert all(p.grad is not None for p in method.private["source"].parameters())
    assert model.one.weight.grad.abs().sum() > 0
    assert model.head.weight.grad is None  # the classifier lies behind the shared features


def test_shared_features_can_be_named(make_lenet, make_image_batch):
    batch = make_image_batch()
    config = MethodConfig(dsn=DSNConfig(layer="full2:input"))
    method = build_method("dsn", make_lenet(), config, example=batch.source).train()
    assert method.layer == "full2:input"
    assert method.private["source"](batch.source).shape == (6, 27)


def test_similarity_by_mmd_has_no_domain_classifier(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    config = MethodConfig(discrepancy=DiscrepancyConfig(kind="mk_mmd"))
    method = build_method("dsn", make_mlp(), config, example=batch.source).train()
    assert "domain" not in method.losses(batch, 0.5).parts


@pytest.mark.parametrize("shape", [(3,), (2, 7), (1, 8, 8), (3, 9, 5), (1, 1, 1), (2, 3, 4, 5)])
def test_helpers_fit_any_input(shape):
    x = torch.randn(4, *shape)
    code = private_encoder(x.shape[1:], 6)(x)
    assert code.shape == (4, 6)
    assert decoder(x.shape[1:], 6)(code).shape == x.shape


def test_published_sizes_of_the_svhn_helpers():
    count = sum(p.numel() for p in private_encoder(torch.Size((3, 32, 32)), 3072).parameters())
    convolutions = 3 * 25 * 32 + 32 + 2 * 32 + 32 * 25 * 64 + 64 + 2 * 64
    assert count == convolutions + 64 * 8 * 8 * 3072 + 3072 + 2 * 3072
    assert round(count / 1e6, 2) == 12.65
    last = decoder(torch.Size((3, 32, 32)), 3072).large[-1]
    assert isinstance(last, nn.Conv2d)
    assert (last.out_channels, last.kernel_size) == (3, (3, 3))
