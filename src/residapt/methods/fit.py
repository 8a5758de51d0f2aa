"""Build a method around a network and train it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from residapt.data.config import Balance
from residapt.data.domains import DomainPair, Images, Labelled
from residapt.distributed import Engine
from residapt.methods.baselines import training_pair
from residapt.methods.config import MethodConfig
from residapt.methods.registry import build_method
from residapt.methods.start import start_from
from residapt.streams import TwoStream
from residapt.train import Callback, Method, TrainConfig, Trainer


def example_of(images: Images) -> Tensor:
    """Two images as the network sees them."""
    index = torch.arange(min(2, len(images)))
    return images.fetch(index, torch.Generator().manual_seed(0))


def make_trainer(
    name: str,
    network: nn.Module,
    pair: DomainPair,
    *,
    method: MethodConfig,
    train: TrainConfig,
    callbacks: Iterable[Callback] = (),
    engine: Engine | None = None,
    target_labels: Labelled | None = None,
    start: TwoStream | None = None,
) -> Trainer:
    """A trainer for the named method, ready to run; ``network`` is trained in place.

    ``target_labels`` reach the oracle alone; every other method is trained without them. ``start`` is an adapter on the
    same network that the target stream starts from.
    """
    engine = engine or Engine()
    network = network.to(engine.device)
    built = build_method(name, network, method, example=example_of(pair.source.images).to(engine.device))
    if start is not None:
        start_from(built.streams, start)
    return Trainer(built, training_pair(built, pair, target_labels), train, callbacks=callbacks, engine=engine)


def fit(name: str, network: nn.Module, pair: DomainPair, **settings: object) -> Method:
    """Train the named method to its end; settings are those of :func:`make_trainer`."""
    return make_trainer(name, network, pair, **settings).run()  # type: ignore[arg-type]


def source_pair(source: Labelled, balance: Balance = "as-is", workers: int | None = None) -> DomainPair:
    """The pair for training on the source alone, whose target side is never used."""
    return DomainPair(source, source.images, balance=balance, workers=workers)
