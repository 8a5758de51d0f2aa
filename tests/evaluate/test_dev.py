from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import ConfigError, DataError
from residapt.evaluate.dev import DevConfig, density_ratio, dev, dev_risk, devn, normalise_weights
from residapt.evaluate.evidence import Evidence

FAST = DevConfig(decays=(1e-2, 1e-4), folds=2)


def slow_risk(weights: list[float], errors: list[float]) -> float:
    n = len(weights)
    weighted = [w * e for w, e in zip(weights, errors, strict=True)]
    mean_w, mean_we = sum(weights) / n, sum(weighted) / n
    covariance = sum((a - mean_we) * (b - mean_w) for a, b in zip(weighted, weights, strict=True)) / (n - 1)
    variance = sum((w - mean_w) ** 2 for w in weights) / (n - 1)
    eta = -covariance / variance
    return mean_we + eta * mean_w - eta


def shifted_world(seed: int, shift: float = 1.0, source: int = 600, target: int = 600) -> tuple[Evidence, float]:
    """One feature, N(0,1) and N(shift,1); the label is whether it exceeds 2, the classifier cuts at 1.

    All errors lie between 1 and 2, where the target has more of its mass: the source risk is too low.
    """
    generator = torch.Generator().manual_seed(seed)
    x_s = torch.randn(source, 1, generator=generator)
    x_t = torch.randn(target, 1, generator=generator) + shift
    logits_s, logits_t = (torch.cat([50 - 50 * x, 50 * x - 50], dim=1) for x in (x_s, x_t))
    labels = (x_s[:, 0] > 2).long()
    true_target_risk = ((x_t > 1) & (x_t <= 2)).double().mean().item()
    return Evidence(logits_s, labels, x_s, logits_t, x_t), true_target_risk


@given(seed=st.integers(0, 10_000), n=st.integers(3, 12))
def test_the_risk_equals_the_loop(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    weights, errors = rng.gamma(1.0, 1.0, n), rng.random(n)
    assert dev_risk(weights, errors) == pytest.approx(slow_risk(weights.tolist(), errors.tolist()), abs=1e-9)


def test_equal_weights_give_the_plain_mean() -> None:
    assert dev_risk(np.ones(4), np.array([0.0, 1.0, 1.0, 0.0])) == pytest.approx(0.5)


def test_the_control_variate_removes_the_error_of_a_constant_loss() -> None:
    """If every error is c, the target risk is c, whatever the weights' sample mean happens to be."""
    weights = np.array([0.2, 0.5, 3.0, 1.1])
    assert (weights * 0.7).mean() != pytest.approx(0.7)
    assert dev_risk(weights, np.full(4, 0.7)) == pytest.approx(0.7)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_normalised_weights_lie_between_zero_and_two_with_mean_one(seed: int, n: int) -> None:
    weights = np.random.default_rng(seed).gamma(0.1, 10.0, n)
    result = normalise_weights(weights)
    assert result.mean() == pytest.approx(1.0)
    assert result.min() >= 0
    assert result.max() <= 2
    assert (np.diff(result[np.argsort(weights)]) >= -1e-12).all()


@pytest.mark.parametrize(("source", "target"), [(800, 800), (800, 200), (200, 800)])
def test_the_ratio_of_two_gaussians_is_found_for_unequal_counts(source: int, target: int) -> None:
    evidence, _ = shifted_world(0, 0.5, source, target)
    weights = density_ratio(evidence.source_features, evidence.target_features, FAST)
    x = evidence.source_features[:, 0].double().numpy()
    truth = np.exp(0.5 * x - 0.125)
    assert weights.shape == (source,)
    assert np.abs(np.log(weights) - np.log(truth)).mean() < 0.2
    assert weights.mean() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_dev_estimates_the_target_risk_better_than_the_source_risk_does(seed: int) -> None:
    evidence, target_risk = shifted_world(seed)
    source_risk = (evidence.source_logits.argmax(1) != evidence.source_labels).double().mean().item()
    zero_one = DevConfig(decays=FAST.decays, folds=2, error="zero_one")
    estimate = -dev(evidence, zero_one)
    assert target_risk > source_risk + 0.1
    assert abs(estimate - target_risk) < 0.5 * abs(source_risk - target_risk)


def test_higher_is_better() -> None:
    evidence, _ = shifted_world(0)
    right = torch.nn.functional.one_hot(evidence.source_labels, 2).float() * 9
    better = Evidence(
        right,
        evidence.source_labels,
        evidence.source_features,
        evidence.target_logits,
        evidence.target_features,
    )
    assert dev(better, FAST) > dev(evidence, FAST)
    assert devn(better, FAST) > devn(evidence, FAST)


def test_devn_is_the_mean_error_under_normalised_weights() -> None:
    evidence, _ = shifted_world(1)
    weights = normalise_weights(density_ratio(evidence.source_features, evidence.target_features, FAST))
    errors = torch.nn.functional.cross_entropy(
        evidence.source_logits.double(), evidence.source_labels, reduction="none"
    )
    assert devn(evidence, FAST) == pytest.approx(-float((weights * errors.numpy()).mean()))


def test_the_score_is_repeatable_and_bounded_by_its_subsample() -> None:
    evidence, _ = shifted_world(2)
    small = DevConfig(decays=(1e-3,), folds=2, subsample=50)
    assert dev(evidence, small) == dev(evidence, small)
    assert dev(evidence, small) != dev(evidence, FAST)


def test_domains_that_are_told_apart_for_sure_give_finite_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(40, 3, generator=generator)
    weights = density_ratio(source, source + 1000, FAST)
    assert np.isfinite(weights).all()
    assert (weights > 0).all()


def test_the_network_classifier_works_too() -> None:
    evidence, _ = shifted_world(3, source=120, target=120)
    config = DevConfig(classifier="mlp", decays=(1e-3,), folds=2)
    weights = density_ratio(evidence.source_features, evidence.target_features, config)
    assert np.corrcoef(weights, evidence.source_features[:, 0].numpy())[0, 1] > 0.5
    assert (weights == density_ratio(evidence.source_features, evidence.target_features, config)).all()


def bad(**changes: object) -> DevConfig:
    return DevConfig(**changes)  # type: ignore[arg-type]


def test_what_cannot_be_used_is_refused() -> None:
    evidence, _ = shifted_world(0, source=10, target=10)
    tiny: Tensor = evidence.source_features[:2]
    with pytest.raises(ConfigError, match="folds"):
        bad(folds=1)
    with pytest.raises(ConfigError, match="decays"):
        bad(decays=())
    with pytest.raises(ConfigError, match="'tree'"):
        dev(evidence, bad(classifier="tree"))
    with pytest.raises(ConfigError, match="'hinge'"):
        dev(evidence, bad(error="hinge"))
    with pytest.raises(DataError, match="3 folds"):
        density_ratio(tiny, evidence.target_features, DevConfig())
