from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.data.batches import BalancedOrder, Batch, Batches, Order, derived_seed
from residapt.data.config import Balance
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import ConfigError


def numbered(count: int, *, noisy: bool = False) -> TensorImages:
    """Image number i is the number i, so that a batch shows which samples are in it."""

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        return images + 0.25 * torch.rand(images.shape, generator=generator)

    return TensorImages(torch.arange(count, dtype=torch.float32)[:, None], augment if noisy else None)


def numbered_pair(source: int, target: int, few: int = 0, *, noisy: bool = False) -> DomainPair:
    labelled = Labelled(numbered(source, noisy=noisy), torch.arange(source))
    extra = Labelled(numbered(few), torch.arange(few)) if few else None
    return DomainPair(labelled, numbered(target, noisy=noisy), extra)


def same(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) else a is b
        for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


@given(size=st.integers(1, 9), source=st.integers(1, 12), target=st.integers(1, 12), seed=st.integers(0, 99))
def test_a_batch_is_a_function_of_the_step(size: int, source: int, target: int, seed: int) -> None:
    """Asked in any order, by any object: what makes resuming exact without saving a sampler."""
    pair = numbered_pair(source, target, 3, noisy=True)
    forwards = [Batches(pair, size=size, seed=seed).batch(step) for step in range(5)]
    batches = Batches(pair, size=size, seed=seed)
    for step in (4, 0, 2, 1, 3):
        assert same(batches.batch(step), forwards[step])


@given(size=st.integers(1, 9), count=st.integers(1, 12), seed=st.integers(0, 99))
def test_every_sample_comes_once_in_an_epoch(size: int, count: int, seed: int) -> None:
    batches = Batches(numbered_pair(count, count + 1), size=size, seed=seed)
    epochs = 3
    steps = -(-epochs * count // size)
    stream = torch.cat([batches.batch(step).source for step in range(steps)]).flatten().tolist()
    for epoch in range(epochs):
        assert sorted(stream[epoch * count : (epoch + 1) * count]) == list(range(count))


def test_labels_go_with_their_images() -> None:
    batches = Batches(numbered_pair(7, 5, 3), size=4, seed=0)
    for step in range(9):
        batch = batches.batch(step)
        assert batch.source.flatten().tolist() == batch.labels.tolist()
        assert batch.few is not None
        assert batch.few_labels is not None
        assert batch.few.flatten().tolist() == batch.few_labels.tolist()


def test_order_changes_with_epoch_seed_and_domain() -> None:
    order = Order(50, 0, "source")
    first, second = order.take(0, 50), order.take(50, 50)
    assert not torch.equal(first, second)
    assert not torch.equal(first, Order(50, 1, "source").take(0, 50))
    assert not torch.equal(first, Order(50, 0, "target").take(0, 50))


@given(world=st.sampled_from([1, 2, 3, 4]), share=st.integers(1, 3), step=st.integers(0, 5))
def test_shards_make_up_the_global_batch(world: int, share: int, step: int) -> None:
    pair = numbered_pair(7, 5, 3)
    size = world * share
    whole = Batches(pair, size=size, seed=0).batch(step)
    shards = [Batches(pair, size=size, seed=0, rank=rank, world=world).batch(step) for rank in range(world)]
    for name in ("source", "labels", "target", "few", "few_labels"):
        assert torch.equal(torch.cat([getattr(shard, name) for shard in shards]), getattr(whole, name))


def test_shards_are_augmented_independently() -> None:
    pair = numbered_pair(1, 1, noisy=True)
    one, streams = (Batches(pair, size=2, seed=0, rank=rank, world=2).batch(0).source for rank in range(2))
    assert not torch.equal(one, streams)


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\b5\b.*\b2\b"):
        Batches(numbered_pair(4, 4), size=5, seed=0, world=2)


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    balance=st.sampled_from(["as-is", "classes"]),
    few=st.integers(1, 7),
    steps=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_the_few_labelled_images_are_seen_evenly(
    labels: list[int], balance: Balance, few: int, steps: int, seed: int
) -> None:
    """After any number of steps: each image as often as the others of its class; with balance each class as well."""
    labelled = Labelled(numbered(len(labels)), torch.tensor(labels))
    pair = DomainPair(Labelled(numbered(3), torch.arange(3)), numbered(5), labelled, balance)
    batches = [Batches(pair, size=4, seed=seed, few=few).batch(step) for step in range(steps)]
    assert all(batch.few is not None and len(batch.few) == few for batch in batches)
    seen = Counter(int(number) for batch in batches for number in batch.few.flatten())  # type: ignore[union-attr]
    assert sum(seen.values()) == steps * few
    for label in set(labels):
        counts = [seen[number] for number, own in enumerate(labels) if own == label]
        assert max(counts) - min(counts) <= 1
    if balance == "classes":
        totals = [sum(seen[i] for i, own in enumerate(labels) if own == label) for label in set(labels)]
        assert max(totals) - min(totals) <= 1
    else:
        assert max(seen[i] for i in range(len(labels))) - min(seen[i] for i in range(len(labels))) <= 1


@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=15),
    start=st.integers(0, 60),
    count=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_a_balanced_order_is_one_stream(labels: list[int], start: int, count: int, seed: int) -> None:
    """However it is cut into pieces, as an order without balance: nothing but the place counts."""
    whole = BalancedOrder(torch.tensor(labels), seed, "source").take(0, start + count)
    order = BalancedOrder(torch.tensor(labels), seed, "source")
    assert torch.equal(order.take(start, count), whole[start:])
    assert torch.equal(order.take(0, start + count), whole)


