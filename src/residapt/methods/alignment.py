"""The loss of a step that all alignment methods share: classification, discrepancy, stream loss (Eq. 4)."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from residapt.data.batches import Batch
from residapt.losses.classification import weighted_cross_entropy
from residapt.losses.stream import stream_loss
from residapt.methods.base import AdaptingMethod
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy.base import Discrepancy
from residapt.rank import RankChange, RankConfig, grouped_core, rank_penalty, shrink
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Losses, weighted_sum
from residapt.transform import ResidualTransform


class Alignment(AdaptingMethod):
    """A two-stream network, a discrepancy, and whatever keeps the streams together.

    With no transformed layer both streams are one network and this is plain alignment (DANN, CORAL, ...).
    """

    name = "alignment"

    def __init__(
        self, streams: TwoStream, discrepancy: Discrepancy | None, config: MethodConfig, *, select_ranks: bool
    ) -> None:
        super().__init__(config)
        self.streams, self.discrepancy = streams, discrepancy
        self.select_ranks = select_ranks and config.rank.weight > 0
        if not config.train_source:
            streams.fix_base()
        self.started_with = streams.ranks()

    @property
    def inner(self) -> tuple[str, ...]:
        """Inner layers that the losses read."""
        return () if self.discrepancy is None else self.discrepancy.inner

    def discrepancy_weight(self, progress: float) -> float:
        """Weight of the discrepancy in the network's loss at training progress p."""
        return self.pull * self.config.discrepancy.weight_at(progress)

    def more_losses(self, batch: Batch, source: Outputs, target: Outputs) -> dict[str, tuple[float, Tensor]]:
        """Further terms of a method: weight and value by name."""
        return {}

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 4, with the parts by name."""
        batch = self.changed(batch)
        counts = self.source_weights(batch.labels)
        residuals = self.streams.residuals()
        source, target = self.streams.both(batch.source, batch.target, residuals=residuals, inner=self.inner)
        parts: dict[str, Tensor] = {"class": weighted_cross_entropy(source.logits, batch.labels, counts)}
        weights: dict[str, float] = {}
        if batch.few is not None and batch.few_labels is not None:
            few = self.streams.outputs(batch.few, stream="target", residuals=residuals)
            parts["target_class"] = functional.cross_entropy(few.logits, batch.few_labels)
            weights["target_class"] = self.config.few_weight
        if self.config.transferred_weight > 0:
            through = self.streams.transferred(batch.source, residuals)
            parts["transferred"] = weighted_cross_entropy(through, batch.labels, counts)
            weights["transferred"] = self.config.transferred_weight
        watch = self._add_discrepancy(parts, weights, source, target, counts, progress)
        self.add_terms(
            parts, weights, watch, batch=batch, source=source, target=target, residuals=residuals, progress=progress
        )
        for name, (weight, part) in self.more_losses(batch, source, target).items():
            parts[name], weights[name] = part, weight
        energy = self.streams.energy(residuals)
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
        counts: Tensor | None,
        progress: float,
    ) -> dict[str, Tensor]:
        if self.discrepancy is None:
            return {}
        found = self.discrepancy(source, target, counts)
        parts["confusion"], weights["confusion"] = found.network, self.discrepancy_weight(progress)
        if found.own is not None:
            parts["domain"] = found.own
        return dict(found.watch)

    def _penalty(self) -> Tensor:
        items = []
        for name in self.streams.layers:
            transform = self.streams.transform(name)
            if isinstance(transform, ResidualTransform) and transform.alive:
                items.append(grouped_core(transform, *self.streams.source_tensors(name), self.streams.start_size(name)))
        return rank_penalty(items, self.config.rank.group_weights)

    def further_losses(self) -> Iterator[Tensor]:
        """Those of the discrepancy."""
        return iter(()) if self.discrepancy is None else self.discrepancy.further_losses()

    def after_step(self, step: int, optimizer: Optimizer) -> list[RankChange]:
        """Rank selection when it is due (Algorithm 1, lines 3-6), and what every method does."""
        changes = shrink(self.streams, self._rank_config(), optimizer) if self._selects_ranks(step) else []
        return changes + super().after_step(step, optimizer)

    def due(self, step: int) -> bool:
        """Rank selection reads the transforms."""
        return self._selects_ranks(step) or super().due(step)

    def _selects_ranks(self, step: int) -> bool:
        return self.select_ranks and self.config.penalty == "prox" and self.config.rank.due(step)

    def _rank_config(self) -> RankConfig:
        """With proximal steps that are larger where there are fewer of them than the settings were made for."""
        rank = self.config.rank
        return rank if self.speed == 1.0 else rank.model_copy(update={"step": self.speed * rank.step})

    def final_notes(self) -> list[str]:
        """Say when rank selection has done nothing, and which setting decides it."""
        return super().final_notes() + self._idle_ranks()

    def _idle_ranks(self) -> list[str]:
        had_ranks = any(max(ranks) > 0 for ranks in self.started_with.values())
        if not self.select_ranks or not had_ranks or self.streams.ranks() != self.started_with:
            return []
        rank = self.config.rank
        return [
            f"no rank has fallen: t = {rank.step:g} every {rank.every} steps with weight {rank.weight:g} was "
            f"too little. Raise rank.step (try {3 * rank.step:g}) or lower rank.every."
        ]
