r"""Class frequencies of the target along a run, and the weights of source samples that follow from them.

A domain classifier that is fooled completely, like an MMD of 0, forces the target's predicted class frequencies onto
those of the source: with :math:`\pi_s \ne \pi_t` alignment is wrong on a share
:math:`\mathrm{TV}(\pi_s, \pi_t)` of the target at least. Weights :math:`w_y = \pi_t(y) / \pi_s(y)` make the source as
the target would be. :math:`\pi_t` is estimated from what every step has computed anyway: running sums of the source's
predictions by label, and of the target's predictions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair
from residapt.distributed import from_main
from residapt.errors import ConfigError
from residapt.losses.gather import sum_processes
from residapt.methods.config import PriorConfig
from residapt.methods.extras.label_shift import (
    bbse,
    bounded_prior,
    prediction_moments,
    prior_doubt,
    smooth,
    why_degenerate,
)

LEAST = 5.0
"""Running count of source samples that every class needs before an estimate is made."""


class TargetPrior(nn.Module):
    """The priors of both domains and what the target's is estimated from, all as buffers: resuming is exact."""

    source: Tensor
    target: Tensor
    sums: Tensor
    counts: Tensor
    doubt: Tensor

    def __init__(
        self,
        config: PriorConfig,
        source: Tensor,
        *,
        samples: tuple[Tensor, int] | None = None,
    ) -> None:
        super().__init__()
        self.samples = samples
        """How many source images of each class and how many target images there are; None: never fewer than seen."""
        self.config = config
        classes = len(source)
        self.register_buffer("source", source)
        self.register_buffer("target", _start(config, source))
        if config.kind != "estimated":
            return
        # Row k: sum of the predictions' moments for source samples with label k; last row: for target samples.
        self.register_buffer("sums", source.new_zeros(classes + 1, 3 * classes))
        # Unexplained doubt, the mean over the estimates so far; the doubt and the distance of the latest estimate.
        self.register_buffer("doubt", torch.zeros(3, dtype=torch.float64, device=source.device))
        # Estimates made, estimates refused.
        self.register_buffer("counts", torch.zeros(2, dtype=torch.long, device=source.device))

    def weights(self, labels: Tensor) -> Tensor:
        r""":math:`w_{y_i} = \pi_t(y_i) / \pi_s(y_i)`; their mean under the source's class frequencies is 1."""
        return (self.target / self.source)[labels]

    @property
    def distance(self) -> Tensor:
        """Total variation between the two priors."""
        return 0.5 * (self.target - self.source).abs().sum()

    @property
    def frequencies(self) -> tuple[float, ...]:
        """The target's class frequencies, as settings hold them."""
        exact = self.target.double()
        return tuple((exact / exact.sum()).tolist())

    @property
    def moved(self) -> float:
        """Total variation between what was assumed at the start and now."""
        return 0.5 * float((self.target - _start(self.config, self.source)).abs().sum())

    @torch.no_grad()
    def observe(self, source_logits: Tensor, labels: Tensor, target_logits: Tensor) -> None:
        """Add a step's predictions to the running sums, over all processes."""
        if self.config.kind != "estimated":
            return
        new = torch.zeros_like(self.sums)
        new.index_add_(0, labels, prediction_moments(source_logits.to(new.dtype).softmax(dim=1)))
        predictions = target_logits.to(new.dtype).softmax(dim=1)
        new[-1] = prediction_moments(predictions).sum(dim=0)
        self.sums.mul_(self.config.decay).add_(sum_processes(new))

    @torch.no_grad()
    def refresh(self) -> str | None:
        """Estimate anew and smooth; gives the reason if the estimate was refused and the old one is kept."""
        moments, classes = self.sums.double().cpu(), len(self.source)
        by_label = moments[:-1, :classes]
        if float(by_label.sum(dim=1).min()) < LEAST:
            return None
        source = self.source.double().cpu()
        # The true source prior instead of the running one: only p(prediction | label) has to be learned.
        joint = (by_label / by_label.sum(dim=1, keepdim=True)).T * source
        limits = self.config
        target = self.sums[-1:, : len(source)].double()
        estimate = bbse(joint, target / target.sum(), floor=limits.floor, max_condition=limits.max_condition)
        reason = why_degenerate(joint, source, estimate, max_condition=limits.max_condition, min_ess=limits.min_ess)
        self.counts[0 if reason is None else 1] += 1
        if reason is None:
            if limits.cautious:
                estimate = self._bounded(estimate, moments)
            smoothed = smooth(self.target.double().cpu(), estimate, limits.smoothing)
            # Every process has computed the same; rounding in a library must not be what drives them apart.
            self.target.copy_(from_main((smoothed / smoothed.sum()).to(self.target)))
        return reason

    def _bounded(self, estimate: Tensor, moments: Tensor) -> Tensor:
        """The estimate as far as it can be trusted; what was unexplained before counts as much as what is now.

        A network that is trained to be confident about the target leaves nothing unexplained at the end, right or not.
        """
        classes, start = len(estimate), _start(self.config, self.source).double().cpu()
        seen = moments[:, :classes].sum(dim=1)
        # Sums that fade with factor d count for (1 + d) times as many samples, as long as there are so many.
        seen = seen * (1 + self.config.decay)
        if self.samples is not None:
            seen = seen.minimum(torch.cat([self.samples[0].double(), torch.tensor([float(self.samples[1])])]))
        found = prior_doubt(
            moments[:-1] / moments[:-1, :classes].sum(dim=1, keepdim=True),
            moments[-1] / moments[-1, :classes].sum(),
            estimate,
            source_samples=seen[:-1],
            target_samples=float(seen[-1]),
            max_condition=self.config.max_condition,
        )
        mean = self.doubt[0] + (found.unexplained - self.doubt[0]) / self.counts[0]
        total = replace(found, unexplained=max(float(mean), found.unexplained)).total
        self.doubt.copy_(torch.stack([mean, mean.new_tensor(total), mean.new_tensor(_distance(estimate, start))]))
        return bounded_prior(start, estimate, total)

    def final_notes(self) -> list[str]:
        """What a person should know at the end."""
        if self.config.kind != "estimated":
            return []
        made, refused = self.counts.tolist()
        if made + refused == 0:
            return [
                "the target's class frequencies were never estimated: training was too short for prior.warmup = "
                f"{self.config.warmup:g}, or some class was seen too rarely. Raise prior.decay or train longer."
            ]
        if refused:
            return [f"{refused} of {made + refused} estimates of the target's class frequencies were rejected."]
        return []

    def record(self) -> dict[str, Any]:
        """Both priors and how they came about, for records and reports."""
        shown: dict[str, Any] = {"kind": self.config.kind}
        shown |= {name: [round(x, 5) for x in getattr(self, name).tolist()] for name in ("source", "target")}
        if self.config.kind == "estimated":
            shown["estimates"], shown["refused"] = self.counts.tolist()
            if self.config.cautious:
                shown["doubt"], shown["distance"] = (round(x, 5) for x in self.doubt[1:].tolist())
        return shown


