"""What a pair of domains is: before it is kept on disk (``Rendered``) and as a user has it (``ProvingPair``)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from residapt_bench.proving_ground.library import ConfigError, DataError

NetworkKind = Literal["lenet", "dtn", "uavnet", "efficientnet_lite0", "resnet50", "mlp", "conv1d"]
Variant = Literal["closed", "partial", "open", "skewed"]
Metric = Literal["accuracy", "average_precision"]

UNKNOWN = -1
"""Label of target samples whose class the source does not know; none of them is ever scored."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Images (or features, or series) with a label each."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise DataError(
                f"{len(self.images)} samples need int64 labels of shape ({len(self.images)},), got "
                f"{self.labels.dtype} of shape {tuple(self.labels.shape)}."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Samples:
        """The samples at ``index`` (numbers, or a mask), in that order."""
        return Samples(self.images[index], self.labels[index])


@dataclass(frozen=True, eq=False)
class Rendered:
    """A pair as it was made. It still has the target's labels, so that wrappers can leave classes out."""

    source: Samples
    target: Samples
    """What is trained on, without its labels."""
    classes: tuple[str, ...]
    test: Samples | None = None
    """What is scored; None: the target itself."""
    few: Samples | None = None
    """Labelled target samples that training may read."""
    digest: str = ""
    """Digest in place of the tensors' own, where these come from a network and differ in their last bits."""

    @property
    def scored(self) -> Samples:
        """What is scored."""
        return self.target if self.test is None else self.test

    @property
    def checksum(self) -> str:
        """SHA-256 over all tensors: names, types, shapes and values."""
        return self.digest or tensors_checksum(self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """What is kept. The labels of the unlabelled target are not."""
        named = {"source": self.source, "few": self.few, "test": self.test}
        kept = {"target images": self.target.images}
        for name, samples in named.items():
            if samples is not None:
                kept |= {f"{name} images": samples.images, f"{name} labels": samples.labels}
        if self.test is None:
            kept["test labels"] = self.target.labels
        return {name: tensor.contiguous() for name, tensor in kept.items()}


@dataclass(frozen=True)
class Place:
    """Where data are read, and where what was made of them is kept."""

    root: Path
    cache: Path


Maker = Callable[[Place, int], Rendered]
"""Place and seed in, a pair out; ``functools.partial`` of a module-level function."""


@dataclass(frozen=True, kw_only=True)
class PairSpec:
    """A pair's entry in the registry."""

    name: str
    kind: str
    """The kind of shift. Leave-one-kind-out leaves all pairs of a kind out together."""
    network: NetworkKind
    description: str
    make: Maker
    reads: tuple[str, ...] = ()
    """Folders of the data that it is made from."""
    variant: Variant = "closed"
    base: str | None = None
    """The pair that this one is a variant of; it then has the shift of that one as well."""
    protocol: str = "unlabelled training images of the target, scored on other images"
    transductive: bool = False
    """Whether the images that are scored are among those that were trained on without labels."""
    metric: Metric = "accuracy"

    @property
    def classes_differ(self) -> bool:
        """Whether the target lacks classes or has others, which a note should say."""
        return self.variant in ("partial", "open")


@dataclass(frozen=True, eq=False)
class ProvingPair:
    """A pair as somebody with tensors has it: nothing here but the test tells the target's labels."""

    spec: PairSpec
    seed: int
    source_images: Tensor
    """uint8 (n, channels, height, width); float features (n, features); float series (n, channels, length)."""
    source_labels: Tensor
    target_images: Tensor
    target_test: tuple[Tensor, Tensor]
    """Images and labels to score, of classes that the source knows."""
    few: tuple[Tensor, Tensor] | None
    """Labelled target samples that training may read."""
    classes: tuple[str, ...]
    unknown_share: float
    """Share of the target's samples whose class the source does not know; to check health notes against."""
    checksum: str
    root: Path = field(repr=False)

    @property
    def name(self) -> str:
        """The pair's name."""
        return self.spec.name

    @property
    def kind(self) -> str:
        """The kind of shift."""
        return self.spec.kind

    @property
    def protocol(self) -> str:
        """What is trained on and what is scored."""
        return self.spec.protocol

    @property
    def transductive(self) -> bool:
        """Whether the images that are scored are among those that were trained on without labels."""
        return self.spec.transductive

    @property
    def source(self) -> tuple[Tensor, Tensor]:
        """Source images and labels."""
        return self.source_images, self.source_labels

    @property
    def is_images(self) -> bool:
        """Whether the samples are pictures, and not features or series."""
        return self.source_images.dtype == torch.uint8

    @property
    def channels(self) -> int:
        """Channels of an image or series; number of features."""
        return int(self.source_images.shape[1])

    @property
    def image_size(self) -> int | None:
        """Side of the images; None for features and series."""
        return int(self.source_images.shape[-1]) if self.is_images else None

    def network(self, seed: int) -> nn.Module:
        """A fresh network for this pair; the deep ones with ImageNet's weights and a new classifier."""
        from residapt_bench.proving_ground.networks import pair_network

        return pair_network(self, seed)


def tensors_checksum(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        values = tensors[name].contiguous().numpy()
        digest.update(f"{name} {values.dtype} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def random_numbers(*words: str | int) -> np.random.Generator:
    """Random numbers that depend on these words alone, not on the order in which pairs are made."""
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def as_tensor(pixels: NDArray[Any]) -> Tensor:
    """An array as a tensor that owns its memory."""
    return torch.from_numpy(np.ascontiguousarray(pixels))


def require(condition: bool, message: str) -> None:
    """Refuse a setting of a pair that cannot be meant."""
    if not condition:
        raise ConfigError(message)
