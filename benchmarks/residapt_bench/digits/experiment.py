"""The digit tasks: which files, how they become tensors, what is scored, and the settings of all methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Images, Labelled, TensorImages
from residapt.data.imageset import ImageSet
from residapt.data.preprocess import resize, to_grey, to_rgb
from residapt.data.split import Part, part_of
from residapt.errors import ConfigError
from residapt.evaluate.evidence import subset
from residapt.evaluate.predict import Evaluation
from residapt.models.input_spec import InputSpec, input_spec
from residapt.models.specs import build_model
from residapt.models.standardise import standardised
from residapt.settings import merged
from residapt.train import Method
from residapt_bench.digits.class_counts import with_counts
from residapt_bench.digits.readers import read_mnist, read_svhn, read_usps
from residapt_bench.digits.recipes import Pixels, Recipe, recipe_for
from residapt_bench.experiment import Defaults, TaskData, accuracy_score
from residapt_bench.plan import DigitSetup, Plan, SourceTraining
from residapt_bench.record import DataFiles, Score

READERS: dict[str, Callable[[Path, str], ImageSet]] = {"svhn": read_svhn, "mnist": read_mnist, "usps": read_usps}
TASKS = {
    "svhn-mnist": ("svhn", "mnist"),
    "svhn-usps": ("svhn", "usps"),
    "mnist-usps": ("mnist", "usps"),
    "usps-mnist": ("usps", "mnist"),
}
NUM_CLASSES = 10
COMPARED = 3000
"""Images of each domain that the label-free scores are computed on, the same ones for every run of a task."""
MEASURING = {"train": {"evaluate_every": 1000, "log_every": 500}}


class DigitExperiment:
    """Pairs of SVHN, MNIST and USPS."""

    tasks = tuple(TASKS)

    def defaults(self, task: str, method: str, recipe: str, setup: Mapping[str, Any]) -> Defaults:
        """The settings of a recipe."""
        _require_task(task)
        found = recipe_for(method, cast(Literal["common", "own", "plus"], recipe))
        values = {
            "train": found.train.model_dump(mode="json"),
            **found.method.model_dump(mode="json"),
            "model": {"standardise": found.standardise},
        }
        made = DigitSetup.parse({"pixels": found.pixels, **setup}, where="setup")
        return Defaults("lenet", merged(values, MEASURING), made, source_training(found))

    def load(self, plan: Plan, root: Path, cache: Path) -> TaskData:
        """Read a task's files; the target's training labels are for scoring and for the oracle."""
        setup = plan.setup
        assert isinstance(setup, DigitSetup)
        spec = input_spec(plan.arch)
        source, target = _require_task(plan.task)
        sets = {
            (which, split): with_counts(_read(which, split, root, spec), setup.counts, target=which == target)
            for which in (source, target)
            for split in ("train", "test")
        }
        scales = {which: scale_for(spec, setup.pixels, sets[which, "train"]) for which in (source, target)}
        labelled = {
            (which, split): Labelled(TensorImages(found.images, scales[which], name=found.name), found.labels)
            for (which, split), found in sets.items()
        }
        target_train, source_test = labelled[target, "train"], labelled[source, "test"]
        evaluations = (
            Evaluation("target_test", labelled[target, "test"]),
            Evaluation("target_train", target_train, protocol="transductive"),
            Evaluation("source_test", source_test, stream="source"),
        )
        files = tuple(f"{item.name} {item.checksum}" for item in sets.values())
        return TaskData(
            DomainPair(labelled[source, "train"], target_train.images),
            evaluations,
            source_key=f"{files[0]} {setup.pixels} {spec}",
            files=DataFiles(official=all(item.official for item in sets.values()), files=files),
            target_labels=target_train,
            compared=_compared(source_test, target_train.images),
        )

    def network(self, plan: Plan, data: TaskData, root: Path) -> nn.Module:
        """A network with random weights that the seed decides."""
        torch.manual_seed(plan.source.seed)
        index = torch.zeros(1, dtype=torch.long)
        channels = int(data.pair.source.images.fetch(index, torch.Generator()).shape[1])
        network = build_model(plan.arch, num_classes=NUM_CLASSES, in_channels=channels)
        return standardised(network) if plan.standardise else network

    def score(self, method: Method, evaluation: Evaluation) -> Score:
        """Accuracy."""
        return accuracy_score(method, evaluation)


def source_training(recipe: Recipe) -> SourceTraining:
    """A recipe's source network; none leaves the random start, which is a training of 0 steps."""
    if recipe.source is None:
        return SourceTraining(steps=0)
    loop = recipe.source
    return SourceTraining(
        steps=loop.steps, batch_size=loop.batch_size, lr=loop.network.lr, weight_decay=loop.weight_decay
    )


def _require_task(name: str) -> tuple[str, str]:
    if name not in TASKS:
        raise ConfigError(f"there is no digit task '{name}'; tasks: {', '.join(TASKS)}.")
    return TASKS[name]


def _compared(held_out: Labelled, target: Images) -> tuple[Labelled, Images]:
    """Held-out source images, and unlabelled target images of training."""
    source = part_of(held_out, subset(len(held_out.images), COMPARED, seed=0))
    return source, Part(target, subset(len(target), COMPARED, seed=0))


@lru_cache(maxsize=8)
def _read(which: str, split: str, root: Path, spec: InputSpec) -> ImageSet:
    found = READERS[which](root, split)
    images = to_grey(found.images) if spec.channels == 1 and found.images.shape[1] == 3 else found.images
    images = to_rgb(images) if spec.channels == 3 and images.shape[1] == 1 else images
    return replace(found, images=resize(images, spec.size))


class Scale:
    """uint8 to floats, (x - mean) / std per channel in one pass; both are in units of the whole range, 255."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean).view(1, -1, 1, 1) * 255
        self.std = torch.tensor(std).view(1, -1, 1, 1) * 255

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Normalised floats."""
        return images.float().sub_(self.mean).div_(self.std)


def scale_for(spec: InputSpec, pixels: Pixels, data: ImageSet) -> Scale:
    """The scale of a recipe: the network's own, [0, 1], or centred at the mean of the domain's training images."""
    if pixels == "[-1, 1]":
        return Scale(spec.mean, spec.std)
    if pixels == "[0, 1]":
        return Scale((0.0,), (1.0,))
    return Scale((data.images.float().mean(dim=(0, 2, 3)) / 255).tolist(), (1.0,))