@given(negatives=st.integers(1, 200), size=st.integers(1, 16).map(lambda n: 2 * n), step=st.integers(0, 20))
def test_balanced_batches_of_a_rare_class(negatives: int, size: int, step: int) -> None:
    """Half of every even batch is positive, however many negatives there are; the target is left as it is."""
    labels = torch.tensor([1, 1, 1] + [0] * negatives)
    pair = DomainPair(Labelled(numbered(len(labels)), labels), numbered(7), balance="classes")
    batch = Batches(pair, size=size, seed=0).batch(step)
    assert int(batch.labels.sum()) == size // 2
    assert torch.equal(batch.labels, labels[batch.source.flatten().long()])
    plain = DomainPair(pair.source, pair.target)
    assert torch.equal(Batches(plain, size=size, seed=0).batch(step).target, batch.target)


def test_classes_come_in_a_random_order() -> None:
    """Else the first share of every batch would be of the first classes."""
    order = BalancedOrder(torch.arange(5).repeat(4), 0, "source")
    rounds = [tuple((order.take(5 * r, 5) % 5).tolist()) for r in range(6)]
    assert all(sorted(one) == list(range(5)) for one in rounds)
    assert len(set(rounds)) > 3


def test_a_labelled_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"few_batch 3\b.*\b2\b"):
        Batches(numbered_pair(4, 4, 2), size=4, seed=0, world=2, few=3)
    assert Batches(numbered_pair(4, 4), size=4, seed=0, world=2, few=3).batch(0).few is None


def test_augmentation_differs_between_steps_and_domains() -> None:
    batches = Batches(numbered_pair(1, 1, noisy=True), size=1, seed=0)
    values = [batches.batch(step).source.item() for step in range(4)]
    values += [batches.batch(step).target.item() for step in range(4)]
    assert len(set(values)) == 8


def test_a_second_view_has_the_same_images_with_other_changes() -> None:
    batches = Batches(numbered_pair(6, 6, 2, noisy=True), size=4, seed=0)
    for step in range(3):
        plain, both = batches.batch(step), batches.batch(step, view=True)
        assert plain.view is None
        assert both.view is not None
        assert torch.equal(both.target, plain.target), "asking for a view leaves everything else as it is"
        assert torch.equal(both.view.floor(), both.target.floor()), "image number i is i and a fraction"
        assert not bool((both.view == both.target).any())
        assert same(both, Batches(batches.pair, size=4, seed=0).batch(step, view=True))


def test_derived_seeds_do_not_meet() -> None:
    """Sums of seeds would: seed 0 at step 1 and seed 1 at step 0."""
    seeds = Counter(derived_seed(seed, name, step) for seed in range(5) for name in ("a", "b") for step in range(5))
    assert max(seeds.values()) == 1
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derived_seed(1, "a", 2) == derived_seed(1, "a", 2)


def test_moving_keeps_values_and_sets_the_memory_format_of_images_only() -> None:
    images = TensorImages(torch.randn(4, 3, 2, 2))
    pair = DomainPair(Labelled(images, torch.arange(4)), images)
    batch = Batches(pair, size=4, seed=0).batch(0)
    moved = batch.to(torch.device("cpu"), torch.channels_last)
    assert torch.equal(moved.source, batch.source)
    assert moved.source.is_contiguous(memory_format=torch.channels_last)
    assert moved.few is None
    assert torch.equal(moved.labels, batch.labels)


def test_a_process_fetches_its_share_and_nothing_else() -> None:
    class Counted:
        def __init__(self) -> None:
            self.fetched: list[int] = []

        def __len__(self) -> int:
            return 12

        def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
            self.fetched += index.tolist()
            return torch.zeros(len(index), 1)

    seen = []
    for rank in range(3):
        source, target = Counted(), Counted()
        Batches(DomainPair(Labelled(source, torch.arange(12)), target), size=6, seed=0, rank=rank, world=3).batch(1)
        assert (len(source.fetched), len(target.fetched)) == (2, 2)
        seen += source.fetched
    assert len(set(seen)) == 6
