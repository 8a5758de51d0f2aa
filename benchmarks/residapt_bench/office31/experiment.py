"""Office-31: six pairs of domains, one deep network, and the one recipe by which every method is trained.

The protocol is fully transductive: all labelled source images, all target images without labels, and the accuracy on
the same target images. The first stages of the network are frozen for all methods alike; see
:mod:`residapt_bench.office31.images`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from residapt.data.domains import DomainPair, Labelled
from residapt.errors import ConfigError, DataError
from residapt.evaluate.predict import Evaluation
from residapt.methods.recipes import RECIPES
from residapt.settings import merged
from residapt.train import GroupConfig, Method, TrainConfig
from residapt_bench.experiment import Defaults, TaskData, accuracy_score
from residapt_bench.office31.images import load_domain
from residapt_bench.office31.network import OfficeNetwork, trained_part
from residapt_bench.plan import OfficeSetup, Plan, SourceTraining
from residapt_bench.record import DataFiles, Score

DOMAINS = {"a": "amazon", "w": "webcam", "d": "dslr"}
"""Letters of the pairs and folders of the domains."""
PAIRS = ("a-w", "w-a", "d-a", "a-d", "d-w", "w-d")
"""The six pairs, the hard ones first."""
ARCH = "timm:tf_efficientnet_lite0"
SOURCE = SourceTraining(steps=600, batch_size=32, lr=1e-4, weight_decay=0.0, head=10.0, decay="inverse")
SETTINGS: dict[str, Any] = {
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
    # Twenty proximal steps over the whole training, as on the digits; docs/research/deep.md says how it was chosen.
    "rank": {"every": 75},
    # The domain classifier of DANN on AlexNet, which the paper takes for its deep network; the weight is the paper's.
    "discrepancy": {"hidden": [1024, 1024], "dropout": 0.5, "weight": 1.0, "gamma": 10.0},
    # The last iterate goes up and down by several points; an average over some two hundred steps does not.
    "average": {"decay": 0.995, "start": 0.5},
    # What is trained reads activations, which cannot be turned or shifted as images can: another of their views.
    "consistency": {"view": "drawn"},
}
"""Settings of all methods and pairs, over the library's defaults."""


class OfficeExperiment:
    """Pairs of Amazon, Webcam and DSLR."""

    tasks = PAIRS

    def defaults(self, task: str, method: str, recipe: str, setup: Mapping[str, Any]) -> Defaults:
        """The same for all pairs and methods."""
        if task not in PAIRS:
            raise ConfigError(f"there is no pair '{task}' in Office-31; pairs: {', '.join(PAIRS)}.")
        values = {**SETTINGS, "recipe": recipe if recipe in RECIPES else "paper"}
        if recipe == "default":  # is meant for every task, and comes over what was chosen for the others here
            values = merged(values, RECIPES[recipe])
        return Defaults(ARCH, values, OfficeSetup.parse(setup, where="setup"), SOURCE)

    def load(self, plan: Plan, root: Path, cache: Path) -> TaskData:
        """The activations of the frozen stages, from the cache where another run has computed them already."""
        if not (root / "office31").is_dir():
            raise DataError(f"'{root}' has no folder 'office31' with the domains amazon, webcam and dslr; give --data.")
        network = OfficeNetwork.of(plan)
        names = [DOMAINS[letter] for letter in plan.task.split("-")]
        source, target = (load_domain(name, network, root, cache) for name in names)
        evaluations = (
            Evaluation("target", target.scored(), protocol="transductive"),
            Evaluation("source", source.scored(), stream="source", protocol="transductive"),
        )
        files = tuple(f"{name} {domain.checksum}" for name, domain in zip(names, (source, target), strict=True))
        return TaskData(
            DomainPair(Labelled(source.training(), source.labels), target.training()),
            evaluations,
            source_key=f"{files[0]} {network.model_dump_json()}",
            files=DataFiles(files=files),
            target_labels=Labelled(target.training(), target.labels),
            compared=(source.scored(), target.scored().images),
        )

    def network(self, plan: Plan, data: TaskData, root: Path) -> nn.Module:
        """The stages after the frozen ones, and new layers at the end."""
        return trained_part(OfficeNetwork.of(plan), root, plan.source.seed)

    def score(self, method: Method, evaluation: Evaluation) -> Score:
        """Accuracy."""
        return accuracy_score(method, evaluation)
