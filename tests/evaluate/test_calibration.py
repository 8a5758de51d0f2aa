"""Calibration against slow loops and its optimality condition; images that look like no class against planted ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import DataError
from residapt.evaluate.calibration import (
    COOLEST,
    HOTTEST,
    beyond_source,
    calibration,
    centroid_distance,
    energy,
    fit_temperature,
    own_centroid_distance,
    unusualness,
)
from residapt.evaluate.evidence import Evidence


def draw(seed: int, rows: int = 60, classes: int = 4, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(classes, (rows,), generator=generator)


def slow_error(logits: Tensor, labels: Tensor, bins: int) -> float:
    """The definition, bin by bin."""
    rows = [torch.softmax(row, 0) for row in logits]
    total = 0.0
    for place in range(bins):
        low, high = place / bins, (place + 1) / bins
        inside = [i for i, p in enumerate(rows) if low < float(p.max()) <= high]
        if inside:
            confidence = sum(float(rows[i].max()) for i in inside) / len(inside)
            accuracy = sum(float(int(rows[i].argmax()) == int(labels[i])) for i in inside) / len(inside)
            total += len(inside) / len(rows) * abs(confidence - accuracy)
    return total


@given(seed=st.integers(0, 10_000), bins=st.integers(1, 20))
def test_calibration_error_equals_the_loop(seed: int, bins: int) -> None:
    logits, labels = draw(seed)
    found = calibration(logits, labels, bins=bins)
    assert found.error == pytest.approx(slow_error(logits, labels, bins), abs=1e-12)
    assert sum(one.images for one in found.bins) == len(labels)
    assert 0 <= found.error <= 1


def test_perfect_and_worst_calibration() -> None:
    certain = 1000.0 * torch.eye(3, dtype=torch.float64)
    assert calibration(certain, torch.arange(3)).error == pytest.approx(0.0)
    assert calibration(certain, torch.tensor([1, 2, 0])).error == pytest.approx(1.0)
    with pytest.raises(DataError):
        calibration(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))


@given(seed=st.integers(0, 10_000), temperature=st.floats(0.1, 10))
def test_temperature_divides_logits(seed: int, temperature: float) -> None:
    logits, labels = draw(seed)
    found = calibration(logits, labels, temperature=temperature)
    assert found.error == pytest.approx(calibration(logits / temperature, labels).error, abs=1e-9)
    assert found.temperature == temperature


@given(seed=st.integers(0, 10_000))
def test_the_temperature_is_where_the_likelihood_has_its_maximum(seed: int) -> None:
    logits, labels = draw(seed)
    found = fit_temperature(logits, labels)
    beta = torch.tensor(1 / found, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(beta * logits, labels).backward()
    assert beta.grad is not None
    if COOLEST * 1.001 < found < HOTTEST * 0.999:
        assert abs(float(beta.grad)) < 1e-8
    elif found > 1:
        assert float(beta.grad) > 0  # would be hotter still
    else:
        assert float(beta.grad) < 0


@pytest.mark.parametrize("true", [0.5, 1.0, 4.0])
def test_the_temperature_that_labels_were_drawn_with_is_found(true: float) -> None:
    logits, _ = draw(3, rows=20_000)
    torch.manual_seed(0)
    labels = torch.multinomial((logits / true).softmax(1), 1).flatten()
    assert fit_temperature(logits, labels) == pytest.approx(true, rel=0.05)
    assert fit_temperature(3 * logits, labels) == pytest.approx(3 * true, rel=0.05)
    assert calibration(logits, labels, temperature=true).error < 0.02


def test_without_mistakes_the_temperature_stays_finite() -> None:
    logits = 5 * torch.eye(3).repeat(4, 1)
    assert fit_temperature(logits, torch.arange(3).repeat(4)) == pytest.approx(COOLEST)
    assert fit_temperature(logits, torch.arange(1, 4).repeat(4) % 3) == pytest.approx(HOTTEST)


@given(seed=st.integers(0, 1000))
def test_distances_equal_the_loop(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    source, target = (torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (12, 5))
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 3, 3, 3, 3, 4])  # class 2 is empty, class 4 has a single image
    members = {k: [i for i in range(12) if labels[i] == k] for k in (0, 1, 3, 4)}
    means = {k: source[rows].mean(0) for k, rows in members.items()}
    within = torch.stack([source[i] - means[int(labels[i])] for i in range(12)]).square().mean(0).sqrt()

    def near(x: Tensor, left_out: int | None) -> float:
        found = []
        for rows in members.values():
            kept = [i for i in rows if i != left_out]
            if kept:
                found.append(float(((x - source[kept].mean(0)) / within).norm()))
        return min(found)

    expected = [near(x, None) for x in target]
    assert centroid_distance(target, source, labels).tolist() == pytest.approx(expected)
    assert own_centroid_distance(source, labels).tolist() == pytest.approx([near(source[i], i) for i in range(12)])


def test_energy_equals_the_definition() -> None:
    logits, _ = draw(1)
    expected = [-math.log(sum(math.exp(value) for value in row)) for row in logits.tolist()]
    assert energy(logits).tolist() == pytest.approx(expected)


def world(strange: int, seed: int = 0) -> Evidence:
    """Three well separated classes; the last ``strange`` target images lie far from all, with flat logits."""
    generator = torch.Generator().manual_seed(seed)
    centres = 6 * torch.eye(3, 5)

    def sample(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.arange(count) % 3
        return centres[labels] + torch.randn(count, 5, generator=generator), labels

    source, labels = sample(300)
    usual, _ = sample(200)
    odd = torch.tensor([0.0, 0.0, 0.0, 9.0, -9.0]).repeat(strange, 1) + torch.randn(strange, 5, generator=generator)
    target = torch.cat([usual, odd])
    return Evidence(2 * source[:, :3], labels, source, 2 * target[:, :3], target)


def test_planted_strangers_are_the_most_unusual() -> None:
    data = world(7)
    assert set(unusualness(data).topk(7).indices.tolist()) == set(range(200, 207))
    beyond = beyond_source(data)
    assert bool(beyond[200:].all())
    assert int(beyond[:200].sum()) <= 2


def test_unusualness_equals_the_definition() -> None:
    data = world(3)
    total = torch.zeros(203, dtype=torch.float64)
    for values in (
        energy(data.target_logits),
        centroid_distance(data.target_features, data.source_features, data.source_labels),
    ):
        middle = values.sort().values[101]
        total += (values - middle) / (values - middle).abs().sort().values[101]
    torch.testing.assert_close(unusualness(data), total)


def test_what_all_target_images_share_plays_no_part() -> None:
    """Logits that are all smaller by the same amount, as after a change of domain, keep the order."""
    data = world(7)
    shifted = replace(data, target_logits=data.target_logits - 10)
    torch.testing.assert_close(unusualness(shifted), unusualness(data), atol=1e-4, rtol=1e-4)
    assert int(beyond_source(shifted).sum()) >= int(beyond_source(data).sum())


def test_equal_images_are_equally_unusual() -> None:
    data = world(0)
    same = replace(data, target_logits=torch.zeros(4, 3), target_features=torch.zeros(4, 5))
    assert unusualness(same).tolist() == [0.0] * 4


def test_one_sign_alone_is_not_beyond_the_source() -> None:
    """Far from all centroids but with a large logit, or small logits at a centroid."""
    usual = world(0)
    features, logits = usual.target_features.clone(), usual.target_logits.clone()
    features[0] = 50.0
    logits[0] = torch.tensor([40.0, 0.0, 0.0])
    features[1] = usual.source_features[usual.source_labels == 1].mean(0)
    logits[1] = -20.0
    changed = replace(usual, target_logits=logits, target_features=features)
    assert not bool(beyond_source(changed)[:2].any())
