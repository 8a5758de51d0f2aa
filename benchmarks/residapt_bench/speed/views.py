"""``residapt bench speed views``: memory that computing and reading the outputs of frozen stages takes.

EfficientNet-Lite0 with random weights, cut where runs on Office-31 cut it. The images are in memory before the
measurement begins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.table import Table

from residapt.data.augment import RandomCrop
from residapt.data.config import ViewsConfig
from residapt.data.domains import TensorImages
from residapt.data.preprocess import Normalise
from residapt.data.views import stage_outputs
from residapt.models import build_model
from residapt.models.stages import cut_after
from residapt.settings import Settings
from residapt_bench.record import Environment, append_record
from residapt_bench.speed.memory import peak_bytes

MODEL, LAST, SIDE, VIEWS = "timm:tf_efficientnet_lite0", "blocks.5", 128, 8
BATCH = 64
IMAGES = 4000
"""Unless another number is asked for."""
AIM = 250.0
"""Largest rise in megabytes for 4,000 images."""


class ViewsRecord(Settings):
    """One measurement."""

    images: int
    """How many."""
    folder: bool
    """Whether the outputs are kept in a folder, as in a run directory, or as long as the object lives."""
    views: int = VIEWS
    """Of each image, beside the image as it is."""
    size: int = SIDE
    """Pixels."""
    outputs_mb: float
    """Size of the outputs."""
    rise_mb: float
    """By which computing them, then reading all of them twice, raises the peak of resident memory."""
    environment: Environment
    """What it was measured with."""


def measure_views(images: int, folder: bool) -> ViewsRecord:
    """In a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, images, folder).result()


def _measure(count: int, kept: bool) -> ViewsRecord:
    torch.set_num_threads(1)
    stages, _ = cut_after(build_model(MODEL, num_classes=31, image_size=SIDE), LAST, torch.zeros(2, 3, SIDE, SIDE))
    pixels = torch.randint(256, (count, 3, SIDE, SIDE), dtype=torch.uint8)
    plain, changed = (TensorImages(pixels, Normalise((0.5,), (0.25,), change)) for change in (None, RandomCrop()))
    before = peak_bytes()
    with tempfile.TemporaryDirectory() if kept else nullcontext() as place:
        folder = Path(place) if place else None
        made = stage_outputs(stages, plain, changed, identity=["x"], folder=folder, config=ViewsConfig(count=VIEWS))
        for images in (made.plain, made.train):
            for index in torch.split(torch.arange(count), BATCH):
                images.fetch(index, torch.Generator().manual_seed(0))
        size = made.plain.rows.path.stat().st_size
    values = {"images": count, "folder": kept, "outputs_mb": size / 2**20, "rise_mb": (peak_bytes() - before) / 2**20}
    return ViewsRecord.parse({**values, "environment": Environment.here()}, where="views")


def run_views(images: int, out: Path | None) -> list[ViewsRecord]:
    """With a folder and without, for these images; records are appended to ``out``."""
    records = []
    for folder in (True, False):
        records.append(measure_views(images, folder))
        if out is not None:
            append_record(out, records[-1])
    return records


def views_table(records: Sequence[ViewsRecord]) -> Table:
    """The rise beside the aim."""
    table = Table("images", "kept in a folder", "outputs, MB", "rise of the peak, MB", "aim for 4,000")
    for record in records:
        kept = "yes" if record.folder else "no"
        table.add_row(f"{record.images:,}", kept, f"{record.outputs_mb:.0f}", f"{record.rise_mb:.0f}", f"{AIM:.0f}")
    return table