def _distance(p: Tensor, q: Tensor) -> float:
    return 0.5 * float((p - q).abs().sum())


def _start(config: PriorConfig, source: Tensor) -> Tensor:
    """The target's frequencies before the first estimate."""
    if config.kind != "balanced" and not isinstance(config.start, str):
        return _checked(config.start, source)
    if config.kind == "given":
        raise ConfigError(
            f"prior.kind = 'given' takes the target's class frequencies from prior.start, which is '{config.start}'. "
            f"Give one for each of the {len(source)} classes, for instance --set prior.start=[0.2, ...]."
        )
    flat = config.kind == "balanced" or config.start == "flat"
    return torch.full_like(source, 1.0 / len(source)) if flat else source.clone()


def _checked(frequencies: tuple[float, ...], source: Tensor) -> Tensor:
    given = torch.tensor(frequencies, dtype=torch.float64)
    if len(given) != len(source) or not bool((given > 0).all()) or abs(float(given.sum()) - 1) > 0.01:
        raise ConfigError(
            f"prior.start = {list(frequencies)}: it needs one frequency above 0 for each of the {len(source)} classes, "
            "with the sum 1; or 'flat' or 'source'."
        )
    return (given / given.sum()).to(source)


def target_prior(config: PriorConfig, pair: DomainPair, classes: int, like: Tensor) -> TargetPrior | None:
    """The prior of a run on ``pair``, on the device of ``like``; None where the source's own is assumed."""
    if config.kind == "as-is":
        return None
    counts = torch.bincount(pair.source.labels.cpu(), minlength=classes).double()
    if not bool((counts > 0).all()):
        missing = int((counts == 0).nonzero()[0])
        raise ConfigError(
            f"prior.kind = '{config.kind}' weighs source images by class, but the source has none of class {missing} "
            f"(of {classes}). Add some, or use prior.kind = 'as-is'."
        )
    # Balanced batches have flat class frequencies, whatever the images' are.
    prior = counts.clamp_max(1) if pair.balance == "classes" else counts
    dtype = torch.promote_types(like.dtype, torch.float32)
    samples = (counts, len(pair.target))
    return TargetPrior(config, (prior / prior.sum()).to(like.device, dtype), samples=samples)
