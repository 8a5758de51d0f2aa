"""Recipes of the digit benchmarks: the common one, what each baseline's own paper or code did, and ``plus``.

They are for LeNet on SVHN to MNIST. Where a source is silent, the entry says so and takes the common value.
``steps`` of the published recipes are what a benchmark can shorten; everything else belongs to the recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from residapt.data.config import AugmentConfig
from residapt.errors import ConfigError
from residapt.methods.config import DiscrepancyConfig, DSNConfig, MethodConfig
from residapt.methods.recipes import RECIPES
from residapt.rank import RankConfig
from residapt.train.config import GroupConfig, TrainConfig

Pixels = Literal["[0, 1]", "[-1, 1]", "mean-centred"]


@dataclass(frozen=True)
class Recipe:
    """How to train a method; ``train.model_dump(exclude_unset=True)`` gives only what the recipe sets."""

    reference: str
    """Where the values come from, and which are not published."""
    train: TrainConfig
    """Adaptation."""
    method: MethodConfig
    """The method's settings."""
    source: TrainConfig | None
    """Training of the source network before; None starts from random weights."""
    pixels: Pixels
    """How pixels are scaled."""
    standardise: bool = False
    """Whether the network standardises each image by itself before anything else."""


def _adam(steps: int, batch: int, lr: float, beta1: float, weight_decay: float = 0.0) -> TrainConfig:
    group = GroupConfig(lr=lr)
    return TrainConfig(
        steps=steps,
        batch_size=batch,
        optimizer="adam",
        beta1=beta1,
        weight_decay=weight_decay,
        network=group,
        transform=group,
        adversary=group,
    )


def _sgd(steps: int, batch: int, lr: float, weight_decay: float = 0.0) -> TrainConfig:
    group = GroupConfig(lr=lr)
    return TrainConfig(
        steps=steps,
        batch_size=batch,
        optimizer="sgd",
        weight_decay=weight_decay,
        network=group,
        transform=group,
        adversary=group,
    )


ADDA_SOURCE = _adam(10_000, 128, 1e-3, 0.9, 2.5e-5)
"""ADDA's source network: Adam 1e-3, batch 128, 10,000 steps, L2 2.5e-5 (the authors' script)."""

COMMON = Recipe(
    reference=(
        "This library's, the same for every method: the domain classifier reads the logits "
        "(500-500, as in ADDA's code), Adam 2e-4 with beta1 0.5, 64 + 64 images, weight 0.3 with "
        "DANN's ramp, a faster domain classifier and slower transforms, source network as ADDA's but 4,000 steps, "
        "after which its accuracy on the target no longer rises. docs/research/reproduction.md says how "
        "they were chosen."
    ),
    train=_adam(2_000, 64, 2e-4, 0.5).model_copy(
        update={"adversary": GroupConfig(lr=1e-3), "transform": GroupConfig(lr=5e-5)}
    ),
    method=MethodConfig(
        discrepancy=DiscrepancyConfig(weight=0.3, gamma=10.0, hidden=(500, 500)), rank=RankConfig(every=100)
    ),
    source=ADDA_SOURCE.model_copy(update={"steps": 4_000}),
    pixels="[-1, 1]",
)

DIGIT_CHANGES = AugmentConfig(shift=2, rotate=10, scale=0.1, shear=0.1, contrast=0.3, invert=0.5)
"""What leaves a digit the same digit: a little of everything, and either polarity."""

PLUS = replace(
    COMMON,
    reference=(
        "This library's, beyond the paper: the common recipe, the parts that docs/research/beyond.md describes, each "
        "image standardised by itself, source images changed as digits may be, and network and transforms that learn "
        "fast, since the target has losses of its own to guide them. The same for every method that reads both domains."
    ),
    train=COMMON.train.model_copy(update={"network": GroupConfig(lr=5e-4), "transform": GroupConfig(lr=1e-3)}),
    method=COMMON.method.with_parts({**RECIPES["plus"], "augment": DIGIT_CHANGES}),
    standardise=True,
)

