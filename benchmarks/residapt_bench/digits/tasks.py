"""Digit tasks as pairs of domains: which files, how they become tensors, and what is scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.data.imageset import ImageSet
from residapt.data.preprocess import resize, to_grey, to_rgb
from residapt.errors import ConfigError
from residapt.evaluate.predict import Evaluation
from residapt.models.input_spec import InputSpec, input_spec
from residapt_bench.digits.class_counts import Counts, with_counts
from residapt_bench.digits.readers import read_mnist, read_svhn, read_usps
from residapt_bench.digits.recipes import Pixels

READERS: dict[str, Callable[[Path, str], ImageSet]] = {"svhn": read_svhn, "mnist": read_mnist, "usps": read_usps}
TASKS = {
    "svhn-mnist": ("svhn", "mnist"),
    "svhn-usps": ("svhn", "usps"),
    "mnist-usps": ("mnist", "usps"),
    "usps-mnist": ("usps", "mnist"),
}


@dataclass(frozen=True)
class Task:
    """Both domains in the form that one architecture reads, and the sets that are only scored."""

    pair: DomainPair
    evaluations: tuple[Evaluation, ...]
    official: bool
    """Whether every file was, byte for byte, the published one."""
    files: tuple[str, ...]
    """Names and checksums of what was read."""


def load_task(name: str, arch: str, root: Path, pixels: Pixels = "[-1, 1]", counts: Counts = "all") -> Task:
    """Read a task's files; the target's training labels stay behind in its evaluation."""
    if name not in TASKS:
        raise ConfigError(f"there is no task '{name}'; tasks: {', '.join(TASKS)}.")
    source, target = TASKS[name]
    spec = input_spec(arch)
    sets = {
        (which, split): with_counts(_read(which, split, root, spec), counts, target=which == target)
        for which in (source, target)
        for split in ("train", "test")
    }
    train_s, test_s = sets[source, "train"], sets[source, "test"]
    train_t, test_t = sets[target, "train"], sets[target, "test"]
    scale_s, scale_t = scale_for(spec, pixels, train_s), scale_for(spec, pixels, train_t)
    pair = DomainPair(_labelled(train_s, scale_s), _images(train_t, scale_t))
    evaluations = (
        Evaluation("target_test", _labelled(test_t, scale_t)),
        Evaluation("target_train", _labelled(train_t, scale_t), protocol="transductive"),
        Evaluation("source_test", _labelled(test_s, scale_s), stream="source"),
    )
    files = tuple(f"{item.name} {item.checksum}" for item in sets.values())
    return Task(pair, evaluations, all(item.official for item in sets.values()), files)


@lru_cache(maxsize=8)
def _read(which: str, split: str, root: Path, spec: InputSpec) -> ImageSet:
    from dataclasses import replace

    found = READERS[which](root, split)
    images = to_grey(found.images) if spec.channels == 1 and found.images.shape[1] == 3 else found.images
    images = to_rgb(images) if spec.channels == 3 and images.shape[1] == 1 else images
    return replace(found, images=resize(images, spec.size))


def _images(data: ImageSet, scale: Scale) -> TensorImages:
    return TensorImages(data.images, scale, name=data.name)


def _labelled(data: ImageSet, scale: Scale) -> Labelled:
    return Labelled(_images(data, scale), data.labels)


class Scale:
    """uint8 to floats, (x - mean) / std per channel in one pass; both are in units of the whole range, 255."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean).view(1, -1, 1, 1) * 255
        self.std = torch.tensor(std).view(1, -1, 1, 1) * 255

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Normalised floats."""
        return images.float().sub_(self.mean).div_(self.std)


def scale_for(spec: InputSpec, pixels: Pixels, data: ImageSet) -> Scale:
    """The scale of a recipe: the network's own, [0, 1], or centred at the mean of the domain's training images."""
    if pixels == "[-1, 1]":
        return Scale(spec.mean, spec.std)
    if pixels == "[0, 1]":
        return Scale((0.0,), (1.0,))
    return Scale((data.images.float().mean(dim=(0, 2, 3)) / 255).tolist(), (1.0,))
