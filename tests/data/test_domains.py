from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import DataError


def labelled(count: int = 6, offset: float = 0.0) -> Labelled:
    images = torch.arange(count * 2, dtype=torch.float32).reshape(count, 2) + offset
    return Labelled(TensorImages(images), torch.arange(count) % 3)


def reachable(thing: Any, seen: set[int] | None = None) -> list[Tensor]:
    """Every tensor that can be reached from an object by attributes, items and elements."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return []
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        return [thing]
    inner = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    if isinstance(thing, dict):
        inner += list(thing.values())
    elif isinstance(thing, (list, tuple, set)):
        inner += list(thing)
    return [tensor for item in inner for tensor in reachable(item, seen)]


def test_a_batch_has_no_place_for_target_labels() -> None:
    names = ["source", "labels", "target", "few", "few_labels", "view"]  # view: the target's images once more
    assert [field.name for field in dataclasses.fields(Batch)] == names


def test_a_labelled_target_loses_its_labels() -> None:
    target = labelled(offset=100.0)
    pair = DomainPair(labelled(), target)  # type: ignore[arg-type]
    assert target.labels.data_ptr() in {tensor.data_ptr() for tensor in reachable(target)}
    assert target.labels.data_ptr() not in {tensor.data_ptr() for tensor in reachable(pair)}
    batch = pair.target.fetch(torch.tensor([2, 0]), torch.Generator())
    assert batch.tolist() == [[104.0, 105.0], [100.0, 101.0]]
    assert len(pair.target) == 6


def test_a_data_set_with_labels_in_it_is_no_target() -> None:
    data: Any = TensorDataset(torch.zeros(3, 2), torch.arange(3))
    refused(lambda: DomainPair(labelled(), data), "target", "without labels", "TensorDataset", "TensorImages")


def test_a_pair_of_tensors_has_no_argument_for_target_labels() -> None:
    pair = DomainPair(
        Labelled(TensorImages(torch.randn(4, 2)), torch.tensor([0, 1, 0, 1])), TensorImages(torch.randn(5, 2))
    )
    assert len(pair.source.images) == 4
    assert len(pair.target) == 5
    assert pair.few is None


def test_images_are_fetched_in_the_order_asked_as_floats() -> None:
    images = TensorImages(torch.arange(6, dtype=torch.uint8).reshape(3, 2))
    batch = images.fetch(torch.tensor([2, 0, 2]), torch.Generator())
    assert batch.dtype == torch.float32
    assert batch.tolist() == [[4, 5], [0, 1], [4, 5]]


def test_a_transform_sees_the_batch_and_the_generator() -> None:
    images = TensorImages(torch.zeros(3, 2), lambda x, g: x + torch.rand(1, generator=g))
    one, streams = (images.fetch(torch.tensor([0]), torch.Generator().manual_seed(s)) for s in (1, 2))
    again = images.fetch(torch.tensor([0]), torch.Generator().manual_seed(1))
    assert torch.equal(one, again)
    assert not torch.equal(one, streams)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64])
def test_any_integer_labels_become_class_indices(dtype: torch.dtype) -> None:
    data = Labelled(TensorImages(torch.zeros(2, 3)), torch.tensor([0, 1], dtype=dtype))
    assert data.labels.dtype == torch.int64
    torch.nn.functional.cross_entropy(torch.randn(2, 2), data.labels)


def refused(make: Callable[[], Any], *words: str) -> None:
    with pytest.raises(DataError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_no_images_are_refused() -> None:
    refused(
        lambda: TensorImages(torch.zeros(0, 1, 4, 4), name="target"),
        "target",
        "no images",
        "(0, 1, 4, 4)",
        "at least one",
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused_with_their_place(value: float) -> None:
    images = torch.zeros(4, 2, 3)
    images[2, 1, 0] = value
    refused(lambda: TensorImages(images, name="source"), "source", "image 2", "NaN or infinity", "Clean the data")


def test_images_are_checked_in_parts_without_a_copy_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask of all images, or their absolute values, would double the memory that they take."""
    seen, isfinite = [], torch.isfinite
    monkeypatch.setattr(torch, "isfinite", lambda part: seen.append(len(part)) or isfinite(part))
    images = torch.zeros(1000, 2)
    assert TensorImages(images).images is images
    assert sum(seen) == 1000
    assert max(seen) <= 256
    images[999, 1] = math.nan
    refused(lambda: TensorImages(images, name="target"), "image 999")


def test_labels_must_fit_the_images() -> None:
    images = TensorImages(torch.zeros(3, 2))
    refused(lambda: Labelled(images, torch.zeros(4, dtype=torch.long)), "3 images", "4 labels", "one to one")
    refused(lambda: Labelled(images, torch.zeros(3)), "class indices", "float32")
    refused(lambda: Labelled(images, torch.zeros(3, 1, dtype=torch.long)), "class indices", "(3, 1)")


@pytest.mark.parametrize("bad", [3, -1])
def test_labels_out_of_range_are_named(bad: int) -> None:
    data = Labelled(TensorImages(torch.zeros(3, 2)), torch.tensor([0, bad, 1]))
    refused(lambda: data.check_classes(3, "source"), "source", f"label {bad}", "image 1", "3 outputs", "0 to 2")
    Labelled(TensorImages(torch.zeros(3, 2)), torch.tensor([0, 2, 1])).check_classes(3, "source")