_ADDA_METHOD = MethodConfig(discrepancy=DiscrepancyConfig(weight=1.0, gamma=0.0, hidden=(500, 500)))

OWN: dict[str, Recipe] = {
    "source_only": Recipe(
        reference="Tzeng et al. 2017, authors' code: the source network of ADDA.",
        train=ADDA_SOURCE,
        method=MethodConfig(),
        source=None,
        pixels="[0, 1]",
    ),
    "adda": Recipe(
        reference=(
            "Tzeng et al. 2017, authors' code: Adam 2e-4, beta1 0.5, batch 128, 10,000 steps, "
            "classifier 500-500 with ReLU on the logits, no ramp, no weight decay in this stage."
        ),
        train=_adam(10_000, 128, 2e-4, 0.5),
        method=_ADDA_METHOD,
        source=ADDA_SOURCE,
        pixels="[0, 1]",
    ),
    "confusion": Recipe(
        reference=(
            "The published 68.1 is a row of Tzeng et al. 2017 without a recipe of its own; this is "
            "ADDA's, with shared weights and the loss of Tzeng et al. 2015."
        ),
        train=_adam(10_000, 128, 2e-4, 0.5),
        method=_ADDA_METHOD,
        source=ADDA_SOURCE,
        pixels="[0, 1]",
    ),
    "dann": Recipe(
        reference=(
            "Ganin et al. 2016, section 5.2: SGD 0.01, momentum 0.9, 64 + 64 images, gamma 10, no "
            "annealing on SVHN to MNIST, from random weights, classifier 1024-1024 on the last "
            "convolutional features. Theirs is SvhNet and runs for more than 150 epochs; the number "
            "of steps is not published."
        ),
        train=_sgd(20_000, 64, 0.01),
        method=MethodConfig(discrepancy=DiscrepancyConfig(weight=1.0, gamma=10.0, hidden=(1024, 1024), layer="pool2")),
        source=None,
        pixels="mean-centred",
    ),
    "two_stream": Recipe(
        reference=(
            "Rozantsev et al. 2018 (TPAMI): AdaDelta, both streams from the source network, "
            "exponential regulariser, all layers separate (their choice for LeNet on MNIST and USPS). "
            "The weights (1 and 1), the batch and the number of steps are not published, and sigma = "
            "1 leaves no gradient here: median."
        ),
        train=TrainConfig(
            steps=10_000,
            batch_size=64,
            optimizer="adadelta",
            network=GroupConfig(lr=1.0),
            transform=GroupConfig(lr=1.0),
            adversary=GroupConfig(lr=1.0),
        ),
        method=MethodConfig(discrepancy=DiscrepancyConfig(weight=1.0, gamma=0.0)),
        source=ADDA_SOURCE,
        pixels="[0, 1]",
    ),
    "dsn": Recipe(
        reference=(
            "Bousmalis et al. 2016 and the authors' code: SGD 0.01, momentum 0.9, 32 + 32 images, "
            "weight decay 1e-6, DSN losses after 10,000 steps, no ramp, classifier 1024-1024 on the "
            "shared features, rate x 0.9 at every 20,000th step, which these steps end at. Their weights for this "
            "pair are not published; 0.01, 0.075 and 0.25 are those of a common re-implementation."
        ),
        train=_sgd(20_000, 32, 0.01, 1e-6),
        method=MethodConfig(
            discrepancy=DiscrepancyConfig(weight=1.0, gamma=0.0, hidden=(1024, 1024), layer="penultimate"),
            dsn=DSNConfig(alpha=0.01, beta=0.075, gamma=0.25, start_share=0.5),
        ),
        source=None,
        pixels="[-1, 1]",
    ),
}


def recipe_for(name: str, kind: Literal["common", "own", "plus"] = "common") -> Recipe:
    """The recipe of a method; methods without a published one have the common recipes only."""
    if kind in ("common", "plus"):
        return COMMON if kind == "common" else PLUS
    if name not in OWN:
        raise ConfigError(
            f"no recipe was published for method '{name}' on this network. Use the common one; methods with "
            f"a recipe of their own: {', '.join(sorted(OWN))}."
        )
    return OWN[name]
