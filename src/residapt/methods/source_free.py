r"""Adaptation without source images: a network that is fixed, and a target stream that learns from itself.

.. math:: L = \frac1n\sum_i H(p_i) + \mathrm{KL}(\bar p\,\|\,\pi) + \beta\,L_{pseudo} + L_{consistency} + L_{stream}

:math:`\pi` are the class frequencies that are assumed (``prior.kind``: flat, or given as ``prior.start``).
Pseudo-labels come from the last few thousand target images: the classes that an image's nearest neighbours in feature
space have on the mean, or, in SHOT (Liang et al. 2020), those of the nearest class centroid.

``batch.source`` and its labels are never read. What the target stream is made of is a matter of its own: residual
transforms (``source_free``), or all layers but the classifier (``shot``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair
from residapt.errors import ConfigError, ModelError
from residapt.losses.gather import gather_features
from residapt.losses.information import class_confusion, information_maximisation
from residapt.losses.stream import stream_loss
from residapt.methods.base import AdaptingMethod
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy.layers import classifier_input
from residapt.methods.own import with_own_names
from residapt.methods.registry import add_method, probe
from residapt.models.heads import head_names
from residapt.rank import RankChange, shrink
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Losses, weighted_sum

KEPT = 2048
"""Target images whose features and predictions are remembered."""
NEIGHBOURS = 5
WEIGHT = 0.3
"""beta, the weight of the pseudo-labels (SHOT's on Office-31)."""
WARMUP = 0.1
"""Share of the training before they count."""


def neighbours(features: Tensor, kept: Tensor, probabilities: Tensor) -> Tensor:
    """Mean class probabilities of each row's nearest remembered features, by their cosine."""
    near = (functional.normalize(features, dim=1) @ functional.normalize(kept, dim=1).T).topk(NEIGHBOURS, dim=1)
    return probabilities[near.indices].mean(dim=1)


def centroids(features: Tensor, kept: Tensor, probabilities: Tensor) -> Tensor:
    """SHOT's: the nearest centroid's class as a row of 0 and 1; centroids once by probabilities, once by labels."""
    unit, given = functional.normalize(kept, dim=1), functional.normalize(features, dim=1)
    weights = probabilities
    for _ in range(2):
        middles = functional.normalize(weights.T @ unit, dim=1)
        weights = functional.one_hot((unit @ middles.T).argmax(dim=1), probabilities.shape[1]).to(probabilities)
    return functional.one_hot((given @ middles.T).argmax(dim=1), probabilities.shape[1]).to(probabilities)


class SourceFree(AdaptingMethod):
    """A target stream that learns from unlabelled images alone."""

    features: Tensor
    probabilities: Tensor
    count: Tensor
    assumed: Tensor
    trains_source = False

    def __init__(self, row: SourceFreeMethod, streams: TwoStream, config: MethodConfig, example: Tensor) -> None:
        super().__init__(config)
        self.name, self.row, self.streams = row.name, row, streams
        streams.fix_base()
        self.inner = classifier_input(streams, example)
        seen = probe(streams, example, (self.inner,))
        width, classes = seen.inner[self.inner].flatten(1).shape[1], seen.logits.shape[1]
        for name, columns in (("features", width), ("probabilities", classes)):
            self.register_buffer(name, torch.zeros(KEPT, columns, device=example.device))
        self.register_buffer("count", torch.zeros((), dtype=torch.long, device=example.device))
        self.register_buffer("assumed", _assumed(config, classes).to(example.device))

    def setup(self, pair: DomainPair, classes: int) -> None:
        """There are no source images to learn class frequencies from."""

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """All that is trained belongs to the target stream."""
        return {"network": [], "transform": self.streams.target_only_parameters(), "adversary": []}

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Information maximisation, pseudo-labels, consistency and the stream loss."""
        residuals = self.streams.residuals()
        target = self.streams.outputs(batch.target, stream="target", residuals=residuals, inner=(self.inner,))
        parts, weights = {"information": self._information(gather_features(target.logits))}, {}
        # In full from the first step, and without the setting as well: there is no other loss to begin with.
        weights["information"] = self.config.information.weight or 1.0
        if progress >= WARMUP and int(self.count) >= KEPT // 4:
            parts["pseudo"], weights["pseudo"] = self._pseudo(target), WEIGHT
        for name, (weight, part) in self._terms(batch, target, residuals, progress).items():
            if name != "information":
                parts[name], weights[name] = part, weight
        if batch.few is not None and batch.few_labels is not None:
            few = self.streams.outputs(batch.few, stream="target", residuals=residuals)
            parts["target_class"] = functional.cross_entropy(few.logits, batch.few_labels)
            weights["target_class"] = self.config.few_weight
        watch = {}
        energy = self.streams.energy(residuals)
        if energy is not None:
            parts["stream"], weights["stream"] = stream_loss(energy), self.config.stream_weight
            watch["energy"] = energy
        self._progress = progress
        self._remember(target)
        return weighted_sum(parts, weights, watch)

    def _information(self, logits: Tensor) -> Tensor:
        settings = self.config.information
        if settings.kind == "confusion":
            return class_confusion(logits)
        return information_maximisation(logits, self.assumed, diversity=settings.diversity)

    def _pseudo(self, target: Outputs) -> Tensor:
        kept = min(int(self.count), KEPT)
        features = target.inner[self.inner].flatten(1).detach().to(self.features)
        by = neighbours if self.row.labels == "neighbours" else centroids
        shares = by(features, self.features[:kept], self.probabilities[:kept])
        best, labels = shares.max(dim=1)
        return (best * functional.cross_entropy(target.logits.to(best), labels, reduction="none")).mean()

    @torch.no_grad()
    def _remember(self, target: Outputs) -> None:
        """The images of this step take the place of the oldest ones."""
        features = gather_features(target.inner[self.inner].flatten(1).detach().to(self.features))
        shares = gather_features(target.logits.detach().to(self.features)).softmax(dim=1)
        places = (int(self.count) + torch.arange(len(features), device=features.device)) % KEPT
        self.features[places], self.probabilities[places] = features, shares
        self.count += len(features)

    def after_step(self, step: int, optimizer: torch.optim.Optimizer) -> list[RankChange]:
        """Rank selection where there are transforms, and averaged weights."""
        changes = []
        if self.config.rank.weight > 0 and self.streams.layers and self.config.rank.due(step):
            changes = shrink(self.streams, self.config.rank, optimizer)
        return changes + super().after_step(step, optimizer)


def _assumed(config: MethodConfig, classes: int) -> Tensor:
    """The class frequencies that information maximisation asks for: flat, or those given."""
    prior = config.prior
    if prior.kind == "estimated":
        raise ConfigError(
            "prior.kind = 'estimated' compares predictions on both domains, but there are no source images. Give the "
            "frequencies (prior.kind = 'given', prior.start), or use balanced."
        )
    if prior.kind != "given" or isinstance(prior.start, str):
        return torch.full((classes,), 1.0 / classes)
    if len(prior.start) != classes:
        raise ConfigError(f"prior.start has {len(prior.start)} frequencies, but there are {classes} classes.")
    return torch.tensor(prior.start) / sum(prior.start)


@dataclass(frozen=True)
class SourceFreeMethod:
    """What the target stream is made of, and where pseudo-labels come from."""

    name: str
    transforms: bool
    labels: str
    summary: str


SOURCE_FREE = (
    SourceFreeMethod(
        "source_free", True, "neighbours", "Residual transforms learned without source images, on a fixed network."
    ),
    SourceFreeMethod(
        "shot", False, "centroids", "SHOT: all layers but the classifier, without source images. Liang et al. 2020."
    ),
)
"""All of them."""


def build_source_free(row: SourceFreeMethod, model: nn.Module, config: MethodConfig, example: Tensor) -> SourceFree:
    """The method of a row around a network."""
    transform = config.transform
    if row.transforms:
        transform = with_own_names(transform, model, example)
    else:
        heads = {f"{name}." for name in head_names(model, example)}
        own = tuple(name for name, _ in model.named_parameters() if not name.startswith(tuple(heads)))
        if not own:
            raise ModelError(
                f"method 'shot' trains all layers but the classifier, and {type(model).__name__} has none."
            )
        transform = transform.model_copy(update={"include": (), "own": own})
    return SourceFree(row, TwoStream(model, transform, example=example), config, example)


for _row in SOURCE_FREE:
    add_method(_row.name, partial(build_source_free, _row), _row.summary)
