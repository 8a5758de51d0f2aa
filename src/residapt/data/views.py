"""What frozen stages make of images: augmented views of each image, computed once and read in training.

A frozen stage gives the same output for the same pixels in every step of every run. So it is computed for some
augmented views of each image and for the image as it is, kept in half precision, and all else starts from there.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.data.batches import derived_seed
from residapt.data.config import ViewsConfig
from residapt.data.domains import Images, TensorImages
from residapt.data.row_file import RowFile, UnusableFileError, only_one, write_rows
from residapt.errors import DataError, ModelError

VIEWS = 8
"""Augmented views of each image, unless another number is set."""
BLOCK = 16
"""Images that are computed at a time: the activations inside of the stages are large."""

Stages = Callable[[Tensor], Tensor]
Progress = Callable[[int, int, float], None]
"""Called with the images done, all images, and the seconds left."""


class CachedViews:
    """Outputs of frozen stages as images: each sample of a batch is one of its views, at random.

    ``chosen`` are the numbers of the views that are drawn from; all of them where nothing is given.
    """

    prefetch = True
    """Reading them takes long enough to be done ahead."""

    def __init__(self, rows: RowFile, views: int, chosen: range | None = None) -> None:
        self.rows, self.views, self.chosen = rows, views, range(views) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self.rows) // (1 + self.views)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of outputs; ``generator`` selects the views."""
        if not self.views:
            return self.rows.read(index).float()
        view = self.chosen.start + torch.randint(len(self.chosen), (len(index),), generator=generator)
        return self.rows.read(index * (1 + self.views) + 1 + view).float()


class PlainOutputs:
    """Outputs of frozen stages for the images as they are, without random changes."""

    def __init__(self, rows: RowFile, views: int) -> None:
        self.rows, self.views = rows, views

    def __len__(self) -> int:
        return len(self.rows) // (1 + self.views)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of outputs."""
        return self.rows.read(index * (1 + self.views)).float()


@dataclass(frozen=True, eq=False)
class StageOutputs:
    """All that the trained rest of a network needs of one set of images."""

    train: CachedViews
    """Augmented."""
    plain: PlainOutputs
    """As the network sees images when it is used."""
    found: bool
    """Whether another run, or this one before it was interrupted, had computed them."""
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)
    """Where the file is that ends with this object."""

    @property
    def weak(self) -> CachedViews:
        """The first half of the views: of images with the usual random changes."""
        return CachedViews(self.train.rows, self.train.views, range(_weak(self.train.views)))

    @property
    def strong(self) -> CachedViews:
        """The other views: of strongly changed images, where there are some."""
        return CachedViews(self.train.rows, self.train.views, range(_weak(self.train.views), self.train.views))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output for one image."""
        return self.plain.rows.shape


def _weak(views: int) -> int:
    """How many views are not strongly changed."""
    return (views + 1) // 2


def stage_outputs(
    stages: Stages,
    plain: Images,
    augmented: Images | None,
    *,
    identity: Sequence[str],
    strong: Images | None = None,
    folder: Path | None = None,
    name: str = "images",
    config: ViewsConfig | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress = lambda done, count, left: None,
    on_wait: Callable[[], None] = lambda: None,
) -> StageOutputs:
    """The outputs of frozen stages for a set of images, from a file in ``folder`` where there is one already.

    Args:
        stages: The frozen stages, :class:`FrozenStages` or any function of a batch that has no randomness.
        plain: The images as they are.
        augmented: The same images with random changes; None keeps the plain ones alone.
        identity: Texts that change whenever the outputs would: the digest of the stages, that of the images
            (:func:`digest_of_files`, :func:`digest_of_images`), and what the random changes are.
        strong: The same images with strong random changes, which the second half of the views are of.
        folder: Where the file is kept and found again; None keeps it for as long as the result lives.
        name: Beginning of the file's name.
        config: Number of views, and precision.
        seed: Of the random changes.
        device: Where the stages are.
        progress: Called after each block of images.
        on_wait: Called when another process is writing the same file.
    """
    config = config or ViewsConfig()
    views = (config.count or VIEWS) if augmented is not None else 0
    key = _key([*identity, str(seed)], config, views, len(plain))
    temporary = tempfile.TemporaryDirectory(prefix="residapt-") if folder is None else None
    path = Path(temporary.name if temporary else folder or "") / f"{name}-{key[:16]}.rows"
    with only_one(path, on_wait):
        rows = _open(path, key)
        found = rows is not None
        if rows is None:
            changed = [augmented if view < _weak(views) or strong is None else strong for view in range(views)]
            work = _Work(stages, plain, changed, seed, config.precision, torch.device(device))
            blocks = _computed(work, progress)
            manifest = {"identity": list(identity)[:8], "images": len(plain), "views": views, "seed": seed}
            write_rows(path, blocks, rows=len(plain) * (1 + views), key=key, manifest=manifest)
            rows = RowFile(path, key)
    return StageOutputs(CachedViews(rows, views), PlainOutputs(rows, views), found, temporary)


def digest_of_files(paths: Sequence[Path], root: Path) -> str:
    """A checksum of files' names, sizes and times of change."""
    found = hashlib.sha256()
    for path in paths:
        about = path.stat()
        found.update(f"{path.relative_to(root).as_posix()} {about.st_size} {about.st_mtime_ns}\n".encode())
    return found.hexdigest()


