"""Each discrepancy against plain Python loops, and where its gradients go."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from residapt.errors import ConfigError, ModelError
from residapt.losses.moments import DSN_BANDWIDTHS
from residapt.methods import DiscrepancyConfig, MultilinearConfig, build_method
from residapt.methods.config import DiscrepancyName, MethodConfig
from residapt.methods.discrepancy import Joined, build_discrepancy
from residapt.methods.discrepancy.base import Adversarial
from residapt.methods.registry import shared_streams
from residapt.streams import Outputs

KINDS = get_args(DiscrepancyName)
ADVERSARIAL = ("flip", "reversal", "uniform", "rman", "cdan", "cdan_e")


def outputs_of(streams, x: Tensor, layer: str | None) -> Outputs:
    return streams.outputs(x, stream="source", inner=() if layer is None else (layer,))


def both(model, batch, kind, **settings):
    streams = shared_streams(model, MethodConfig())
    made = build_discrepancy(DiscrepancyConfig(hidden=(7,), **settings), kind, streams, batch.source)
    return made, outputs_of(streams, batch.source, made.layer), outputs_of(streams, batch.target, made.layer)


def squared(u: Tensor, v: Tensor) -> float:
    return sum((float(a) - float(b)) ** 2 for a, b in zip(u, v, strict=True))


def slow_mmd(u: Tensor, v: Tensor, kernel) -> float:
    def mean(a, b):
        return sum(kernel(squared(x, y)) for x in a for y in b) / (len(a) * len(b))

    return mean(u, u) + mean(v, v) - 2 * mean(u, v)


def test_linear_mmd_is_the_squared_distance_of_the_mean_logits(make_mlp, make_mlp_batch):
    made, source, target = both(make_mlp(), make_mlp_batch(), "mmd")
    means = [[sum(float(row[k]) for row in o.logits) / 6 for k in range(3)] for o in (source, target)]
    expected = sum((a - b) ** 2 for a, b in zip(*means, strict=True))
    assert float(made(source, target).network) == pytest.approx(expected, rel=1e-12)


def test_rbf_mmd_reads_the_last_features_takes_the_median_and_ignores_scale(make_mlp, make_mlp_batch):
    made, source, target = both(make_mlp(), make_mlp_batch(), "rbf_mmd")
    assert made.layer == "head:input"
    u, v = source.inner[made.layer], target.inner[made.layer]
    assert u.shape == (6, 5)
    pooled = torch.cat([u, v])
    distances = sorted(squared(pooled[i], pooled[j]) for i in range(12) for j in range(i))
    median = distances[(len(distances) - 1) // 2]
    expected = slow_mmd(u, v, lambda d2: math.exp(-d2 / median))
    value = made(source, target).network
    assert float(value) == pytest.approx(expected, rel=1e-10)
    assert float(made.distance(1000 * u, 1000 * v)) == pytest.approx(expected, rel=1e-10)


def test_mk_mmd_sums_the_19_kernels_of_dsn(make_mlp, make_mlp_batch):
    made, source, target = both(make_mlp(), make_mlp_batch(), "mk_mmd")

    def kernel(d2: float) -> float:
        return sum(math.exp(-d2 / (2 * s)) for s in DSN_BANDWIDTHS)

    expected = slow_mmd(source.logits, target.logits, kernel)
    assert float(made(source, target).network) == pytest.approx(expected, rel=1e-9)


def test_coral_compares_covariances_only(make_mlp, make_mlp_batch):
    made, source, target = both(make_mlp(), make_mlp_batch(), "coral")

    def covariance(x: Tensor) -> list[list[float]]:
        rows = [[float(v) for v in row] for row in x]
        means = [sum(column) / 6 for column in zip(*rows, strict=True)]
        return [[sum((r[i] - means[i]) * (r[j] - means[j]) for r in rows) / 5 for j in range(3)] for i in range(3)]

    c_s, c_t = covariance(source.logits), covariance(target.logits)
    expected = sum((c_s[i][j] - c_t[i][j]) ** 2 for i in range(3) for j in range(3)) / (4 * 9)
    assert float(made(source, target).network) == pytest.approx(expected, rel=1e-10)
    assert float(made.distance(source.logits, source.logits + 3)) < 1e-20


def domain_cross_entropy(z: Tensor, labels: list[float], weights: list[float] | None = None) -> float:
    weights = weights or [1.0] * len(labels)
    terms = []
    for value, y, w in zip(z, labels, weights, strict=True):
        d = 1 / (1 + math.exp(-float(value)))
        terms.append(-w * (y * math.log(d) + (1 - y) * math.log(1 - d)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize(("kind", "labels"), [("flip", (0.0, 1.0)), ("reversal", (1.0, 0.0)), ("uniform", (0.5, 0.5))])
def test_domain_classifier_losses(make_mlp, make_mlp_batch, kind, labels):
    made, source, target = both(make_mlp(), make_mlp_batch(), kind)
    z = made.classifier(torch.cat([source.logits, target.logits]))
    found = made(source, target)
    assert float(found.network) == pytest.approx(domain_cross_entropy(z, [labels[0]] * 6 + [labels[1]] * 6), rel=1e-10)
    assert float(found.own) == pytest.approx(domain_cross_entropy(z, [1.0] * 6 + [0.0] * 6), rel=1e-10)


def test_rman_fuses_features_and_probabilities_by_fixed_projections(make_mlp, make_mlp_batch):
    made, source, _ = both(make_mlp(), make_mlp_batch(), "rman")
    f, p = source.inner["head:input"], source.logits.softmax(1)
    R_f, R_g = made.random_map.R_f, made.random_map.R_g
    for n in range(6):
        for d in range(128):
            left = sum(float(R_f[d, i] * f[n, i]) for i in range(5))
            right = sum(float(R_g[d, k] * p[n, k]) for k in range(3))
            assert float(made.inputs(source)[n, d]) == pytest.approx(left * right / math.sqrt(128), rel=1e-6)
    assert not any("R_" in name for name, _ in made.named_parameters())
    assert {"random_map.R_f", "random_map.R_g"} <= set(made.state_dict())


def test_rman_defaults_are_the_papers(make_mlp, make_mlp_batch):
    made, _, _ = both(make_mlp(), make_mlp_batch(), "rman")
    assert isinstance(made, Joined)
    assert made.random_map.R_f.shape == (128, 5)
    assert (made.confusion, made.detach, made.entropy, made.probabilities) == ("flip", False, False, True)


def test_rman_on_logits(make_mlp, make_mlp_batch):
    made, source, _ = both(make_mlp(), make_mlp_batch(), "rman", multilinear=MultilinearConfig(g="logits"))
    assert torch.allclose(made.inputs(source), made.random_map(source.inner["head:input"], source.logits), rtol=1e-12)


def test_cdan_multiplies_every_feature_with_every_probability(make_mlp, make_mlp_batch):
    made, source, _ = both(make_mlp(), make_mlp_batch(), "cdan")
    assert made.random_map is None
    assert made.confusion == "reversal"
    f, p = source.inner["head:input"], source.logits.softmax(1)
    joined = made.inputs(source)
    assert joined.shape == (6, 15)
    assert all(
        float(joined[n, 3 * i + k]) == pytest.approx(float(f[n, i] * p[n, k]), rel=1e-12)
        for n in range(6)
        for i in range(5)
        for k in range(3)
    )


def test_cdan_falls_back_to_the_random_map_above_the_limit(make_mlp, make_mlp_batch, monkeypatch):
    monkeypatch.setattr("residapt.methods.discrepancy.multilinear.LARGEST_PRODUCT", 15)
    at, _, _ = both(make_mlp(), make_mlp_batch(), "cdan")
    monkeypatch.setattr("residapt.methods.discrepancy.multilinear.LARGEST_PRODUCT", 14)
    above, source, _ = both(make_mlp(), make_mlp_batch(), "cdan")
    assert at.random_map is None
    assert above.inputs(source).shape == (6, 1024)


def test_cdan_e_weights_both_losses_by_certainty_per_domain(make_mlp, make_mlp_batch):
    made, source, target = both(make_mlp(), make_mlp_batch(), "cdan_e")

    def certainty(logits: Tensor) -> list[float]:
        rows = [[float(p) for p in row] for row in logits.softmax(1)]
        raw = [1 + math.exp(sum(p * math.log(p) for p in row)) for row in rows]
        return [w * len(raw) / sum(raw) for w in raw]

    weights = certainty(source.logits) + certainty(target.logits)
    z = made.classifier(torch.cat([made.inputs(source), made.inputs(target)]))
    expected = domain_cross_entropy(z, [1.0] * 6 + [0.0] * 6, weights)
    found = made(source, target)
    assert float(found.own) == pytest.approx(expected, rel=1e-9)
    assert float(found.network) == pytest.approx(expected, rel=1e-9)
    assert domain_cross_entropy(z, [1.0] * 6 + [0.0] * 6) != pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("kind", "blocked"), [("rman", False), ("cdan", True)])
def test_gradient_through_the_predictions_only_without_detach(make_mlp, make_mlp_batch, kind, blocked):
    model = make_mlp()
    made, source, target = both(model, make_mlp_batch(), kind)
    made(source, target).network.backward()
    # The features come before the head, so a gradient in the head can only have come through g.
    assert (model.head.weight.grad is None or not model.head.weight.grad.any()) is blocked
    assert model.two.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_each_loss_trains_its_own_side_only(make_mlp, make_mlp_batch, kind):
    model = make_mlp()
    made, source, target = both(model, make_mlp_batch(), kind)
    found = made(source, target)
    found.own.backward(retain_graph=True)
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad is not None and p.grad.any() for p in list(made.classifier.parameters())[-1:])
    before = [p.grad.clone() for p in made.classifier.parameters()]
    found.network.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(before, made.classifier.parameters(), strict=True))
    assert model.one.weight.grad.abs().sum() > 0
    assert all(p.requires_grad for p in made.classifier.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_every_discrepancy_pulls_features_through_rpt(make_mlp, make_mlp_batch, kind):
    config = MethodConfig(discrepancy=DiscrepancyConfig(kind=kind, hidden=(7,), gamma=0.0))
    batch = make_mlp_batch()
    method = build_method("rpt", make_mlp(), config, example=batch.source)
    losses = method.losses(batch, 0.5)
    # The classification loss sees only the source, the stream loss is flat at the start: what is left in the
    # transforms' gradient comes from the discrepancy on the target.
    weights = [t.B1 for t in method.streams.transforms.values()]
    gradients = torch.autograd.grad(losses.parts["confusion"], weights, allow_unused=True)
    assert sum(float(g.abs().sum()) for g in gradients if g is not None) > 0
    assert ("domain" in losses.parts) == (kind in ADVERSARIAL)
    assert torch.isfinite(losses.total)


def test_layer_names(make_mlp, make_mlp_batch):
    made, source, _ = both(make_mlp(), make_mlp_batch(), "flip", layer="one")
    assert made.features(source).shape == (6, 6)
    made, source, _ = both(make_mlp(), make_mlp_batch(), "coral", layer="two:input")
    assert made.features(source).shape == (6, 6)
    assert bool((made.features(source).abs() <= 1).all())  # after tanh, unlike the output of one
    made, source, _ = both(make_mlp(), make_mlp_batch(), "mmd", layer="penultimate")
    assert made.layer == "head:input"
    with pytest.raises(ModelError, match=r"'haed'.*TinyMLP.*\bhead\b"):
        both(make_mlp(), make_mlp_batch(), "flip", layer="haed")


def test_a_network_without_linear_layer_needs_a_named_layer(make_mlp_batch):
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    with pytest.raises(ModelError, match=r"discrepancy\.layer"):
        both(Plain(), make_mlp_batch(), "rman")


def test_a_bare_linear_layer_reads_its_input(make_mlp_batch):
    batch = make_mlp_batch()
    made, source, _ = both(torch.nn.Linear(4, 3).double(), batch, "rman")
    assert torch.equal(made.features(source), batch.source)


@pytest.mark.parametrize(("name", "own"), [("dann", "reversal"), ("coral", "coral"), ("adda", "flip")])
def test_a_method_that_is_its_discrepancy_refuses_another(make_mlp, make_mlp_batch, name, own):
    example = make_mlp_batch().source
    with pytest.raises(ConfigError, match=f"'{name}'"):
        build_method(name, make_mlp(), MethodConfig(discrepancy=DiscrepancyConfig(kind="mmd")), example=example)
    build_method(name, make_mlp(), MethodConfig(discrepancy=DiscrepancyConfig(kind=own)), example=example)


def test_the_seed_fixes_classifier_and_random_map(make_mlp, make_mlp_batch):
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed + 100)
        made, _, _ = both(make_mlp(), make_mlp_batch(), "rman", seed=seed)
        states.append(made.state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert not torch.equal(states[0]["random_map.R_f"], states[2]["random_map.R_f"])
    assert isinstance(made, Adversarial)
