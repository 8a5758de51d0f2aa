"""The demonstration: printed digits (labelled) to real handwritten ones (unlabelled), with nothing to download."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.evaluate.predict import Evaluation, accuracy
from residapt.methods import MethodConfig
from residapt.methods.fit import make_trainer, source_pair
from residapt.methods.rounds import Round, in_rounds
from residapt.models import LeNet
from residapt.rank import RankConfig
from residapt.settings import Settings
from residapt.train import Callback, GroupConfig, Method, TrainConfig

TITLES = {"source_only": "source only", "dann_flip": "DANN", "rpt_fixed": "RPT, fixed ranks", "rpt": "RPT"}


class DemoConfig(Settings):
    """Sizes and settings of the demonstration; the same budget for every method."""

    source_images: int = 8000
    """Printed digits drawn."""
    source_steps: int = 500
    """Steps of 128 printed digits for the source network."""
    steps: int = 600
    """Steps of 64 + 64 digits for each adaptation."""
    train: TrainConfig = TrainConfig(log_every=20)
    """The adaptation loop."""
    method: MethodConfig = MethodConfig(rank=RankConfig(every=20))
    """Settings of the methods; the short run has its proximal steps closer together."""


@dataclass(frozen=True)
class DemoResult:
    """One row of the demonstration's table."""

    method: str
    seed: int
    accuracy: float
    seconds: float
    added: int
    ranks_before: dict[str, tuple[int, int]]
    ranks_after: dict[str, tuple[int, int]]

    def record(self) -> dict[str, object]:
        """The row for a JSONL file."""
        return asdict(self)


@dataclass(frozen=True)
class DemoData:
    """The pair of domains, and the half of the handwritten digits that is held out to score."""

    pair: DomainPair
    held_out: Evaluation


def demo_data(config: DemoConfig, seed: int) -> DemoData:
    """Draw the printed digits and split the handwritten ones in two halves."""
    printed, written = printed_digits(config.source_images, seed=seed), handwritten_digits()
    order = torch.randperm(len(written), generator=torch.Generator().manual_seed(seed))
    half = len(written) // 2
    source = Labelled(TensorImages(printed.images, scale, name="printed digits"), printed.labels)
    target = TensorImages(written.images[order[:half]], scale, name="handwritten digits")
    scored = Labelled(TensorImages(written.images[order[half:]], scale), written.labels[order[half:]])
    return DemoData(DomainPair(source, target), Evaluation("handwritten digits", scored, protocol="held-out"))


def scale(images: Tensor, generator: torch.Generator) -> Tensor:
    """Grey values in [-1, 1]."""
    return images.float().div_(127.5).sub_(1.0)


def run_demo(
    methods: Sequence[str],
    *,
    seed: int = 0,
    config: DemoConfig | None = None,
    callbacks: Callable[[str], Iterable[Callback]] = lambda title: (),
    on_method: Callable[[Method], None] = lambda method: None,
) -> list[DemoResult]:
    """Train the source network once, then every method from it; labels of the target only score the result."""
    config = config or DemoConfig()
    data = demo_data(config, seed)
    torch.manual_seed(seed)
    network = LeNet()
    results = [_train_source(network, data, config, seed, callbacks)]
    for name in methods:
        method, seconds, before = _adapt(name, network, data, config, seed, callbacks)
        on_method(method)
        added = sum(parameter.numel() for parameter in method.streams.transforms.parameters())
        score = accuracy(method, data.held_out)
        results.append(DemoResult(name, seed, score, seconds, added, before, method.streams.ranks()))
    return results


def _train_source(
    network: nn.Module,
    data: DemoData,
    config: DemoConfig,
    seed: int,
    callbacks: Callable[[str], Iterable[Callback]],
) -> DemoResult:
    train = TrainConfig(
        steps=config.source_steps, batch_size=128, beta1=0.9, seed=seed, network=GroupConfig(lr=1e-3), log_every=20
    )
    trainer = make_trainer(
        "source_only",
        network,
        source_pair(data.pair.source),
        method=config.method,
        train=train,
        callbacks=callbacks(TITLES["source_only"]),
    )
    started = time.monotonic()
    method = trainer.run()
    return DemoResult("source_only", seed, accuracy(method, data.held_out), time.monotonic() - started, 0, {}, {})


def _adapt(
    name: str,
    network: nn.Module,
    data: DemoData,
    config: DemoConfig,
    seed: int,
    callbacks: Callable[[str], Iterable[Callback]],
) -> tuple[Method, float, dict[str, tuple[int, int]]]:
    train = config.train.model_copy(update={"steps": config.steps, "seed": seed})
    settings = config.method
    settings = settings.model_copy(
        update={
            "transform": settings.transform.model_copy(update={"seed": seed}),
            "discrepancy": settings.discrepancy.model_copy(update={"seed": seed}),
        }
    )
    before: dict[str, tuple[int, int]] = {}

    def run(turn: Round) -> Method:
        trainer = make_trainer(
            name,
            copy.deepcopy(network),
            data.pair,
            method=turn.settings,
            train=turn.train,
            callbacks=callbacks(TITLES.get(name, name)),
        )
        before.update(trainer.method.streams.ranks())
        return trainer.run()

    started = time.monotonic()
    trained, _ = in_rounds(Round(settings, train), run, data.pair.target)
    return trained, time.monotonic() - started, before
