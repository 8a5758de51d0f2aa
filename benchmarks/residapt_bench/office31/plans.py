"""Office-31: six pairs of domains, the network, and the one recipe by which every method is trained.

The protocol is fully transductive: all labelled source images, all target images without labels, and the accuracy on
the same target images. The first stages of the network are frozen for all methods alike; see
:mod:`residapt_bench.office31.images`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from residapt.config import Config, load_config
from residapt.errors import ConfigError
from residapt.methods import MethodConfig, check_method
from residapt.rank import RankConfig
from residapt.settings import Settings
from residapt.train import GroupConfig, TrainConfig
from residapt_bench.digits.recipe_plans import method_settings
from residapt_bench.names import named, split_plus

DOMAINS = {"a": "amazon", "w": "webcam", "d": "dslr"}
"""Letters of the pairs and folders of the domains."""
PAIRS = ("a-w", "w-a", "d-a", "a-d", "d-w", "w-d")
"""The six pairs, the hard ones first."""
METHODS = ("source_only", "dann_flip", "rpt_fixed", "rpt")
CLASSES = 31


class OfficeNetwork(Settings):
    """The network, and which part of it is trained."""

    arch: str = "timm:tf_efficientnet_lite0"
    """Model spec."""
    weights: str | None = "weights/tf_efficientnet_lite0.safetensors"
    """File with ImageNet weights, below the data folder unless the path is absolute; None: random weights."""
    image_size: int = Field(128, ge=32)
    """Height and width in pixels."""
    freeze: str = "blocks.5"
    """The last frozen stage: it and all before it keep their weights and batch-norm statistics in both streams."""
    standardise: bool = False
    """Whether each image is standardised by itself before the first stage."""
    views: int = Field(8, ge=1)
    """Augmented views of each image, computed once; a batch takes one of them at random."""
    bottleneck: int = Field(256, ge=1)
    """Width of the layer before the new classifier; the domain classifier reads it."""


class OfficeSource(Settings):
    """How the warm start, the network trained on the source, is made."""

    steps: int = Field(600, ge=0)
    """Optimiser steps."""
    batch_size: int = Field(32, ge=1)
    """Source images in a step."""
    lr: float = Field(1e-4, gt=0)
    """Learning rate of Adam for the pre-trained layers."""
    head: float = Field(10.0, gt=0)
    """Factor of it for the new layers."""
    seed: int = 0
    """Seed of the new layers' start and of the order."""


class OfficePlan(Settings):
    """One run."""

    task: str
    """The pair, for instance ``a-w``."""
    method: str
    """Name of the method."""
    recipe: str = "paper"
    """The paper's, or plus (docs/beyond.md)."""
    seed: int
    """The run's number: warm start, initialisation and order."""
    note: str = ""
    """What this run is for, for instance a sweep; runs with another note are other runs."""
    tries: int = 1
    """How many settings were tried, without target labels, before this one was chosen."""
    network: OfficeNetwork = OfficeNetwork()
    """The network."""
    source: OfficeSource = OfficeSource()
    """The warm start."""
    train: TrainConfig = TrainConfig()
    """The loop."""
    settings: MethodConfig = MethodConfig()
    """The method."""

    def key(self) -> str:
        """A name that two plans share exactly when they would give the same run."""
        plan = self
        if self.method == "source_only":  # takes no steps, whatever the loop says
            plan = self.model_copy(update={"train": TrainConfig(), "settings": MethodConfig()})
        elif self.method != "rpt":  # looks for no ranks, whatever rank selection says
            settings = self.settings.model_copy(update={"rank": RankConfig()})
            plan = self.model_copy(update={"settings": settings})
        return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:16]

    @property
    def domains(self) -> tuple[str, str]:
        """Folders of source and target."""
        source, _, target = self.task.partition("-")
        return DOMAINS[source], DOMAINS[target]


RECIPE: dict[str, Any] = {
    "train": TrainConfig(
        steps=1500,
        batch_size=32,
        optimizer="adam",
        beta1=0.9,
        network=GroupConfig(lr=1e-4),
        head=10.0,
        transform=GroupConfig(lr=1e-4),
        adversary=GroupConfig(lr=3e-4),
        decay="inverse",
        evaluate_every=500,
        log_every=100,
    ).model_dump(mode="json"),
    # Pre-trained weights need small changes: residuals start small, and the barrier hardly pulls their energy to 1.
    "transform": {"features": "classifier.bottleneck", "norm": "per-domain", "energy": 0.01},
    "stream_weight": 0.01,
    # Twenty proximal steps over the whole training, as on the digits; docs/deep.md says how that was chosen.
    "rank": {"every": 75},
    # The domain classifier of DANN on AlexNet, which the paper takes for its deep network; the weight is the paper's.
    "discrepancy": {"hidden": [1024, 1024], "dropout": 0.5, "weight": 1.0, "gamma": 10.0},
    # The last iterate goes up and down by several points; an average over some two hundred steps does not.
    "average": {"decay": 0.995, "start": 0.5},
    # What is trained reads activations, which cannot be turned or shifted as images can: another of their views.
    "consistency": {"view": "drawn"},
}
"""Settings of all methods and pairs, over the defaults."""


def office_plans(
    pairs: Iterable[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    network: OfficeNetwork,
    source: OfficeSource,
    changes: Sequence[str] = (),
    note: str = "",
    tries: int = 1,
) -> list[OfficePlan]:
    """The plans of a grid; seeds outside, then pairs, so that whole comparisons come early."""
    for pair in pairs:
        if pair not in PAIRS:
            raise ConfigError(f"there is no pair '{pair}' in Office-31; pairs: {', '.join(PAIRS)}.")
    configs = [_configuration(method, changes) for method in methods]
    return [
        OfficePlan(
            task=pair,
            method=config.method,
            recipe=config.recipe,
            seed=seed,
            note=note,
            tries=tries,
            network=network.model_copy(update={"standardise": network.standardise or config.model.standardise}),
            source=source.model_copy(update={"seed": seed}),
            train=config.train.model_copy(update={"seed": seed}),
            settings=_seeded(method_settings(config), seed),
        )
        for seed in seeds
        for pair in pairs
        for config in configs
    ]


def _configuration(method: str, changes: Sequence[str]) -> Config:
    check_method(split_plus(method)[0])
    return load_config(None, changes, base={**RECIPE, **named(method)})


def _seeded(settings: MethodConfig, seed: int) -> MethodConfig:
    parts = {name: getattr(settings, name) for name in ("transform", "discrepancy")}
    return settings.model_copy(update={name: part.model_copy(update={"seed": seed}) for name, part in parts.items()})
