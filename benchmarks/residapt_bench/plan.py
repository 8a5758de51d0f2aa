"""What one run is: its task, network, method and seed, and every setting."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field

from residapt.distributed import Precision
from residapt.methods import MethodConfig
from residapt.rank import RankConfig
from residapt.settings import Seed, Settings
from residapt.train.config import GroupConfig, TrainConfig
from residapt.train.schedule import Decay
from residapt_bench.digits.recipes import Pixels

Counts = Literal["all", "balanced", "skewed"]
"""All images; equally many of each class in both domains; or a target whose classes are skewed."""
RecipeName = Literal["common", "own", "plus", "default"]
"""Common to all methods, a method's own as it was published, plus, or the library's default."""


class SourceTraining(Settings):
    """How the source network, which all methods of a seed start from, is trained."""

    steps: int = Field(4000, ge=0)
    """Optimiser steps; 0 leaves random or pre-trained weights."""
    batch_size: int = Field(128, ge=1)
    """Source images in a step."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate of Adam."""
    weight_decay: float = Field(2.5e-5, ge=0)
    """L2 penalty (ADDA's value)."""
    head: float = Field(1.0, gt=0)
    """Factor of the learning rate for new layers."""
    decay: Decay = "constant"
    """Learning rate over time."""
    seed: Seed = 0
    """Seed of initialisation and order."""

    def loop(self) -> TrainConfig:
        """The same as settings of the training loop."""
        return TrainConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            seed=self.seed,
            beta1=0.9,
            network=GroupConfig(lr=self.lr),
            weight_decay=self.weight_decay,
            head=self.head,
            decay=self.decay,
        )


class DigitSetup(Settings):
    """What the digit tasks have beside the settings of all runs."""

    kind: Literal["digits"] = "digits"
    """The benchmark."""
    pixels: Pixels = "[-1, 1]"
    """How pixels are scaled; networks that bring a scale of their own keep it."""
    counts: Counts = "all"
    """Which images: all, equally many of each class in both domains, or a target with skewed classes."""


class OfficeSetup(Settings):
    """What Office-31 has beside the settings of all runs: the network, and which part of it is trained."""

    kind: Literal["office31"] = "office31"
    """The benchmark."""
    weights: str | None = "weights/tf_efficientnet_lite0.safetensors"
    """File with ImageNet weights, below the data folder unless the path is absolute; None: random weights."""
    image_size: int = Field(128, ge=32)
    """Height and width in pixels."""
    freeze: str = "blocks.5"
    """The last frozen stage: it and all before it keep their weights and batch-norm statistics in both streams."""
    views: int = Field(8, ge=1)
    """Augmented views of each image, computed once; a batch takes one of them at random."""
    bottleneck: int = Field(256, ge=1)
    """Width of the layer before the new classifier; the domain classifier reads it."""


class DroneSetup(Settings):
    """What the detection tasks have beside the settings of all runs."""

    kind: Literal["drones"] = "drones"
    """The benchmark."""
    labels: int = Field(200, ge=0)
    """Photographed drones with labels; the others of the training set are there without."""
    part: Literal["test", "validation"] = "test"
    """What is scored: the test, or a part of the training photographs that is then not trained on."""


Setup = Annotated[DigitSetup | OfficeSetup | DroneSetup, Field(discriminator="kind")]


class PlanBase(Settings):
    """What a plan says apart from the library's settings, whose names may change from version to version."""

    task: str
    """Name of the pair of domains."""
    arch: str
    """Model spec."""
    method: str
    """Name of the method."""
    seed: Seed
    """The run's number."""
    varied: Literal["all", "order"] = "all"
    """What the seed changes: source network, initialisation and order, or the order of samples only."""
    recipe: RecipeName = "common"
    """Common to all methods, a method's own as it was published, plus, or the library's default."""
    note: str = ""
    """Name of a variant of the settings; runs with different notes are different rows of a table."""
    tries: int = 1
    """Configurations tried, without target labels, before this one was chosen."""
    swept: str = ""
    """The setting whose values this run and others of its experiment differ in, for instance ``rank.weight``."""
    setup: Setup = DigitSetup()
    """What belongs to the benchmark."""
    standardise: bool = False
    """Whether the network standardises each image by itself before anything else."""
    precision: Precision = "float32"
    """Mixed precision of the forward pass, also while the source network is trained."""
    source: SourceTraining = SourceTraining()
    """Training of the source network."""
    network_sha256: str | None = None
    """Hash of the weights that the run must start from; None: whatever the training of the source network gives."""

    @property
    def label(self) -> str:
        """What tables and messages call the method: its recipe is said where it is not the common one."""
        return self.method if self.recipe == "common" else f"{self.method} ({self.recipe})"

    @property
    def is_source_network(self) -> bool:
        """Whether the run is the source network itself, which is not trained further."""
        return self.method == "source_only" and self.source.steps > 0


class Plan(PlanBase):
    """One run that can be executed."""

    train: TrainConfig = TrainConfig()
    """The adaptation loop."""
    settings: MethodConfig = MethodConfig()
    """The method."""

    def key(self) -> str:
        """A name that two plans share exactly when they would give the same run under the same note."""
        plan = self
        if self.is_source_network:
            plan = self.model_copy(
                update={"train": TrainConfig(), "settings": MethodConfig(augment=self.settings.augment)}
            )
        elif self.method != "rpt":  # no other method selects ranks
            plan = self.model_copy(update={"settings": self.settings.model_copy(update={"rank": RankConfig()})})
        text = plan.model_dump_json(exclude={"tries", "swept"})
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def name(self) -> str:
        """A run, for messages and process lists."""
        labels = f" {self.setup.labels} labels" if isinstance(self.setup, DroneSetup) else ""
        note = f", {self.note}" if self.note else ""
        return f"{self.task} {self.label}{labels} seed {self.seed}{note}"

    def with_seed(self, seed: int) -> Plan:
        """The run of one seed: methods of one seed share the source network and the order, so runs are paired."""
        update: dict[str, Any] = {"seed": seed, "train": self.train.model_copy(update={"seed": seed})}
        if self.varied == "all":
            update["source"] = self.source.model_copy(update={"seed": seed})
            update["settings"] = _seeded(self.settings, seed)
        return self.model_copy(update=update)

    def with_network(self, seed: int, sha256: str | None) -> Plan:
        """From the source network of this seed, with its start of transforms and domain classifiers."""
        return self.model_copy(
            update={
                "source": self.source.model_copy(update={"seed": seed}),
                "settings": _seeded(self.settings, seed),
                "network_sha256": sha256,
            }
        )


class RecordedPlan(PlanBase):
    """The plan of a finished run, with the library's settings as the version that ran it had them."""

    train: dict[str, Any] = {}
    """The adaptation loop."""
    settings: dict[str, Any] = {}
    """The method."""

    @property
    def steps(self) -> int:
        """Steps of adaptation; 0 for the source network itself, whatever its experiment says."""
        return 0 if self.is_source_network else int(self.train["steps"])

    def setting(self, key: str) -> Any:
        """The value of a method's setting, for instance ``rank.weight``."""
        value: Any = self.settings
        for part in key.split("."):
            value = value[part]
        return value


def _seeded(settings: MethodConfig, seed: int) -> MethodConfig:
    """The same settings with another random start."""
    starts = ("transform", "discrepancy")
    return settings.model_copy(
        update={name: getattr(settings, name).model_copy(update={"seed": seed}) for name in starts}
    )
