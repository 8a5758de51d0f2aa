"""Batches as a pure function of the step, so that resuming needs no sampler state at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from residapt.data.config import Balance
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
    view: Tensor | None = None
    """A second random view of the same target images, if requested."""

    def to(self, device: torch.device, memory_format: torch.memory_format | None = None) -> Batch:
        """The batch on a device; images in the given memory format where they have four dimensions.

        Nobody waits for the copy of pinned memory: what uses it on the device comes after it.
        """

        def move(tensor: Tensor) -> Tensor:
            moved = tensor.to(device, non_blocking=tensor.device.type == "cpu" and tensor.is_pinned())
            return moved.contiguous(memory_format=memory_format) if memory_format and moved.ndim == 4 else moved

        return self._each(move)

    def pinned(self) -> Batch:
        """The batch in memory from which a GPU copies by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        tensors = (getattr(self, name) for name in self.__dataclass_fields__)
        return Batch(*(None if tensor is None else change(tensor) for tensor in tensors))  # type: ignore[arg-type]


def derived_seed(*parts: int | str) -> int:
    """A seed that depends on all its parts; unlike sums, different parts never meet in the same seed."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


class Order:
    """Sample order: sample number g of the endless stream is permutation g // n at place g % n.

    Several threads may ask at the same time, in this epoch and in the next.
    """

    def __init__(self, size: int, seed: int, name: str) -> None:
        self.size, self.seed, self.name = size, seed, name
        self._permutations: dict[int, Tensor] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_permutations": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

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
        with self._lock:
            if epoch not in self._permutations:
                generator = torch.Generator().manual_seed(derived_seed(self.seed, self.name, epoch))
                made = torch.randperm(self.size, generator=generator)
                # Those that are left: of the epoch before, which other threads may still be in.
                self._permutations = {epoch: made, **dict(sorted(self._permutations.items())[-1:])}
            return self._permutations[epoch]


class BalancedOrder:
    """Sample order in which every class comes equally often, and every image of a class as often as the others.

    The endless stream goes in rounds. Each class comes once in a round, at a random place, with the next image of the
    class's own :class:`Order`; so round r holds image number r of every class, and the stream needs no state either.
    """

    def __init__(self, labels: Tensor, seed: int, name: str) -> None:
        self.members = [(labels == label).nonzero().flatten() for label in sorted(set(labels.tolist()))]
        self.own = [Order(len(m), seed, f"{name}/class {place}") for place, m in enumerate(self.members)]
        self.rounds = Order(len(self.members), seed, f"{name}/round")

    def take(self, start: int, count: int) -> Tensor:
        """The indices of ``count`` samples from place ``start`` of the endless stream."""
        classes = len(self.members)
        first, end = start // classes, -(-(start + count) // classes)
        images = torch.stack(
            [members[own.take(first, end - first)] for members, own in zip(self.members, self.own, strict=True)]
        )
        places = self.rounds.take(first * classes, (end - first) * classes)
        numbers = torch.arange(end - first).repeat_interleave(classes)
        return images[places, numbers][start - first * classes :][:count]


class Batches:
    """``batch(step)`` draws from both domains; with several processes each gets its share of the global batch.

    ``few`` is the number of labelled target images in a step, by default as many as of each domain: a few images are
    repeated in it, each as often as the others, which leaves their mean as it is and gives batch norm enough samples.
    """

    def __init__(
        self, pair: DomainPair, *, size: int, seed: int, rank: int = 0, world: int = 1, few: int | None = None
    ) -> None:
        self.pair, self.seed = pair, seed
        self.sizes = {"source": size, "target": size}
        self.orders: dict[str, Order | BalancedOrder] = {
            "source": _labelled_order(pair.source, pair.balance, seed, "source"),
            "target": Order(len(pair.target), seed, "target"),
        }
        if pair.few is not None:
            self.sizes["few"] = size if few is None else few
            self.orders["few"] = _labelled_order(pair.few, pair.balance, seed, "few")
        self.shares = {name: _share(name, count, rank, world) for name, count in self.sizes.items()}

    def batch(self, step: int, *, view: bool = False, target: bool = True) -> Batch:
        """The batch of that step: the same whenever it is fetched.

        ``view`` adds the target images with other random changes, those that the data itself makes. Without ``target``
        none are fetched, and the source images stand in their place.
        """
        source, labels = self._labelled(step, "source", self.pair.source)
        if not target:
            return self._with_few(Batch(source, labels, source), step)
        index = self._index(step, "target")
        images = self._fetch(self.pair.target, index, step, "target")
        views = self.pair.target if self.pair.views is None else self.pair.views
        again = self._fetch(views, index, step, "target", "view") if view else None
        return self._with_few(Batch(source, labels, images, view=again), step)

    def _with_few(self, batch: Batch, step: int) -> Batch:
        if self.pair.few is None:
            return batch
        few, labels = self._labelled(step, "few", self.pair.few)
        return replace(batch, few=few, few_labels=labels)

    def _labelled(self, step: int, name: str, data: Labelled) -> tuple[Tensor, Tensor]:
        index = self._index(step, name)
        return self._fetch(data.images, index, step, name), data.labels[index]

    def _index(self, step: int, name: str) -> Tensor:
        size = self.sizes[name]
        return self.orders[name].take(step * size, size)[self.shares[name]]

    def _fetch(self, images: Images, index: Tensor, step: int, name: str, changes: str = "augment") -> Tensor:
        generator = torch.Generator().manual_seed(derived_seed(self.seed, name, changes, step, self.shares[name].start))
        return images.fetch(index, generator)


def _labelled_order(data: Labelled, balance: Balance, seed: int, name: str) -> Order | BalancedOrder:
    return BalancedOrder(data.labels, seed, name) if balance == "classes" else Order(len(data.images), seed, name)


def _share(name: str, size: int, rank: int, world: int) -> slice:
    if size % world:
        setting = "few_batch" if name == "few" else "batch_size"
        raise ConfigError(f"{setting} {size} cannot be shared by {world} processes; use a multiple of {world}.")
    return slice(rank * size // world, (rank + 1) * size // world)