def digest_of_images(images: Images) -> str:
    """A checksum of images; those in memory are read where they are, others fetched."""
    found = hashlib.sha256()
    held = images.images if isinstance(images, TensorImages) else None
    for index in torch.split(torch.arange(len(images)), 64):
        part = images.fetch(index, torch.Generator()) if held is None else held[index]
        found.update(f"{part.dtype} {tuple(part.shape)}".encode())
        found.update(part.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _key(identity: Sequence[str], config: ViewsConfig, views: int, count: int) -> str:
    parts = [*identity, config.precision, str(views), str(count), str(BLOCK)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _open(path: Path, key: str) -> RowFile | None:
    """The finished file; one that is damaged counts as none."""
    try:
        return RowFile(path, key)
    except (FileNotFoundError, UnusableFileError):
        return None


@dataclass(frozen=True, eq=False)
class _Work:
    """What is computed, and how."""

    stages: Stages
    plain: Images
    changed: Sequence[Images | None]
    """The images with random changes, for each view."""
    seed: int
    precision: str
    device: torch.device

    def batches(self, index: Tensor) -> list[Tensor]:
        """Some images as they are, then each of their views."""
        start = int(index[0])
        found = [self.plain.fetch(index, torch.Generator().manual_seed(0))]
        for view, images in enumerate(self.changed):
            assert images is not None
            generator = torch.Generator().manual_seed(derived_seed(self.seed, "views", view, start))
            found.append(images.fetch(index, generator))
        # A GPU is quicker with all at once; elsewhere the activations would only take memory.
        return [torch.cat(found)] if self.device.type == "cuda" else found


@torch.no_grad()
def _computed(work: _Work, progress: Progress) -> Iterator[Tensor]:
    """Rows of a few images at a time: the plain output of an image, then its views."""
    if isinstance(work.stages, nn.Module):
        work.stages.to(memory_format=torch.channels_last)
    begin, count = time.monotonic(), len(work.plain)
    for index in torch.split(torch.arange(count), BLOCK):
        start = int(index[0])
        outputs = torch.cat([work.stages(group.to(work.device)).cpu() for group in work.batches(index)])
        kept = _kept(outputs, work.precision, start)
        yield kept.view(1 + len(work.changed), len(index), *kept.shape[1:]).transpose(0, 1).flatten(0, 1)
        done = start + len(index)
        progress(done, count, (time.monotonic() - begin) / done * (count - done))


def _kept(outputs: Tensor, precision: str, start: int) -> Tensor:
    """The outputs in the precision in which they are kept, refused where they do not fit."""
    kept = outputs.half() if precision == "float16" else outputs.float()
    if bool(torch.isfinite(kept).all()):
        return kept
    if bool(torch.isfinite(outputs).all()):
        raise ModelError(
            f"the frozen stages give values up to {float(outputs.abs().max()):.3g}, which float16 cannot hold. "
            "Set views.precision to float32, or freeze fewer stages."
        )
    raise DataError(
        f"the frozen stages give NaN or infinity for one of the images {start} to {start + BLOCK - 1}. "
        "Check the weights of the network and the images."
    )
