"""A detection task as a pair of domains: which patches are source, target, labelled target, and scored."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.batches import derived_seed
from residapt.data.domains import DomainPair, JoinedImages, Labelled, TensorImages
from residapt.data.split import Part
from residapt.errors import ConfigError
from residapt.evaluate.predict import Evaluation
from residapt.models.input_spec import input_spec
from residapt_bench.digits.tasks import Scale, Task
from residapt_bench.drones.patches import DetectionData, read_uav
from residapt_bench.drones.plans import DetectionPlan
from residapt_bench.drones.render.standin import detection_data, load_standin

CLASSES = ("negative", "drone")


@lru_cache(maxsize=2)
def load_data(task: str, root: Path, cache: Path, *, validation: bool) -> DetectionData:
    """All patches of a task."""
    if task == "uav":
        return read_uav(root, validation=validation)
    if task == "drone-standin":
        return detection_data(*load_standin(root, cache), validation=validation)
    raise ConfigError(f"there is no detection task '{task}'; tasks: uav, drone-standin.")


def detection_task(data: DetectionData, plan: DetectionPlan) -> Task:
    """Both domains, half drones each, with ``plan.labels`` labelled drones beside the target's negatives."""
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
    few = None
    if plan.labels:
        chosen = labelled_drones(len(data.real), plan.labels, plan.seed)
        few = joined(images["negatives"], TensorImages(data.real[chosen], scale, name="real"))
    both = JoinedImages(images["negatives"], images["real"])
    pair = DomainPair(source, Part(both, target), few, balance="classes")
    evaluations = tuple(
        Evaluation(test.name, joined(TensorImages(test.negatives, scale), TensorImages(test.drones, scale)))
        for test in data.tests
    )
    return Task(pair, evaluations, False, data.files)


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
