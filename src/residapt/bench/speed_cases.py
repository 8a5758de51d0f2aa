"""What the speed benchmark compares: a step of DANN and a step of RPT, on three networks.

DANN is written out here in its cheapest form, one plain network and both domains in one batch, so that RPT is held
against the best that can be done without it. RPT goes through the library's own method and optimiser.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.losses.adversarial import DomainClassifier, domain_logits, domain_loss, flipped_loss, frozen
from residapt.methods import build_method
from residapt.models.lenet import LeNet
from residapt.models.svhnet import SvhNet
from residapt.models.zoo import torchvision_models
from residapt.train import Method, TrainConfig
from residapt.train.optimiser import build_optimizer
from residapt.train.schedule import ramp

PROGRESS = 0.5
"""Training progress at which steps are timed; the confusion weight has nearly reached its full value there."""


@dataclass(frozen=True)
class SpeedCase:
    """A network, the size of its input, and how it is timed."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, int, int]
    size: int
    """Samples of each domain in a batch."""
    classes: int
    threads: int
    rounds: float
    """Share of the asked rounds; a step of a large network is long and needs fewer."""
    aim: float
    """Largest ratio of RPT to DANN that is wanted."""
    times_prox: bool = False
    """Whether the proximal step of all layers is timed as well."""

    def network(self) -> nn.Module:
        """A fresh network, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build().to(memory_format=torch.channels_last)

    def batch(self) -> Batch:
        """Random images of both domains."""
        generator = torch.Generator().manual_seed(0)
        images = [torch.randn(self.size, *self.shape, generator=generator) for _ in range(2)]
        labels = torch.randint(0, self.classes, (self.size,), generator=generator)
        return Batch(images[0], labels, images[1]).to(torch.device("cpu"), torch.channels_last)


def _resnet50() -> nn.Module:
    made: nn.Module = torchvision_models().resnet50(num_classes=31)
    return made


CASES = {
    case.name: case
    for case in (
        SpeedCase("lenet", LeNet, (1, 28, 28), 64, 10, threads=1, rounds=1.0, aim=1.15),
        SpeedCase("svhnet", SvhNet, (3, 32, 32), 64, 10, threads=1, rounds=0.5, aim=1.15),
        SpeedCase(
            "resnet50",
            _resnet50,
            (3, 224, 224),
            8,
            31,
            threads=os.cpu_count() or 1,
            rounds=0.2,
            aim=1.05,
            times_prox=True,
        ),
    )
}


def find_case(name: str) -> SpeedCase:
    """The case of that name."""
    if name not in CASES:
        raise ConfigError(f"bench speed: there is no case '{name}'. Cases: {', '.join(CASES)}.")
    return CASES[name]


Step = Callable[[], None]


def dann_step(case: SpeedCase) -> Step:
    """One step of DANN with flipped labels: one plain network, both domains in one batch."""
    network, batch, classifier = case.network().train(), case.batch(), DomainClassifier(case.classes)
    optimizer = torch.optim.Adam([*network.parameters(), *classifier.parameters()], lr=2e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = network(torch.cat([batch.source, batch.target]))
        source, target = logits[: case.size], logits[case.size :]
        loss = functional.cross_entropy(source, batch.labels) + _adversarial(classifier, source, target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _adversarial(classifier: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    own = domain_loss(domain_logits(classifier, source.detach(), target.detach()))
    with frozen(classifier):
        return own + ramp(PROGRESS) * flipped_loss(domain_logits(classifier, source, target))


def rpt_method(case: SpeedCase) -> Method:
    """RPT with all layers at rank 32 and the ranks kept."""
    method = build_method("rpt_fixed", case.network(), example=case.batch().source)
    return method.to(memory_format=torch.channels_last).train()


def rpt_step(case: SpeedCase) -> Step:
    """One step of RPT as the trainer does it."""
    method, batch = rpt_method(case), case.batch()
    optimizer = build_optimizer(method.groups(), TrainConfig())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        method.losses(batch, PROGRESS).total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


STEPS: dict[str, Callable[[SpeedCase], Step]] = {"dann": dann_step, "rpt": rpt_step}
