"""Settings of the methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from residapt.data.config import AugmentConfig
from residapt.rank.config import RankConfig
from residapt.settings import Seed, Settings, merged
from residapt.train.schedule import ramp
from residapt.transform.config import TransformConfig

DiscrepancyName = Literal["flip", "reversal", "uniform", "mmd", "rbf_mmd", "mk_mmd", "coral", "rman", "cdan", "cdan_e"]


class MultilinearConfig(Settings):
    """How RMAN and CDAN join features f and predictions g for the domain classifier."""

    g: Literal["softmax", "logits"] = "softmax"
    """What the predictions are: class probabilities, or logits, which nothing bounds."""
    confusion: Literal["flip", "reversal", "uniform"] | None = None
    """How the classifier is confused; None: flipped labels for RMAN (paper App. B), reversal for CDAN."""


class RampedConfig(Settings):
    """A loss whose weight is ramped up from the start of the training."""

    weight: float = Field(0.0, ge=0)
    """Weight in the network's loss; 0 leaves it out."""
    gamma: float = Field(10.0, ge=0)
    """Steepness of the ramp of that weight; 0 gives the full weight from the first step."""

    def weight_at(self, progress: float) -> float:
        """The weight at training progress p."""
        return self.weight * ramp(progress, self.gamma)


class DiscrepancyConfig(RampedConfig):
    """The loss that pulls the domains together."""

    kind: DiscrepancyName | None = None
    """Which discrepancy; None takes the method's own. RPT, two-stream and DSN work with any."""
    layer: str | None = None
    """What it reads: a module's output (``relu3``), its input (``full4:input``), or the classifier's input
    (``penultimate``). None: that for rman, cdan and rbf_mmd, otherwise what transform.features says."""
    weight: float = Field(1.0, ge=0)
    """Weight of the discrepancy in the network's loss."""
    end: float = Field(1.0, gt=0, le=1)
    """Share of the training after which its weight is 0."""
    hidden: tuple[int, ...] = (500, 500)
    """Hidden layers of the domain classifier."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout in the domain classifier."""
    normalise: bool = False
    """Divide what the domain classifier reads by its root mean square over the batch of both domains, so that features
    that grow in training (logits above all) stay readable."""
    steps: int = Field(1, ge=1)
    """Steps of the domain classifier for each step of the network, all on the same batch."""
    seed: Seed = 0
    """Seed of the domain classifier's start and of random maps."""
    multilinear: MultilinearConfig = MultilinearConfig()
    """Settings of rman, cdan and cdan_e."""

    def weight_at(self, progress: float) -> float:
        """The weight at training progress p: ramped up from the start, nothing after the end."""
        return super().weight_at(progress) if progress < self.end or self.end == 1 else 0.0


class TwoStreamConfig(Settings):
    """The two-stream network of "Beyond Sharing Weights"."""

    weight: float = Field(1.0, ge=0)
    """lambda_w, the weight of the regulariser that keeps the streams' weights related."""
    layers: tuple[str, ...] = ("*",)
    """Omega: name patterns of the layers that each stream has for itself; none shares all of them."""
    regulariser: Literal["exponential", "l2"] = "exponential"
    """r_w: exp(|a s + b - t|^2) - 1, or |a s + b - t|^2."""


class DSNConfig(Settings):
    """Domain Separation Networks."""

    alpha: float = Field(0.01, ge=0)
    """Weight of the reconstruction loss."""
    beta: float = Field(0.075, ge=0)
    """Weight of the difference loss, which keeps private and shared features apart."""
    gamma: float = Field(0.25, ge=0)
    """Weight of the similarity loss; discrepancy.weight and its ramp multiply it."""
    start_share: float = Field(0.0, ge=0, le=1)
    """Share of the training during which only the classification loss counts."""
    layer: str | None = None
    """Shared features, in the notation of discrepancy.layer; None: the classifier's input."""


class SearchConfig(Settings):
    """Trainings that only estimate the class frequencies, where those turn out to be far from what was assumed."""

    rounds: int = Field(0, ge=0)
    """Short trainings, each from the same network: the first half from where the training started, the others from the
    best estimate so far, by ClassAMI; then the training is repeated with the best. 0 trains once."""
    settled: ClassVar[float] = 0.08
    """No search where the estimate ends less than this (total variation) from where it started."""
    share: ClassVar[float] = 0.5
    """Length of a short training, as a share of the whole one."""
    smoothing: ClassVar[float] = 0.5
    """prior.smoothing of the short trainings: where classes are known not to be as assumed, it may follow faster."""


