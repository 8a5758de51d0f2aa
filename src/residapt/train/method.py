"""What the trainer asks of a method. A new method is one file that subclasses :class:`Method`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair
from residapt.evaluate.predict import Predictor
from residapt.rank import RankChange
from residapt.streams import Stream, TwoStream, merge_and_unload


@dataclass(frozen=True)
class Losses:
    """The losses of one step: what is minimised, its parts by name, and numbers worth watching."""

    total: Tensor
    parts: dict[str, Tensor]
    watch: dict[str, Tensor] = field(default_factory=dict)


def weighted_sum(parts: dict[str, Tensor], weights: dict[str, float], watch: dict[str, Tensor] | None = None) -> Losses:
    """Add up the parts; one without a weight counts once, one with weight 0 is shown but not minimised."""
    terms = [weights.get(name, 1.0) * part for name, part in parts.items() if weights.get(name, 1.0) != 0.0]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return Losses(total, parts, watch or {})


class Method(Predictor, ABC):
    """A way to adapt: what is trained, the loss of one step, and what happens between steps."""

    name: str
    streams: TwoStream
    reads_target: bool = True
    """Whether the losses read ``batch.target``; where they do not, target images are not fetched."""
    pull: float = 1.0
    """Factor of the losses that pull the domains together; the trainer lowers it after a divergence."""

    speed: float = 1.0
    """Progress of a step to that which the settings were made for; another one where the trainer has changed the
    number of steps."""

    @abstractmethod
    def losses(self, batch: Batch, progress: float) -> Losses:
        """The losses of one step at training progress p in [0, 1]."""

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by group: ``network``, ``transform``, and ``adversary`` for all that is thrown away later."""
        network, transform = list(self.streams.model.parameters()), self.streams.target_only_parameters()
        known = {id(parameter) for parameter in (*network, *transform)}
        network = [] if self.streams.fixed else network
        others = [parameter for parameter in self.own_parameters() if id(parameter) not in known]
        return {"network": network, "transform": transform, "adversary": others}

    def own_parameters(self) -> list[nn.Parameter]:
        """All parameters but those of averages, which nothing trains."""
        averages = [] if self.streams.average is None else self.streams.average.parameters()
        left_out = {id(parameter) for parameter in averages}
        return [parameter for parameter in self.parameters() if id(parameter) not in left_out]

    def setup(self, pair: DomainPair, classes: int) -> None:
        """Learn what can be known of the data before the first step; called once, by the trainer."""

    def wants_view(self, progress: float) -> bool:
        """Whether the losses at training progress p read ``batch.view``, a second view of the target images."""
        return False

    def further_losses(self) -> Iterator[Tensor]:
        """Losses of further optimiser steps on the same batch, for helpers such as a domain classifier.

        Each is computed after the step of the one before; only parameters with a gradient of it are changed.
        """
        return iter(())

    def after_step(self, step: int, optimizer: Optimizer) -> list[RankChange]:
        """Called after optimiser step number ``step`` (from 1); gives the ranks that changed."""
        return []

    def due(self, step: int) -> bool:
        """Whether :meth:`after_step` reads tensors after that step, as rank selection does.

        The numbers of the latest steps are then read before, so that it never works on a training that has diverged.
        """
        return False

    def new_notes(self) -> list[str]:
        """What a person should know now, each thing once; read after every step."""
        return []

    def record(self) -> dict[str, Any]:
        """What the method has found out besides weights, as JSON can hold it, for records and reports."""
        return {}

    def final_notes(self) -> list[str]:
        """What a person should know when training has ended, in plain words."""
        return []

    def predict(self, x: Tensor, stream: Stream = "target") -> Tensor:
        """Logits of one stream."""
        logits: Tensor = self.streams(x, stream=stream)
        return logits

    def target_model(self) -> nn.Module:
        """The plain network for the target domain."""
        return merge_and_unload(self.streams)
