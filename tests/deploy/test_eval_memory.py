"""``eval`` streams: what it keeps of an image is its path, its label and its logits, however many there are."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from residapt.deploy import DeployedModel, evaluate_folder
from residapt.models import InputSpec
from residapt.storage import AdapterMetadata

CLASSES = ("drone", "sky")
FORM = InputSpec(size=64, channels=3, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
PIXELS = 3 * 64 * 64
"""Bytes of one image in memory."""


def deployed() -> DeployedModel:
    """A network whose score is how red an image is."""
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        linear.bias.zero_()
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear).eval()
    metadata = AdapterMetadata(method="rpt", classes=CLASSES, model="lenet", input=FORM)
    return DeployedModel(model, CLASSES, FORM, "lenet", metadata, torch.device("cpu"))


def patches(folder: Path, positives: int, negatives: int) -> Path:
    """So many patches, which are links to a few files."""
    for name, red, count in (("drone", 220, positives), ("sky", 40, negatives)):
        (folder / name).mkdir(parents=True)
        first = folder / name / "000000.png"
        Image.new("RGB", (10, 10), (red, 90, 255 - red)).save(first)
        for number in range(1, count):
            os.link(first, folder / name / f"{number:06d}.png")
    return folder


def peak() -> int:
    """Most bytes that this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.slow
def test_twenty_thousand_patches_take_no_more_memory_than_a_thousand(tmp_path: Path) -> None:
    few, many = patches(tmp_path / "few", 100, 900), patches(tmp_path / "many", 400, 19_600)
    evaluate_folder(deployed(), few)
    before = peak()
    found = evaluate_folder(deployed(), many)
    grown = peak() - before
    assert found.images == 20_000
    assert found.detection is not None
    assert (found.detection.positive, found.detection.average_precision) == ("drone", 1.0)
    assert grown < 20_000 * PIXELS / 4, f"{grown / 1e6:.0f} MB; all pixels together are {20_000 * PIXELS / 1e6:.0f} MB"