class PriorConfig(Settings):
    """Which class frequencies of the target the alignment assumes: the prior pi_t.

    Source samples count w_y = pi_t(y) / pi_s(y) in the classification and in the discrepancy.
    """

    kind: Literal["as-is", "balanced", "given", "estimated"] = "as-is"
    """The source's own, flat ones, those of prior.start, or estimated without target labels along the run
    (BBSE, Lipton et al. 2018)."""
    start: Literal["flat", "source"] | tuple[float, ...] = "flat"
    """What is assumed before the first estimate: flat classes, the source's frequencies, or these, one for each class
    in the order of the classes."""
    every: ClassVar[int] = 20
    """Steps between two estimates."""
    smoothing: float = Field(0.9, ge=0, lt=1)
    """How much of the old estimate is kept in each new one."""
    decay: float = Field(0.98, ge=0, lt=1)
    """How much of the running counts of predictions is kept in each step."""
    warmup: float = Field(0.1, ge=0, lt=1)
    """Share of the training before the first estimate: predictions of a network that does not yet fit the target
    say little about it."""
    floor: ClassVar[float] = 0.1
    """Smallest estimated frequency, as a share of the flat one."""
    cautious: ClassVar[bool] = True
    """Draw an estimate to where it started, as far as the distance may be its own error: by the numbers of samples, by
    target predictions that are less confident than label shift explains, and by two estimates that disagree."""
    max_condition: ClassVar[float] = 100.0
    """An estimate from a confusion matrix with a larger condition number is rejected."""
    min_ess: ClassVar[float] = 0.1
    """An estimate is rejected whose weights leave a smaller share of the source samples effective."""
    search: SearchConfig = SearchConfig()
    """Repeated trainings with what was estimated; costs as many trainings."""


class InformationConfig(RampedConfig):
    """What the target's predictions should be like without labels: confident, and not all of one class."""

    kind: Literal["diversity", "confusion"] = "diversity"
    """Low entropy of each and high entropy of their mean (information maximisation), or little confusion between
    classes (MCC, Jin et al. 2020), which assumes no class frequencies."""

    diversity: float = Field(1.0, ge=0)
    """Weight of the term for diverse predictions (class frequencies as in the prior) relative to the entropy term.
    Below 1, an estimated prior follows the data sooner."""


class AverageConfig(Settings):
    """Moving average of weights and transforms, used for every prediction and for the network that is saved."""

    decay: float = Field(0.0, ge=0, lt=1)
    """How much of the average is kept in each step, for instance 0.999; 0 takes the last weights instead."""
    start: float = Field(0.5, ge=0, lt=1)
    """Share of the training after which the average begins."""
    every: ClassVar[int] = 10
    """Steps between two updates of the average, each of which counts for as many steps."""


class ConsistencyConfig(Settings):
    """Changed target images should be predicted like the images as they are; costs a further pass of the target."""

    gamma: ClassVar[float] = 10.0
    """Steepness of the ramp of the weight, from its start on."""
    weight: float = Field(0.0, ge=0)
    """Weight in the network's loss; 0 leaves it out."""
    start: float = Field(0.0, ge=0, lt=1)
    """Share of the training after which it is added; added too early it reinforces wrong predictions."""
    kind: Literal["kl", "fixmatch"] = "kl"
    """KL divergence of the predictions, or cross-entropy to confident predictions alone (FixMatch)."""
    threshold: float = Field(0.95, ge=0, le=1)
    """Smallest probability of a confident prediction, for fixmatch."""
    view: Literal["changed", "strong", "drawn"] = "changed"
    """Where the other view comes from: the image with small random changes; with strong ones, which series and features
    have as well; or the image as the data draws it a second time (for photographs another crop)."""


class MethodConfig(Settings):
    """Settings of a method.

    Example:
        >>> MethodConfig(stream_weight=0.5, rank=RankConfig(every=50)).rank.every
        50
    """

    discrepancy: DiscrepancyConfig = DiscrepancyConfig()
    """The loss that pulls the domains together."""
    stream_weight: float = Field(1.0, ge=0)
    """lambda_s of Eq. 7."""
    few_weight: float = Field(1.0, ge=0)
    """Weight of the classification loss on the labelled target images, where there are some."""
    train_source: bool = True
    """Whether the source stream is trained on together with the transforms; ``freeze = "base"`` makes it false."""
    transferred_weight: float = Field(0.0, ge=0)
    """Weight of the classification loss on source images in the target stream, with the source images' own batch-norm
    statistics. It is what a frozen base's labels can teach the transforms."""
    penalty: Literal["prox", "gradient"] = "prox"
    """Ranks by proximal steps, or by back-propagating the penalty of Eq. 11 (an ablation)."""
    rank: RankConfig = RankConfig()
    """Rank selection."""
    transform: TransformConfig = TransformConfig()
    """The transforms."""
    two_stream: TwoStreamConfig = TwoStreamConfig()
    """The two-stream network of "Beyond Sharing Weights"."""
    dsn: DSNConfig = DSNConfig()
    """Domain Separation Networks."""
    prior: PriorConfig = PriorConfig()
    """Class frequencies of the target."""
    information: InformationConfig = InformationConfig()
    """Information maximisation on the target."""
    average: AverageConfig = AverageConfig()
    """Averaged target weights."""
    consistency: ConsistencyConfig = ConsistencyConfig()
    """Consistency under changes of target images."""
    augment: AugmentConfig = AugmentConfig()
    """Random changes of the labelled source images in each step."""

    def with_parts(self, parts: Mapping[str, Any]) -> MethodConfig:
        """These settings under those of a recipe; what is not a method's is left out."""
        own = {name: part for name, part in parts.items() if name in type(self).model_fields}
        return type(self).parse(merged(self.model_dump(), own))
