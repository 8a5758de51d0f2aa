"""Settings of the methods."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from residapt.rank import RankConfig
from residapt.settings import Settings
from residapt.transform import TransformConfig

DiscrepancyName = Literal["flip", "reversal", "uniform", "mmd", "rbf_mmd", "mk_mmd", "coral", "rman", "cdan", "cdan_e"]


class MultilinearConfig(Settings):
    """How RMAN and CDAN join features f and predictions g for the domain classifier."""

    width: int | None = Field(None, ge=1)
    """D, the width of the random map; None: 128 for RMAN (the paper's), 1024 for CDAN (its authors' code)."""
    limit: int = Field(4096, ge=1)
    """CDAN uses the full product of f and g up to this size, and the random map above it."""
    g: Literal["softmax", "logits"] = "softmax"
    """What the predictions are: class probabilities, or logits, which nothing bounds."""
    detach: bool | None = None
    """Whether no gradient flows through g; None: not for RMAN, as in CDAN's code for CDAN."""
    confusion: Literal["flip", "reversal", "uniform"] | None = None
    """How the classifier is confused; None: flipped labels for RMAN (paper App. B), reversal for CDAN."""
    distribution: Literal["normal", "uniform"] = "normal"
    """Distribution of the random map's entries; both have mean 0 and variance 1."""


class DiscrepancyConfig(Settings):
    """The loss that pulls the domains together."""

    kind: DiscrepancyName | None = None
    """Which discrepancy; None takes the method's own. RPT, two-stream and DSN work with any."""
    layer: str | None = None
    """What it reads: a module's output (``relu3``), its input (``full4:input``), or the classifier's input
    (``penultimate``). None: that for rman, cdan and rbf_mmd, otherwise what transform.features says."""
    weight: float = Field(1.0, ge=0)
    """Weight of the discrepancy in the network's loss."""
    gamma: float = Field(10.0, ge=0)
    """Steepness of the ramp of that weight; 0 gives the full weight from the first step."""
    hidden: tuple[int, ...] = (500, 500)
    """Hidden layers of the domain classifier."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout in the domain classifier."""
    seed: int = 0
    """Seed of the domain classifier's start and of random maps."""
    sigma: float | None = Field(None, gt=0)
    """Kernel of rbf_mmd, exp(-|u-v|^2 / sigma); None: the median squared distance of each batch. The
    published sigma = 1 leaves no gradient where squared distances are around 2,800, as LeNet's are."""
    kernels: Literal["dsn", "median"] = "dsn"
    """Kernels of mk_mmd: DSN's 19 fixed widths, or DAN's five around the median distance of each batch."""
    multilinear: MultilinearConfig = MultilinearConfig()
    """Settings of rman, cdan and cdan_e."""


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


class MethodConfig(Settings):
    """Everything a method can be told."""

    discrepancy: DiscrepancyConfig = DiscrepancyConfig()
    """The loss that pulls the domains together."""
    stream_weight: float = Field(1.0, ge=0)
    """lambda_s of Eq. 7."""
    train_source: bool = True
    """Whether the source stream is trained on together with the transforms."""
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
