"""Examples of changed predictions, their small pictures, and the projection."""

from __future__ import annotations

import base64
import io
from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from residapt.data.domains import TensorImages
from residapt.data.sources import OpenImages
from residapt.evaluate.evidence import Evidence
from residapt.models import InputSpec
from residapt.run.pictures import (
    MOST_EXAMPLES,
    changed_predictions,
    project,
    spread_sample,
    thumbnail,
    unusual_images,
)

FORM = InputSpec(size=10, channels=3, mean=(0.5, 0.4, 0.3), std=(0.5, 0.2, 0.1))


def one_hot(labels: list[int], scale: Tensor | float = 5.0) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), 4).float() * scale


def opened(count: int) -> OpenImages:
    images = TensorImages(torch.zeros(count, 3, 10, 10))
    return OpenImages(images, images, tuple(f"{i}.png" for i in range(count)))


def test_changes_are_sampled_over_classes_and_confidence() -> None:
    """Class b has most of the changes and the most confident ones, but not all the room."""
    scale = torch.cat([torch.linspace(0.5, 9, 90), torch.linspace(0.1, 2, 5), torch.tensor([0.3])])
    after = one_hot([1] * 90 + [2] * 5 + [3], scale[:, None])
    found = changed_predictions(one_hot([0] * 96), after, opened(200), torch.arange(100, 196), tuple("abcd"), FORM)
    assert len(found) == MOST_EXAMPLES
    assert Counter(item.after for item in found) == {"b": 18, "c": 5, "d": 1}
    places = [int(item.path.removesuffix(".png")) - 100 for item in found]
    assert [item.probability for item in found] == [float(after[place].softmax(0).max()) for place in places]
    assert [item.probability for item in found] == sorted((item.probability for item in found), reverse=True)
    # A fifth of the changes to b in every fifth of their confidence.
    assert all(3 <= sum(low <= place < low + 18 for place in places) <= 4 for low in range(0, 90, 18))


@given(kinds=st.lists(st.integers(0, 30), max_size=80), most=st.integers(1, 30))
def test_a_sample_has_no_item_twice_and_is_as_even_as_the_kinds_allow(kinds: list[int], most: int) -> None:
    values = torch.rand(len(kinds), generator=torch.Generator().manual_seed(len(kinds)))
    items = spread_sample(torch.tensor(kinds, dtype=torch.long), values, torch.arange(len(kinds)), most).tolist()
    assert len(items) == len(set(items)) == min(most, len(kinds))
    taken, there = Counter(kinds[item] for item in items), Counter(kinds)
    fullest = max(taken.values(), default=0)
    assert all(taken[kind] >= min(count, fullest - 1) for kind, count in there.items())


def test_nothing_changed() -> None:
    assert changed_predictions(one_hot([0]), one_hot([0]), opened(1), torch.arange(1), ("a",), FORM) == []


def test_unusual_images_come_in_the_order_given() -> None:
    logits = one_hot([1, 2, 3], 2.0)
    found = unusual_images(torch.tensor([2, 0]), logits, opened(20), torch.arange(10, 13), tuple("abcd"), FORM)
    assert [(item.path, item.predicted) for item in found] == [("12.png", "d"), ("10.png", "b")]
    assert found[0].probability == float(logits[2].softmax(0).max())
    assert found[0].thumbnail


def test_a_small_picture_shows_the_pixels_before_normalisation() -> None:
    pixels = torch.tensor([200.0, 90.0, 30.0]).view(1, 3, 1, 1).expand(1, 3, 10, 10) / 255
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (FORM.mean, FORM.std))
    text = thumbnail(TensorImages((pixels - mean) / std), 0, FORM)
    picture = Image.open(io.BytesIO(base64.b64decode(text)))
    assert picture.format == "JPEG"
    assert picture.size == (10, 10)
    assert max(abs(a - b) for a, b in zip(picture.getpixel((5, 5)), (200, 90, 30), strict=True)) <= 4  # type: ignore[arg-type]


def test_what_is_no_picture_has_none() -> None:
    assert thumbnail(TensorImages(torch.zeros(2, 7)), 0, FORM) == ""
    grey = thumbnail(TensorImages(torch.zeros(1, 1, 8, 8)), 0, InputSpec(size=8, channels=1, mean=(0.5,), std=(0.5,)))
    assert Image.open(io.BytesIO(base64.b64decode(grey))).mode == "L"


def evidence(source: Tensor, target: Tensor) -> Evidence:
    labels = torch.zeros(len(source), dtype=torch.long)
    return Evidence(source, labels, source, target, target)


def test_the_projection_is_the_best_plane_of_all_points() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(90, 5, generator=generator) * torch.tensor([9.0, 4.0, 1.0, 0.5, 0.1])
    before, after = evidence(points[:20], points[20:50]), evidence(points[50:60], points[60:])
    found = project(before, after)
    flat = torch.tensor([*found.source_before, *found.target_before, *found.source_after, *found.target_after])
    assert flat.shape == (90, 2)
    exact = torch.linalg.svdvals((points - points.mean(0)).double())
    assert torch.allclose(torch.linalg.svdvals(flat.double()), exact[:2], rtol=1e-3)


def test_a_single_feature_is_projected_as_well() -> None:
    points = torch.randn(8, 1, generator=torch.Generator().manual_seed(0))
    found = project(evidence(points[:4], points[4:]), evidence(points[:4], points[4:]))
    assert all(y == 0.0 for _, y in found.source_before)
