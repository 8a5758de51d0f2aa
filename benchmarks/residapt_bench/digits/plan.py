"""What a grid consists of: one plan for each run, with a key by which a finished run is recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from residapt.distributed import Precision
from residapt.methods.config import MethodConfig
from residapt.settings import Seed, Settings
from residapt.train.config import GroupConfig, TrainConfig
from residapt_bench.digits.class_counts import Counts
from residapt_bench.digits.recipes import Pixels, Recipe


class SourceRecipe(Settings):
    """How the warm start, the network trained on the source, is made."""

    steps: int = Field(4000, ge=0)
    """Optimiser steps."""
    batch_size: int = Field(128, ge=1)
    """Source images in a step."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate of Adam."""
    weight_decay: float = Field(2.5e-5, ge=0)
    """L2 penalty (ADDA's value)."""
    seed: Seed = 0
    """Seed of initialisation and order."""

    @classmethod
    def of(cls, recipe: Recipe) -> SourceRecipe:
        """A recipe's warm start; none leaves the random start, which is a training of 0 steps."""
        if recipe.source is None:
            return cls(steps=0)
        loop = recipe.source
        return cls(
            steps=loop.steps,
            batch_size=loop.batch_size,
            lr=loop.network.lr,
            weight_decay=loop.network.weight_decay,
        )

    def loop(self) -> TrainConfig:
        """The same as settings of the training loop."""
        return TrainConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            seed=self.seed,
            beta1=0.9,
            network=GroupConfig(lr=self.lr, weight_decay=self.weight_decay),
        )


class Plan(Settings):
    """One run of a grid."""

    task: str
    """Name of the pair of domains."""
    arch: str
    """Model spec."""
    method: str
    """Name of the method."""
    seed: Seed
    """The run's number."""
    varied: Literal["all", "order"] = "all"
    """What the seed changes: warm start, initialisation and order, or the order of samples only."""
    recipe: str = "common"
    """Name of the recipe: common to all methods, a method's own, or plus."""
    note: str = ""
    """What this run is for, for instance a sweep; runs with another note are other runs."""
    tries: int = 1
    """How many settings were tried, without target labels, before this one was chosen."""
    pixels: Pixels = "[-1, 1]"
    """How pixels are scaled; networks that bring a scale of their own keep it."""
    counts: Counts = "all"
    """Which images: all, equally many of each class in both domains, or a target with skewed classes."""
    standardise: bool = False
    """Whether the network standardises each image by itself before anything else."""
    precision: Precision = "float32"
    """Mixed precision of the forward pass, in the warm start as well."""
    source: SourceRecipe = SourceRecipe()
    """The warm start."""
    train: TrainConfig = TrainConfig()
    """The loop."""
    settings: MethodConfig = MethodConfig()
    """The method."""

    def key(self) -> str:
        """A name that two plans share exactly when they would give the same run."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def make_plans(
    task: str,
    arch: str,
    methods: Iterable[str],
    seeds: Sequence[int],
    *,
    train: TrainConfig,
    settings: MethodConfig,
    source: SourceRecipe | None = None,
    varied: Literal["all", "order"] = "all",
    **others: Any,
) -> list[Plan]:
    """The plans of a grid, seeds in the outer loop so that every method soon has its first run."""
    source = source or SourceRecipe()
    plans = []
    for seed in seeds:
        # The same warm start and the same order for every method: runs of one seed are paired.
        start = source.model_copy(update={"seed": seed if varied == "all" else source.seed})
        gamma = seed if varied == "all" else settings.transform.seed
        seeded = settings.model_copy(
            update={
                "transform": settings.transform.model_copy(update={"seed": gamma}),
                "discrepancy": settings.discrepancy.model_copy(update={"seed": gamma}),
            }
        )
        loop = train.model_copy(update={"seed": seed})
        plans += [
            Plan(
                task=task,
                arch=arch,
                method=name,
                seed=seed,
                varied=varied,
                source=start,
                train=loop,
                settings=seeded,
                **others,
            )
            for name in methods
        ]
    return plans
