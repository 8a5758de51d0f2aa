"""Every form in which people have data gives the same images; target labels are never touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from residapt.data.domains import Images
from residapt.data.sources import OpenImages, Reading, open_evaluation, open_source, open_target
from residapt.errors import DataError

FORM = SimpleNamespace(size=8, channels=1, mean=(0.5,), std=(0.25,), interpolation="bilinear")
READING = Reading(FORM, augment=False)
PIXELS = torch.randint(0, 256, (12, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 3
EXPECTED = (PIXELS.float() / 255 - 0.5) / 0.25


class Poison:
    """A label that must not be looked at."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("a target label was read")

    __int__ = __index__ = __float__ = __eq__ = __hash__ = __array__ = __len__ = _refuse  # type: ignore[assignment]


class Rows(Dataset[Any]):
    """(image, label) as in torchvision, with PIL images."""

    def __init__(self, labels: Any = None) -> None:
        self._labels = labels if labels is not None else LABELS.tolist()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Image.Image, Any]:
        return Image.fromarray(PIXELS[index, 0].numpy()), self._labels[index]


class HubRows:
    """Rows, columns and features as in Hugging Face data sets."""

    column_names = ("image", "label")
    features = {"image": None, "label": SimpleNamespace(names=["ant", "bee", "cow"])}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return LABELS.tolist()
        return {"image": Image.fromarray(PIXELS[key, 0].numpy()), "label": int(LABELS[key])}


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((image, int(label)) for image, label in zip(PIXELS, LABELS, strict=True))


