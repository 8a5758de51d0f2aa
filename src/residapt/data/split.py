"""A share of a labelled set held out, the same share of every class."""

from __future__ import annotations

import torch
from torch import Tensor

from residapt.data.batches import derived_seed
from residapt.data.domains import Images, Labelled


class Part:
    """Some of many images."""

    def __init__(self, images: Images, chosen: Tensor) -> None:
        self.images, self.chosen = images, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """The chosen images at ``index``."""
        return self.images.fetch(self.chosen[index], generator)


def part_of(data: Labelled, chosen: Tensor) -> Labelled:
    """The labelled images at ``chosen``."""
    return Labelled(Part(data.images, chosen), data.labels[chosen])


def stratified_split(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices to train on and indices held out, both sorted.

    Of each class of n images, ``share * n`` rounded are held out, at least one if there are two or more, never all.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "holdout"))
    kept, held = [], []
    for label in sorted(set(labels.tolist())):
        members = (labels == label).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        held.append(members[:count])
        kept.append(members[count:])
    return torch.cat(kept).sort().values, torch.cat(held).sort().values
