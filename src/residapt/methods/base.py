"""Parts that any method that reads both domains can add to its losses; each is off by default.

* ``prior``: source samples are weighted to the target's class frequencies (:mod:`residapt.methods.extras.prior`);
* ``information``: information maximisation on the target's predictions;
* ``consistency``: changed target images are predicted like the images as they are;
* ``average``: predictions by a moving average of the weights (:mod:`residapt.streams.average`);
* ``augment``: random changes of the source images.

A subclass calls :meth:`AdaptingMethod.source_weights` before its losses and :meth:`AdaptingMethod.add_terms` after.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from residapt.data.augment import Augment
from residapt.data.batches import Batch
from residapt.data.domains import DomainPair
from residapt.data.strong import strong
from residapt.errors import ConfigError
from residapt.losses.consistency import consistency
from residapt.losses.gather import gather_features
from residapt.losses.information import class_confusion, information_maximisation
from residapt.methods.config import MethodConfig
from residapt.methods.extras.prior import TargetPrior, target_prior
from residapt.rank import RankChange
from residapt.streams import Outputs
from residapt.streams.average import StreamAverage
from residapt.streams.two_stream import Residuals
from residapt.train.method import Method
from residapt.train.schedule import ramp

VIEW = Augment(shift=2, rotate=10, scale=0.1, shear=0.1, contrast=0.3, value_range=None)
"""Small random changes that make another view of a target image."""


class AdaptingMethod(Method):
    """A method that reads both domains."""

    prior: TargetPrior | None

    def __init__(self, config: MethodConfig) -> None:
        super().__init__()
        self.config = config
        self.prior = None
        self.change = config.augment.build()
        self._progress = 0.0
        self._notes: list[str] = []

    def setup(self, pair: DomainPair, classes: int) -> None:
        """Learn the source's class frequencies, and make room for averaged weights."""
        like = next(self.streams.model.parameters())
        self.prior = target_prior(self.config.prior, pair, classes, like)
        if self.config.average.decay > 0:
            self.streams.average = StreamAverage(self.streams)

    def changed(self, batch: Batch) -> Batch:
        """The batch with the source images augmented, if ``augment`` is set."""
        return batch if self.change is None else replace(batch, source=self.change(batch.source))

    def source_weights(self, labels: Tensor) -> Tensor | None:
        """The weights of source samples; None where all count the same."""
        if self.prior is None and self.config.prior.kind != "as-is":
            raise ConfigError(
                f"prior.kind = '{self.config.prior.kind}' needs the source's class frequencies: call "
                "method.setup(pair, classes) first, as the Trainer does."
            )
        return None if self.prior is None else self.prior.weights(labels)

    def add_terms(
        self,
        parts: dict[str, Tensor],
        weights: dict[str, float],
        watch: dict[str, Tensor],
        *,
        batch: Batch,
        source: Outputs,
        target: Outputs,
        residuals: Residuals | None = None,
        progress: float,
    ) -> None:
        """Add the terms on the target's predictions, and observe those of both domains."""
        self._progress = progress
        for name, (weight, part) in self._terms(batch, target, residuals, progress).items():
            parts[name], weights[name] = part, weight
        if self.prior is not None:
            self.prior.observe(source.logits, batch.labels, target.logits)
            watch["prior_distance"] = self.prior.distance

    def _terms(
        self, batch: Batch, target: Outputs, residuals: Residuals | None, progress: float
    ) -> dict[str, tuple[float, Tensor]]:
        """Weights and values of the terms that are on."""
        found: dict[str, tuple[float, Tensor]] = {}
        info, other = self.config.information, self.config.consistency
        if info.weight > 0:
            part = self._information(gather_features(target.logits))
            found["information"] = (info.weight_at(progress), part)
        if self._is_consistent(progress):
            changed = self.streams.outputs(self._view(batch), stream="target", residuals=residuals).logits
            part = consistency(target.logits, changed, other.kind, other.threshold)
            since = (progress - other.start) / (1 - other.start)
            found["consistency"] = (other.weight * ramp(since, other.gamma), part)
        return found

    def _information(self, logits: Tensor) -> Tensor:
        settings = self.config.information
        if settings.kind == "confusion":
            return class_confusion(logits)
        assumed = None if self.prior is None else self.prior.target
        return information_maximisation(logits, assumed, diversity=settings.diversity)

    def _is_consistent(self, progress: float) -> bool:
        return self.config.consistency.weight > 0 and progress >= self.config.consistency.start

    def wants_view(self, progress: float) -> bool:
        """Whether consistency compares with a view that the data draws."""
        return self.config.consistency.view == "drawn" and self._is_consistent(progress)

    def _view(self, batch: Batch) -> Tensor:
        if self.config.consistency.view == "changed":
            return VIEW(batch.target)
        if self.config.consistency.view == "strong":
            return strong(batch.target)
        if batch.view is None:
            raise ConfigError(
                "consistency.view = 'drawn' needs a second view of the target images in the batch: draw it with "
                "batches.batch(step, view=method.wants_view(progress)), as the Trainer does."
            )
        return batch.view

    def after_step(self, step: int, optimizer: Optimizer) -> list[RankChange]:
        """Estimate the prior and average the weights, when they are due."""
        self._refresh_prior(step)
        settings = self.config.average
        if self.streams.average is not None and step % settings.every == 0 and self._progress >= settings.start:
            self.streams.average.update(self.streams, settings.decay**settings.every)
        return []

    def due(self, step: int) -> bool:
        """An estimate of the prior reads what was counted."""
        settings = self.config.prior
        return self.prior is not None and settings.kind == "estimated" and step % settings.every == 0

    def _refresh_prior(self, step: int) -> None:
        if self.prior is None or not self.due(step) or self._progress < self.config.prior.warmup:
            return
        reason = self.prior.refresh()
        if reason is not None and int(self.prior.counts[1]) == 1:
            self._notes.append(
                f"an estimate of the target's class frequencies was rejected and the last one kept, because {reason}."
            )

    def new_notes(self) -> list[str]:
        """The first rejected estimate."""
        messages, self._notes = self._notes, []
        return messages

    def final_notes(self) -> list[str]:
        """What became of the estimates."""
        return [] if self.prior is None else self.prior.final_notes()

    def record(self) -> dict[str, Any]:
        """The priors."""
        return {} if self.prior is None else {"prior": self.prior.record()}
