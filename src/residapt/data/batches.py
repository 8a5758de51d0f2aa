"""Batches as a pure function of the step, so that resuming needs no sampler state at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.data.domains import DomainPair, Images, Labelled
from residapt.errors import ConfigError


@dataclass(frozen=True)
class Batch:
    """What one training step sees. There is no field for labels of the unlabelled target."""

    source: Tensor
    labels: Tensor
    target: Tensor
    few: Tensor | None = None
    few_labels: Tensor | None = None

    def to(self, device: torch.device, memory_format: torch.memory_format | None = None) -> Batch:
        """The batch on a device; images in the given memory format where they have four dimensions."""

        def move(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            moved = tensor.to(device)
            return moved.contiguous(memory_format=memory_format) if memory_format and moved.ndim == 4 else moved

        return Batch(*(move(getattr(self, name)) for name in self.__dataclass_fields__))  # type: ignore[arg-type]


def derived_seed(*parts: int | str) -> int:
    """A seed that depends on all its parts; unlike sums, different parts never meet in the same seed."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


class Order:
    """Sample order: sample number g of the endless stream is permutation g // n at place g % n."""

    def __init__(self, size: int, seed: int, name: str) -> None:
        self.size, self.seed, self.name = size, seed, name
        self._epoch, self._permutation = -1, torch.empty(0, dtype=torch.long)

    def take(self, start: int, count: int) -> Tensor:
        """The indices of ``count`` samples from place ``start`` of the endless stream."""
        pieces = []
        while count > 0:
            epoch, place = divmod(start, self.size)
            piece = self._of(epoch)[place : place + count]
            pieces.append(piece)
            start, count = start + len(piece), count - len(piece)
        return torch.cat(pieces)

    def _of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(derived_seed(self.seed, self.name, epoch))
            self._permutation = torch.randperm(self.size, generator=generator)
            self._epoch = epoch
        return self._permutation


class Batches:
    """``batch(step)`` draws from both domains; with several processes each gets its share of the global batch."""

    def __init__(self, pair: DomainPair, *, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if size % world:
            raise ConfigError(f"batch_size {size} cannot be shared by {world} processes; use a multiple of {world}.")
        self.pair, self.size, self.seed = pair, size, seed
        self.share = slice(rank * size // world, (rank + 1) * size // world)
        self.orders = {
            "source": Order(len(pair.source.images), seed, "source"),
            "target": Order(len(pair.target), seed, "target"),
        }
        if pair.few is not None:
            self.orders["few"] = Order(len(pair.few.images), seed, "few")

    def batch(self, step: int) -> Batch:
        """The batch of that step: the same whenever and by whomever it is asked."""
        source, labels = self._labelled(step, "source", self.pair.source)
        target = self._fetch(self.pair.target, self._index(step, "target"), step, "target")
        if self.pair.few is None:
            return Batch(source, labels, target)
        return Batch(source, labels, target, *self._labelled(step, "few", self.pair.few))

    def _labelled(self, step: int, name: str, data: Labelled) -> tuple[Tensor, Tensor]:
        index = self._index(step, name)
        return self._fetch(data.images, index, step, name), data.labels[index]

    def _index(self, step: int, name: str) -> Tensor:
        return self.orders[name].take(step * self.size, self.size)[self.share]

    def _fetch(self, images: Images, index: Tensor, step: int, name: str) -> Tensor:
        generator = torch.Generator().manual_seed(derived_seed(self.seed, name, "augment", step, self.share.start))
        return images.fetch(index, generator)
