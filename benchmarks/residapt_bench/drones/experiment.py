"""The detection tasks: which patches are source, target, labelled target and scored, and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from residapt.data.batches import derived_seed
from residapt.data.domains import DomainPair, JoinedImages, Labelled, TensorImages
from residapt.data.split import Part
from residapt.errors import ConfigError
from residapt.evaluate.metrics import OneAgainstRest, average_precision
from residapt.evaluate.predict import Evaluation, evaluating, predict_logits
from residapt.methods.recipes import RECIPES
from residapt.models.input_spec import input_spec
from residapt.models.specs import build_model
from residapt.models.standardise import standardised
from residapt.train import Method
from residapt_bench.digits.experiment import Scale
from residapt_bench.drones.patches import DetectionData, read_uav
from residapt_bench.drones.render.standin import detection_data, load_standin
from residapt_bench.experiment import Defaults, TaskData
from residapt_bench.plan import DroneSetup, Plan, SourceTraining
from residapt_bench.progress import write_line
from residapt_bench.record import DataFiles, Score

CLASSES = ("negative", "drone")
NEED_LABELS = ("fine_tune", "pooled")
SOURCE = SourceTraining(steps=1000, batch_size=64)
SETTINGS: dict[str, Any] = {
    "train": {"steps": 400, "batch_size": 32, "log_every": 100},
    # The run is short, so that the proximal steps lie closer together than by default.
    "rank": {"every": 15},
}
"""Settings of all methods; what was chosen for a method on the validation part comes after them."""


class DroneExperiment:
    """UAV-200 and its stand-in."""

    tasks = ("uav", "drone-standin")

    def defaults(self, task: str, method: str, recipe: str, setup: Mapping[str, Any]) -> Defaults:
        """The same for both tasks; the source network takes no labels of the target, whatever their number."""
        made = DroneSetup.parse(setup, where="setup")
        if method == "source_only":
            made = made.model_copy(update={"labels": 0})
        if method in NEED_LABELS and not made.labels:
            raise ConfigError(
                f"method '{method}' learns from labelled target images; without any it is source_only. "
                "Set setup.labels to 1 or more for it."
            )
        name = recipe if recipe in RECIPES else "paper"
        return Defaults("uavnet", {**SETTINGS, "recipe": name}, made, SOURCE)

    def load(self, plan: Plan, root: Path, cache: Path) -> TaskData:
        """The patches, drawn and cut once."""
        assert isinstance(plan.setup, DroneSetup)
        validation = plan.setup.part == "validation"
        return detection_task(load_data(plan.task, root, cache, validation=validation), plan)

    def network(self, plan: Plan, data: TaskData, root: Path) -> nn.Module:
        """A network with random weights that the seed decides."""
        torch.manual_seed(plan.source.seed)
        network = build_model(plan.arch, num_classes=len(CLASSES), in_channels=1)
        return standardised(network) if plan.standardise else network

    def score(self, method: Method, evaluation: Evaluation) -> Score:
        """Average precision of the drones, and accuracy, which says little where negatives abound."""
        labels = evaluation.data.labels
        with evaluating(method):
            device = next(method.parameters()).device
            logits = predict_logits(
                lambda x: method.predict(x, evaluation.stream), evaluation.data.images, device=device
            )
        drone = CLASSES.index("drone")
        return Score(
            accuracy=round(100.0 * float((logits.argmax(1) == labels).double().mean()), 3),
            protocol=evaluation.protocol,
            average_precision=round(average_precision(OneAgainstRest(logits).log_odds(drone), labels == drone), 5),
            positives=int((labels == drone).sum()),
            negatives=int((labels != drone).sum()),
        )


@lru_cache(maxsize=2)
def load_data(task: str, root: Path, cache: Path, *, validation: bool) -> DetectionData:
    """All patches of a task."""
    if task == "uav":
        return read_uav(root, validation=validation)
    return detection_data(*load_standin(root, cache, on_count=_drawing), validation=validation)


def _drawing(name: str, done: int, total: int) -> None:
    """A line now and then: drawing takes minutes."""
    if done % 1000 == 0 or done == total:
        write_line(f"drawing {name}: {done:,} of {total:,}", None)


def detection_task(data: DetectionData, plan: Plan) -> TaskData:
    """Both domains, half drones each, with the setup's labelled drones beside the target's negatives."""
    assert isinstance(plan.setup, DroneSetup)
    spec = input_spec(plan.arch)
    if spec.channels != 1 or spec.size != data.real.shape[-1]:
        raise ConfigError(
            f"network '{plan.arch}' reads {spec.size}x{spec.size} images with {spec.channels} channels, the patches "
            f"are {data.real.shape[-1]}x{data.real.shape[-1]} and grey. Use uavnet."
        )
    scale = Scale(spec.mean, spec.std)
    images = {name: TensorImages(getattr(data, name), scale, name=name) for name in _TRAINED}
    source = joined(images["source_negatives"], images["synthetic"])
    target = half_each(len(data.negatives), len(data.real))
    labelled = None
    if plan.setup.labels:
        chosen = labelled_drones(len(data.real), plan.setup.labels, plan.seed)
        labelled = joined(images["negatives"], TensorImages(data.real[chosen], scale, name="real"))
    both = JoinedImages(images["negatives"], images["real"])
    evaluations = tuple(
        Evaluation(test.name, joined(TensorImages(test.negatives, scale), TensorImages(test.drones, scale)))
        for test in data.tests
    )
    return TaskData(
        DomainPair(source, Part(both, target), labelled, balance="classes"),
        evaluations,
        source_key=f"{plan.task} {data.files} {plan.setup.part if plan.task == 'uav' else ''}",
        files=DataFiles(files=data.files),
    )


_TRAINED = ("synthetic", "source_negatives", "real", "negatives")


def joined(negatives: TensorImages, drones: TensorImages) -> Labelled:
    """Negatives (class 0), then drones (class 1)."""
    labels = torch.cat([torch.zeros(len(negatives)), torch.ones(len(drones))]).long()
    return Labelled(JoinedImages(negatives, drones), labels)


def labelled_drones(available: int, count: int, seed: int) -> Tensor:
    """Which drones have labels: of one seed, fewer are always part of more."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "labelled drones"))
    return torch.randperm(available, generator=generator)[:count]


def half_each(negatives: int, drones: int) -> Tensor:
    """Indices into negatives and then drones, the fewer ones repeated until both are half of all."""
    most = max(negatives, drones)
    return torch.cat([torch.arange(most) % negatives, negatives + torch.arange(most) % drones])
