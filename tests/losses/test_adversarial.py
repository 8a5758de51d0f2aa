from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.losses.adversarial import (
    DomainClassifier,
    DomainLogits,
    domain_accuracy,
    domain_logits,
    domain_loss,
    flipped_loss,
    frozen,
    reverse_gradient,
    uniform_loss,
)

scores = st.lists(st.floats(-30, 30), min_size=1, max_size=5)


def logits(source: list[float], target: list[float]) -> DomainLogits:
    return DomainLogits(torch.tensor(source, dtype=torch.float64), torch.tensor(target, dtype=torch.float64))


def slow_cross_entropy(values: list[float], labels: list[float], weights: list[float] | None = None) -> float:
    """Eq. 5 term by term, with log(1 + e^-z) written so that it does not overflow."""
    weights = weights or [1.0] * len(values)
    total = 0.0
    for z, y, w in zip(values, labels, weights, strict=True):
        log_p = -math.log1p(math.exp(-z)) if z > 0 else z - math.log1p(math.exp(z))
        log_not_p = log_p - z
        total -= w * (y * log_p + (1 - y) * log_not_p)
    return total / len(values)


@given(source=scores, target=scores)
def test_losses_are_those_of_equations_5_and_6(source: list[float], target: list[float]) -> None:
    """Source samples have label 1, target samples 0; flipped: the other way round, on both domains."""
    z, n, m = logits(source, target), len(source), len(target)
    values = source + target
    assert domain_loss(z).item() == pytest.approx(slow_cross_entropy(values, [1.0] * n + [0.0] * m))
    assert flipped_loss(z).item() == pytest.approx(slow_cross_entropy(values, [0.0] * n + [1.0] * m))
    assert uniform_loss(z).item() == pytest.approx(slow_cross_entropy(values, [0.5] * (n + m)))


@given(source=scores, target=scores, seed=st.integers(0, 99))
def test_samples_can_be_weighted(source: list[float], target: list[float], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    w = [torch.rand(len(part), generator=generator, dtype=torch.float64) for part in (source, target)]
    found = flipped_loss(logits(source, target), DomainLogits(*w)).item()
    labels = [0.0] * len(source) + [1.0] * len(target)
    assert found == pytest.approx(slow_cross_entropy(source + target, labels, [*w[0].tolist(), *w[1].tolist()]))


@pytest.mark.parametrize("z", [-8.0, -4.0, 0.0, 4.0, 8.0])
def test_gradient_profiles_of_the_three_ways(z: float) -> None:
    """Method notes 2.1: for a source sample, flip pushes with D, reversal with 1 - D, uniform with D - 1/2."""
    D = 1 / (1 + math.exp(-z))
    nowhere = torch.zeros(0, dtype=torch.float64)
    found = []
    for loss in (
        flipped_loss,
        lambda pair: domain_loss(DomainLogits(reverse_gradient(pair.source), pair.target)),
        uniform_loss,
    ):
        score = torch.tensor([z], dtype=torch.float64, requires_grad=True)
        loss(DomainLogits(score, nowhere)).backward()
        assert score.grad is not None
        found.append(score.grad.item())
    assert found == pytest.approx([D, 1 - D, D - 0.5])


@pytest.mark.parametrize("scale", [1.0, 0.25, 0.0])
def test_reversal_is_the_identity_with_minus_scale_times_the_gradient(scale: float) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, 3, dtype=torch.float64)
    y = reverse_gradient(x, scale)
    assert torch.equal(y, x)
    y.backward(upstream)
    assert x.grad is not None
    assert torch.equal(x.grad, -scale * upstream)


def test_domain_logits_are_those_of_each_domain() -> None:
    classifier = DomainClassifier(3, (4,)).double()
    source, target = torch.randn(2, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    found = domain_logits(classifier, source, target)
    torch.testing.assert_close(found.source, classifier(source))
    torch.testing.assert_close(found.target, classifier(target))


@pytest.mark.parametrize(
    ("hidden", "dropout", "count"),
    [((500, 500), 0.0, 256_501), ((), 0.0, 11), ((7,), 0.5, 85), ((1024, 1024), 0.5, 1_061_889)],
)
def test_domain_classifier_has_the_stated_layers(hidden: tuple[int, ...], dropout: float, count: int) -> None:
    classifier = DomainClassifier(10, hidden, dropout=dropout)
    assert sum(parameter.numel() for parameter in classifier.parameters()) == count
    assert sum(isinstance(module, nn.ReLU) for module in classifier) == len(hidden)
    assert sum(isinstance(module, nn.Dropout) for module in classifier) == (len(hidden) if dropout else 0)
    assert classifier(torch.randn(6, 10)).shape == (6,)


def gradient(parameter: Tensor) -> Tensor | None:
    return parameter.grad


def test_a_frozen_module_passes_gradients_on_but_gets_none() -> None:
    classifier = DomainClassifier(3, (4,))
    fixed = classifier[0].bias
    fixed.requires_grad_(False)
    x = torch.randn(2, 3, requires_grad=True)
    with frozen(classifier):
        loss = classifier(x).sum()
    loss.backward()
    assert gradient(x) is not None
    assert all(gradient(parameter) is None for parameter in classifier.parameters())
    assert [p.requires_grad for p in classifier.parameters()] == [True, False, True, True], "as it was before"


def test_frozen_is_undone_after_an_error() -> None:
    classifier = DomainClassifier(3, (4,))
    with pytest.raises(KeyError), frozen(classifier):
        raise KeyError
    assert all(parameter.requires_grad for parameter in classifier.parameters())


def test_domain_accuracy_counts_both_domains() -> None:
    assert domain_accuracy(logits([1.0, 2.0, -1.0], [-1.0, 0.0])).item() == pytest.approx(4 / 5)
    assert domain_accuracy(logits([1.0], [-1.0])).item() == 1.0
