"""Examples of changed predictions, their small pictures, and the projection."""

from __future__ import annotations

import base64
import io

import torch
from PIL import Image
from torch import Tensor

from residapt.data.domains import TensorImages
from residapt.data.sources import OpenImages
from residapt.evaluate.evidence import Evidence
from residapt.models import InputSpec
from residapt.run.pictures import MOST_ALIKE, changed_predictions, project, thumbnail

FORM = InputSpec(size=10, channels=3, mean=(0.5, 0.4, 0.3), std=(0.5, 0.2, 0.1))


def one_hot(labels: list[int], scale: Tensor | float = 5.0) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), 4).float() * scale


def opened(count: int) -> OpenImages:
    images = TensorImages(torch.zeros(count, 3, 10, 10))
    return OpenImages(images, images, tuple(f"{i}.png" for i in range(count)))


def test_the_surest_changes_come_first_and_few_are_alike() -> None:
    before = one_hot([0] * 8)
    after = one_hot([1, 1, 1, 1, 1, 2, 0, 3], torch.tensor([5.0, 9, 8, 7, 6, 1, 9, 4])[:, None])
    found = changed_predictions(before, after, opened(20), torch.arange(10, 18), ("a", "b", "c", "d"), FORM)
    assert [item.path for item in found] == ["11.png", "12.png", "13.png", "17.png", "15.png"]
    assert [item.after for item in found].count("b") == MOST_ALIKE
    assert all(item.before == "a" for item in found)
    assert found[0].probability == float(after[1].softmax(0).max())


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
