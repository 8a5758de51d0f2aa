"""What the speed benchmark compares: a step of DANN and a step of RPT, on several networks.

DANN is written out here in its cheapest form, one plain network and both domains in one batch, so that RPT is held
against the best that can be done without it. RPT goes through the library's own method and optimiser.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.losses.adversarial import DomainClassifier, domain_logits, domain_loss, flipped_loss, frozen
from residapt.methods import MethodConfig, build_method
from residapt.models import LeNet, SvhNet
from residapt.models.zoo import timm_module, torchvision_models
from residapt.train import Method, TrainConfig, eager
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
    """Largest acceptable ratio of RPT to DANN."""
    times_prox: bool = False
    """Whether the proximal step of all layers is timed as well."""
    rank: int = 32
    """l and r of every layer."""

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


def _torchvision(name: str) -> nn.Module:
    made: nn.Module = torchvision_models().get_model(name, weights=None, num_classes=31)
    return made


def vit_small() -> nn.Module:
    """ViT-S/16 for 31 classes."""
    made: nn.Module = timm_module().create_model("vit_small_patch16_224", num_classes=31)
    return made


def resnet_case(name: str, *, size: int, pixels: int, rank: int = 32) -> SpeedCase:
    """A ResNet of torchvision with ``size`` images of each domain in a step."""
    shape = (3, pixels, pixels)
    build = partial(_torchvision, name)
    return SpeedCase(name, build, shape, size, 31, os.cpu_count() or 1, rounds=0.2, aim=1.05, rank=rank)


CASES = {
    case.name: case
    for case in (
        SpeedCase("lenet", LeNet, (1, 28, 28), 64, 10, threads=1, rounds=1.0, aim=1.10),
        SpeedCase("svhnet", SvhNet, (3, 32, 32), 64, 10, threads=1, rounds=0.5, aim=1.15),
        replace(resnet_case("resnet50", size=8, pixels=224), times_prox=True),
        replace(resnet_case("resnet50", size=32, pixels=112), name="resnet50_112", aim=1.15),
        SpeedCase("vit_s", vit_small, (3, 224, 224), 8, 31, os.cpu_count() or 1, rounds=0.2, aim=1.10),
    )
}


def find_case(name: str) -> SpeedCase:
    """The case of that name."""
    if name not in CASES:
        raise ConfigError(f"there is no case '{name}'. Cases: {', '.join(CASES)}.")
    return CASES[name]


Step = Callable[[], None]


def dann_step(case: SpeedCase) -> Step:
    """One step of DANN with flipped labels: one plain network, both domains in one batch."""
    network, batch, classifier = case.network().train(), case.batch(), DomainClassifier(case.classes)
    optimizer = eager.Adam([*network.parameters(), *classifier.parameters()], lr=2e-4, fused=True)

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
    """RPT with all layers at the case's rank and the ranks kept."""
    config = MethodConfig.parse({"transform": {"left_rank": case.rank, "right_rank": case.rank}})
    method = build_method("rpt_fixed", case.network(), config, example=case.batch().source)
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
