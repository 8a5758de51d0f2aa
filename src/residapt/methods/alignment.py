"""The loss of a step that all alignment methods share: classification, discrepancy, stream loss (Eq. 4)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from residapt.data.batches import Batch
from residapt.losses.stream import stream_loss
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import Discrepancy
from residapt.rank import RankChange, grouped_core, rank_penalty, shrink
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Losses, Method, weighted_sum
from residapt.train.schedule import ramp
from residapt.transform import ResidualTransform


class Alignment(Method):
    """A two-stream network, a discrepancy, and whatever keeps the streams together.

    With no transformed layer both streams are one network and this is plain alignment (DANN, CORAL, ...).
    """

    name = "alignment"

    def __init__(
        self, two: TwoStream, discrepancy: Discrepancy | None, config: MethodConfig, *, select_ranks: bool
    ) -> None:
        super().__init__()
        self.two, self.discrepancy, self.config = two, discrepancy, config
        self.select_ranks = select_ranks and config.rank.weight > 0
        if not config.train_source:
            two.model.requires_grad_(False)

        self.started_with = two.ranks()

    @property
    def inner(self) -> tuple[str, ...]:
        """Inner layers that the losses read."""
        return () if self.discrepancy is None else self.discrepancy.inner

    def discrepancy_weight(self, progress: float) -> float:
        """Weight of the discrepancy in the network's loss at training progress p."""
        settings = self.config.discrepancy
        return settings.weight * ramp(progress, settings.gamma)

    def more_losses(self, batch: Batch, source: Outputs, target: Outputs) -> dict[str, tuple[float, Tensor]]:
        """Further terms of a method: weight and value by name."""
        return {}

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 4, with the parts by name."""
        residuals = self.two.residuals()
        source, target = self.two.both(batch.source, batch.target, residuals=residuals, inner=self.inner)
        parts: dict[str, Tensor] = {"class": functional.cross_entropy(source.logits, batch.labels)}
        weights: dict[str, float] = {}
        if batch.few is not None and batch.few_labels is not None:
            few = self.two.outputs(batch.few, stream="target", residuals=residuals)
            parts["target_class"] = functional.cross_entropy(few.logits, batch.few_labels)
        watch = self._add_discrepancy(parts, weights, source, target, progress)
        for name, (weight, part) in self.more_losses(batch, source, target).items():
            parts[name], weights[name] = part, weight
        energy = self.two.energy(residuals)
        if energy is not None:
            parts["stream"], weights["stream"] = stream_loss(energy), self.config.stream_weight
            watch["energy"] = energy
        if self.select_ranks and self.config.penalty == "gradient":
            parts["rank"], weights["rank"] = self._penalty(), self.config.rank.weight
        return weighted_sum(parts, weights, watch)

    def _add_discrepancy(
        self,
        parts: dict[str, Tensor],
        weights: dict[str, float],
        source: Outputs,
        target: Outputs,
        progress: float,
    ) -> dict[str, Tensor]:
        if self.discrepancy is None:
            return {}
        found = self.discrepancy(source, target)
        parts["confusion"], weights["confusion"] = found.network, self.discrepancy_weight(progress)
        if found.own is not None:
            parts["domain"] = found.own
        return dict(found.watch)

    def _penalty(self) -> Tensor:
        items = []
        for name in self.two.layers:
            transform = self.two.transform(name)
            if isinstance(transform, ResidualTransform) and transform.alive:
                items.append(grouped_core(transform, *self.two.source_tensors(name)))
        return rank_penalty(items, self.config.rank.group_weights)

    def after_step(self, step: int, optimizer: Optimizer) -> list[RankChange]:
        """Rank selection when it is due (Algorithm 1, lines 3-6)."""
        if self.select_ranks and self.config.penalty == "prox" and self.config.rank.due(step):
            return shrink(self.two, self.config.rank, optimizer)
        return []

    def notices(self) -> list[str]:
        """Say when rank selection has done nothing, and which setting decides it."""
        had_ranks = any(max(ranks) > 0 for ranks in self.started_with.values())
        if not self.select_ranks or not had_ranks or self.two.ranks() != self.started_with:
            return []
        rank = self.config.rank
        return [
            f"no rank has fallen: t = {rank.step:g} every {rank.every} steps with weight {rank.weight:g} was "
            f"too little. Raise rank.step (try {3 * rank.step:g}) or lower rank.every."
        ]
