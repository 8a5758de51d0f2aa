"""Office-31's images, decoded once, and what the frozen stages make of them, computed once.

A frozen stage gives the same output for the same pixels at every step of every run. So it is computed for a number of
augmented views of each image, kept as half-precision numbers, and training goes on from there. All methods read the
same file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from residapt.data.augment import RandomCrop
from residapt.data.batches import derived_seed
from residapt.data.decoded import decode_all
from residapt.data.domains import Labelled
from residapt.data.folders import LabelledFiles, scan_source
from residapt.data.preprocess import to_float
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec, input_spec
from residapt.storage.atomic import atomic_file
from residapt_bench.office31.network import CLASSES, OfficeNetwork, frozen_stages
from residapt_bench.source_networks import locked

MARGIN = 1.25
"""Images are decoded larger than the network reads them, so that a crop has pixels of its own."""
CHUNK = 64


@dataclass(frozen=True, eq=False)
class Domain:
    """One domain as the trained part of the network sees it."""

    views: Tensor
    """(views, images, ...), half precision: what training reads."""
    plain: Tensor
    """(images, ...): without augmentation, what is scored."""
    labels: Tensor
    checksum: str
    """Of the decoded pixels."""

    def training(self) -> CachedActivations:
        """Images for training."""
        return CachedActivations(self.views)

    def scored(self) -> Labelled:
        """Images and labels for scoring."""
        return Labelled(CachedActivations(self.plain.unsqueeze(0)), self.labels)


class CachedActivations:
    """Cached activations as images: each sample of a batch is one of its views, at random."""

    def __init__(self, views: Tensor) -> None:
        self.views = views

    def __len__(self) -> int:
        return self.views.shape[1]

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of activations."""
        view = torch.randint(len(self.views), (len(index),), generator=generator)
        return self.views[view, index].float()


@lru_cache(maxsize=3)
def load_domain(name: str, network: OfficeNetwork, root: Path, cache: Path) -> Domain:
    """A domain's activations, from the cache where another run has made them already."""
    folders = scan_source(root / "office31" / name / "images")
    if len(folders.classes) != CLASSES:
        raise DataError(f"'{folders.root}' has {len(folders.classes)} classes; Office-31 has {CLASSES}.")
    path = cache / f"office31-{name}-{_key(network, root)}.safetensors"
    with locked(path):
        if not path.exists():
            _save(_activations(name, network, root, folders, cache), path)
    found = load_file(path)
    checksum = bytes(found["checksum"].tolist()).decode()
    return Domain(found["views"], found["plain"], found["labels"], checksum)


def _activations(
    name: str, network: OfficeNetwork, root: Path, folders: LabelledFiles, cache: Path
) -> dict[str, Tensor]:
    form = input_spec(network.arch)
    pixels, labels = _pixels(name, network.image_size, folders, form, cache)
    stages = frozen_stages(network, root)

    def outputs(view: int | None) -> Tensor:
        generator = torch.Generator().manual_seed(derived_seed("office31", name, "view", -1 if view is None else view))
        pieces = []
        for part in torch.split(pixels, CHUNK):
            images = to_float(part, form.mean, form.std)
            images = images if view is None else RandomCrop()(images, generator)
            pieces.append(stages(_shrunk(images, network.image_size)).half())
        return torch.cat(pieces).contiguous()

    checksum = hashlib.sha256(pixels.numpy().tobytes()).hexdigest()[:16]
    return {
        "views": torch.stack([outputs(view) for view in range(network.views)]),
        "plain": outputs(None),
        "labels": labels,
        "checksum": torch.tensor(list(checksum.encode()), dtype=torch.uint8),
    }


def _pixels(name: str, image_size: int, folders: LabelledFiles, form: InputSpec, cache: Path) -> tuple[Tensor, Tensor]:
    """All images as uint8, decoded once; the file is as good as the folder it was read from."""
    size = round(image_size * MARGIN)
    path = cache / f"office31-{name}-{size}-{_listing(folders)}.safetensors"
    if not path.exists():
        wanted = form.model_copy(update={"size": size, "channels": 3})
        decoded = decode_all(folders.paths, wanted, what=f"office31 {name}")
        _save({"pixels": decoded.pixels, "labels": folders.labels[decoded.kept]}, path)
    found = load_file(path)
    return found["pixels"], found["labels"]


def _shrunk(images: Tensor, size: int) -> Tensor:
    small = functional.interpolate(images, (size, size), mode="bilinear", antialias=True)
    return small.contiguous(memory_format=torch.channels_last)


def _listing(folders: LabelledFiles) -> str:
    lines = [f"{path.relative_to(folders.root)} {path.stat().st_size}" for path in folders.paths]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _key(network: OfficeNetwork, root: Path) -> str:
    """Of everything that changes the activations; the classifier and its width do not."""
    digest = hashlib.sha256(network.model_dump_json(exclude={"bottleneck"}).encode())
    if network.weights is not None and (file := root / network.weights).is_file():
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    with atomic_file(path, overwrite=True) as temporary:
        save_file(tensors, temporary)
