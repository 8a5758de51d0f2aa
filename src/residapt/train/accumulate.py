"""Gradient accumulation: a batch in several passes, whose gradients add up to those of the batch.

Exact for losses that are means over samples (classification, domain classifier, confusion) and for terms that do not
look at samples (stream loss, rank penalty), as long as samples do not see each other. Batch norm computes its
statistics over each part, and MMD, CORAL and the entropy of mean predictions compare within each part: these are
means over the parts of what they would be for the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.train.method import Losses


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """The batch in ``parts`` of equal size, so that the mean of their means is the mean of the batch."""
    if parts == 1:
        return [batch]
    pieces: dict[str, Sequence[torch.Tensor | None]] = {}
    for name in batch.__dataclass_fields__:
        tensor = getattr(batch, name)
        if tensor is not None and len(tensor) % parts:
            raise ConfigError(
                f"train.accumulate = {parts} does not divide the {len(tensor)} samples of '{name}' in a step. "
                "Change it, or train.batch_size (train.few_batch)."
            )
        pieces[name] = [None] * parts if tensor is None else tensor.chunk(parts)
    return [Batch(**{name: found[number] for name, found in pieces.items()}) for number in range(parts)]  # type: ignore[arg-type]


def mean_losses(found: Sequence[Losses]) -> Losses:
    """The losses of the parts as those of the batch, without their graphs."""
    if len(found) == 1:
        return found[0]

    def mean(values: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack([value.detach() for value in values]).mean(0)

    return Losses(
        mean([losses.total for losses in found]),
        {name: mean([losses.parts[name] for losses in found]) for name in found[0].parts},
        {name: mean([losses.watch[name] for losses in found]) for name in found[0].watch},
    )
