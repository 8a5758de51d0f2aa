"""Which images to label next: the worth of a label, and images that are spread over the features."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.errors import ConfigError, DataError
from residapt.evaluate.suggest import choose_images, joint_features, label_worth


def test_the_worth_is_mean_entropy_plus_disagreement() -> None:
    logits = torch.randn(2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for row, found in enumerate(label_worth(*logits).tolist()):
        p, q = ([math.exp(z) for z in net[row].tolist()] for net in logits)
        p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
        m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        entropies = [-sum(a * math.log(a) for a in one) for one in (p, q)]
        apart = [sum(a * math.log(a / c) for a, c in zip(one, m, strict=True)) for one in (p, q)]
        assert found == pytest.approx(sum(entropies) / 2 + sum(apart) / 2, rel=1e-9)


def test_networks_that_are_sure_of_different_classes_are_worth_a_label() -> None:
    sure = 50 * torch.eye(3)
    assert label_worth(sure, sure).tolist() == pytest.approx([0.0] * 3, abs=1e-9)
    assert label_worth(sure, sure.roll(1, 0)).tolist() == pytest.approx([math.log(2)] * 3)


@given(st.integers(2, 40), st.integers(1, 45), st.integers(0, 3))
def test_each_image_is_chosen_once(n: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 3, generator=generator)[torch.randint(n, (n,), generator=generator)]  # some are equal
    chosen = choose_images(torch.rand(n, generator=generator), features, count, seed=seed).tolist()
    assert len(chosen) == len(set(chosen)) == min(n, count)
    assert set(chosen) <= set(range(n))


def test_uncertain_images_are_preferred_and_all_groups_are_met() -> None:
    centres = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    features = centres.repeat_interleave(50, 0) + 0.3 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    worth = torch.cat([torch.zeros(180), torch.ones(20)])  # what networks are sure of can still be wrong
    found = [choose_images(worth, features, 12, seed=seed) for seed in range(4)]
    assert all(set((chosen // 50).tolist()) == {0, 1, 2, 3} for chosen in found)
    assert sum(int((chosen >= 180).sum()) for chosen in found) > 2 * 4 * 12 * 20 / 200, "twice as often as by chance"
    most_uncertain_alone = worth.argsort(descending=True, stable=True)[:12]
    assert set((most_uncertain_alone // 50).tolist()) == {3}, "the task tells both ways apart"


def test_confident_networks_still_give_images() -> None:
    chosen = choose_images(torch.zeros(30), torch.randn(30, 2, generator=torch.Generator().manual_seed(1)), 5)
    assert len(set(chosen.tolist())) == 5


def test_what_cannot_be_chosen_from_is_refused() -> None:
    with pytest.raises(ConfigError):
        choose_images(torch.rand(4), torch.rand(4, 2), 0)
    with pytest.raises(DataError):
        choose_images(torch.rand(4), torch.full((4, 2), torch.nan), 2)
    with pytest.raises(DataError):
        choose_images(torch.rand(3), torch.rand(4, 2), 2)


def test_both_networks_count_the_same_however_large_their_features_are() -> None:
    """Groups that either network alone would not tell apart are all met."""
    generator = torch.Generator().manual_seed(0)
    first, second = torch.arange(80) % 2, torch.arange(80) // 40
    before = 1e-3 * (torch.eye(2)[first] + 0.05 * torch.randn(80, 2, generator=generator))
    after = 1e3 * (torch.eye(2)[second] + 0.05 * torch.randn(80, 2, generator=generator))
    joint = joint_features(before, after)
    assert joint.shape == (80, 4)
    assert joint.norm(dim=1).tolist() == pytest.approx([math.sqrt(2)] * 80)
    chosen = choose_images(torch.ones(80), joint, 4)
    assert {(int(first[i]), int(second[i])) for i in chosen} == {(0, 0), (0, 1), (1, 0), (1, 1)}
