"""Holding out: disjoint, complete, the same share of each class."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.data.domains import Labelled, TensorImages
from residapt.data.split import Part, part_of, stratified_split

labels = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@given(labels, st.floats(0.01, 0.99), st.integers(0, 5))
def test_both_parts_are_all_and_each_class_keeps_its_share(values: list[int], share: float, seed: int) -> None:
    tensor = torch.tensor(values)
    kept, held = stratified_split(tensor, share, seed)
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(values)))
    for label in set(values):
        count, out = values.count(label), int((tensor[held] == label).sum())
        assert out < count  # never all of a class
        assert out >= 1 or count == 1
        assert abs(out - share * count) <= 1.0


@given(labels, st.integers(0, 3))
def test_the_seed_alone_decides(values: list[int], seed: int) -> None:
    tensor = torch.tensor(values)
    first, second = stratified_split(tensor, 0.3, seed), stratified_split(tensor, 0.3, seed)
    assert torch.equal(first[1], second[1])


def test_different_seeds_hold_out_different_images() -> None:
    tensor = torch.arange(100) % 2
    assert not torch.equal(stratified_split(tensor, 0.1, 0)[1], stratified_split(tensor, 0.1, 1)[1])


def test_a_part_fetches_the_chosen_images_with_their_labels() -> None:
    images = TensorImages(torch.arange(10.0).view(10, 1, 1, 1))
    part = part_of(Labelled(images, torch.arange(10)), torch.tensor([8, 2, 5]))
    fetched = part.images.fetch(torch.tensor([2, 0]), torch.Generator())
    assert fetched.flatten().tolist() == [5.0, 8.0]
    assert part.labels.tolist() == [8, 2, 5]
    assert len(Part(images, torch.tensor([1]))) == 1
