"""ImageSet refuses what does not belong together."""

from __future__ import annotations

import pytest
import torch

from residapt.data.imageset import ImageSet
from residapt.errors import DataError

IMAGES = torch.arange(3 * 4, dtype=torch.uint8).view(3, 1, 2, 2)
LABELS = torch.tensor([0, 2, 1])


def test_subset_takes_images_and_labels_together() -> None:
    part = ImageSet(IMAGES, LABELS, "toy", official=True, checksum="x").subset([2, 0])
    assert part.labels.tolist() == [1, 0]
    assert torch.equal(part.images, IMAGES[[2, 0]])
    assert len(part) == 2
    assert not part.official


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES.float(), LABELS, "uint8"),
        (IMAGES[:, 0], LABELS, r"\(3, 2, 2\)"),
        (IMAGES, LABELS[:2], "3 images need"),
        (IMAGES, LABELS.int(), "int32"),
        (IMAGES, LABELS + 1, "from 1 to 3, but there are 3 classes"),
        (IMAGES, LABELS - 1, "from -1 to 1"),
    ],
)
def test_mismatches_are_refused(images: torch.Tensor, labels: torch.Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ImageSet(images, labels, "toy", classes=("a", "b", "c"))