def folder(root: Path) -> Path:
    for number, (image, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        path = root / f"class{int(label)}" / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(path)
    return root


def everything(images: Images) -> Tensor:
    return images.fetch(torch.arange(len(images)), torch.Generator().manual_seed(0))


SOURCES = {
    "tensors": lambda: (PIXELS, LABELS),
    "arrays": lambda: (PIXELS.numpy(), LABELS.numpy()),
    "tensor data set": lambda: TensorDataset(PIXELS, LABELS),
    "rows": Rows,
    "subset": lambda: Subset(Rows(), range(12)),
    "hub": HubRows,
    "loader": lambda: DataLoader(Rows(), batch_size=5, shuffle=True),
    "loader with workers": lambda: DataLoader(Rows(), batch_size=5, num_workers=2),
    "stream": lambda: DataLoader(Stream(), batch_size=5),
    "stream alone": Stream,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_all_forms_of_a_labelled_set_give_the_same(kind: str) -> None:
    opened = open_source(SOURCES[kind](), READING)
    assert torch.allclose(everything(opened.images.plain), EXPECTED)
    assert opened.labels.tolist() == LABELS.tolist()
    assert opened.classes == (("ant", "bee", "cow") if kind == "hub" else ("0", "1", "2"))
    assert opened.images.raw


@pytest.mark.parametrize("kind", SOURCES)
def test_all_forms_of_a_target_give_the_same(kind: str) -> None:
    opened = open_target(SOURCES[kind](), READING)
    assert type(opened) is OpenImages  # which has no field for labels
    assert torch.allclose(everything(opened.plain), EXPECTED)


def test_a_folder_gives_the_same_with_names(tmp_path: Path) -> None:
    opened = open_source(folder(tmp_path / "s"), READING)
    order = opened.labels.argsort(stable=True)
    assert torch.equal(order, torch.arange(12))
    assert torch.allclose(everything(opened.images.plain), EXPECTED[LABELS.argsort(stable=True)])
    assert opened.classes == ("class0", "class1", "class2")
    target = open_target(str(tmp_path / "s"), READING)
    assert target.name(0) == "class0/00.png"
    assert len(target.files) == 12


@pytest.mark.parametrize("form", ["tuple", "dictionary", "loader"])
def test_labels_beside_target_images_are_not_read(form: str) -> None:
    rows: Any = Rows([Poison() for _ in range(12)])
    if form == "dictionary":
        rows = [{"image": rows[i][0], "label": rows[i][1]} for i in range(12)]
    opened = open_target(DataLoader(rows) if form == "loader" else rows, READING)
    assert torch.allclose(everything(opened.plain), EXPECTED)


def test_a_target_of_images_alone_needs_no_labels() -> None:
    assert len(open_target(PIXELS, READING)) == 12
    assert len(open_target([Image.fromarray(PIXELS[0, 0].numpy())] * 3, READING)) == 3


def test_floats_are_taken_as_they_are() -> None:
    floats = torch.randn(6, 2, 5)
    opened = open_source((floats, torch.arange(6) % 2), Reading(FORM, augment=True))
    assert torch.equal(everything(opened.images.train), floats)
    assert not opened.images.raw
    rows = open_target(TensorDataset(floats), READING)
    assert torch.equal(everything(rows.plain), floats)
    assert not rows.raw


def test_training_images_are_augmented_and_others_are_not() -> None:
    opened = open_source((PIXELS, LABELS), Reading(FORM, augment=True))
    assert torch.allclose(everything(opened.images.plain), EXPECTED)
    assert not torch.allclose(everything(opened.images.train), EXPECTED)


class Jitter(Rows):
    """A data set with a random transform of its own."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return EXPECTED[index] + torch.rand(1), self._labels[index]


def test_random_transforms_of_a_data_set_follow_the_generator_and_leave_the_global_one_alone() -> None:
    images = open_target(Jitter(), READING).train
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    draws = [images.fetch(torch.arange(4), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (PIXELS, "tensor without labels"),
        ((PIXELS, torch.zeros(12, dtype=torch.long)), "1 class only"),
        ((PIXELS, LABELS[:5]), "12 images but 5 labels"),
        ((PIXELS, LABELS - 1), "label -1 of image 0 is out of range"),
        ((PIXELS, LABELS + 0.5), "vector of class numbers"),
        ((PIXELS.int(), LABELS), "int32"),
        (TensorDataset(PIXELS[:0], LABELS[:0]), "has no rows"),
        (3.5, "is of type float"),
        ([{"picture": 1, "label": 0}], "has the keys picture, label"),
        ([Image.new("L", (8, 8))] * 2, "without a label"),
        ([object()], "of type object"),
    ],
)
def test_useless_sources_are_refused(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_source(source, READING)


def test_images_of_unlike_sizes_are_refused_when_they_meet() -> None:
    rows = [(torch.zeros(1, 4, 4), 0), (torch.zeros(1, 4, 5), 1)]
    opened = open_source(rows, READING)
    with pytest.raises(DataError, match=r"image 1\b.*float32 \(1, 4, 5\)"):
        everything(opened.images.plain)


def test_an_endless_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residapt.data.datasets.LIMIT", 1e6)

    def forever() -> Iterator[tuple[Tensor, int]]:
        while True:
            yield torch.zeros(1, 100, 100), 0

    with pytest.raises(DataError, match=r"0\.001 GB"):
        open_source(forever(), READING)


def test_names_of_classes_may_be_given() -> None:
    assert open_source((PIXELS, LABELS), READING, ["x", "y", "z"]).classes == ("x", "y", "z")
    with pytest.raises(DataError, match=r"\b2\b.*image 2"):
        open_source((PIXELS, LABELS), READING, ["x", "y"])


def test_a_set_to_score_has_the_classes_of_the_source(tmp_path: Path) -> None:
    scored = open_evaluation((PIXELS, np.ones(12, dtype=np.int64)), READING, ("a", "b"))
    assert scored.classes == ("a", "b")
    assert len(scored.plain.images) == 12
    with pytest.raises(DataError, match="label"):
        open_evaluation((PIXELS, LABELS), READING, ("a", "b"))
    with pytest.raises(DataError):
        open_evaluation(folder(tmp_path / "e"), READING, ("a", "b"))


def test_a_class_whose_images_are_all_broken_is_refused(tmp_path: Path) -> None:
    root = folder(tmp_path / "s")
    for path in (root / "class1").iterdir():
        path.write_bytes(b"x")
    with pytest.raises(DataError, match=r"'.*class1'"):
        open_source(root, READING)
