"""Read and check everything that a run needs, before anything is written or trained."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from residapt.config import Config
from residapt.data.domains import DomainPair, Labelled
from residapt.data.labelled_target import check_unchanged, open_few, records_of, with_few
from residapt.data.sources import OpenImages, OpenLabelled, Reading, open_evaluation, open_source, open_target
from residapt.data.split import Part, part_of, stratified_split
from residapt.distributed import Engine
from residapt.errors import DataError, ModelError
from residapt.evaluate.evidence import subset
from residapt.evaluate.metrics import check_positive
from residapt.methods.fit import example_of
from residapt.models import InputSpec
from residapt.run.checks import check_request, classes_of_folders
from residapt.run.defaults import Facts
from residapt.run.networks import (
    Network,
    accuracy_of,
    build_network,
    count_outputs,
    form_of,
    given_network,
    with_base,
)
from residapt.run.pace import decide
from residapt.run.request import Plan, Request
from residapt.run.scored import evaluation_set, unlabelled
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.run_directory import RunDirectory

TRAINED = 2.0
"""A network counts as trained on the source when it is right this many times as often as a guess."""


@dataclass(frozen=True, eq=False)
class _Data:
    """All data of a run, open."""

    source: OpenLabelled
    target: OpenImages
    scored: OpenLabelled | None
    few: OpenLabelled | None
    """Labelled target images."""

    @property
    def notes(self) -> tuple[str, ...]:
        others = [data.images.notes for data in (self.scored, self.few) if data]
        return (*self.source.images.notes, *self.target.notes, *(note for notes in others for note in notes))


def prepare(request: Request) -> Plan:
    """Everything a run needs, or an error that says what is wrong with what was given."""
    started = time.monotonic()
    config = _with_places(with_base(request.config), request)
    check_request(request, config)
    engine = Engine(config.device, config.precision)
    form = form_of(config, request.model)
    reading = Reading(form, config.data.augment, config.data.cache * 1e9)
    classes = classes_of_folders(request)
    source = None if classes else open_source(request.source, reading, request.classes)
    network = _network(request, config, form, classes or (source.classes if source else ()))
    with _status(request, "reading and checking the images ..."):
        source = source or open_source(request.source, reading, request.classes)
        data = _open(request, reading, source)
    plan, facts = _assemble(request, config, engine, network, form, data)
    if request.resume and request.out is not None:
        check_unchanged(plan.labelled, RunDirectory(request.out).labelled)
    plan = decide(plan, config, facts)
    plan.seconds["reading"] = time.monotonic() - started
    return plan


def _with_places(config: Config, request: Request) -> Config:
    """The configuration with the folders that are used, so that a run can be repeated from anywhere."""
    places = {name: getattr(request, name) for name in ("source", "target", "target_labels", "evaluate")}
    files = {"weights": config.model.weights, "base": config.model.base}
    data = config.data.model_copy(update={name: _absolute(value) for name, value in places.items()})
    model = config.model.model_copy(update={name: _absolute(value) for name, value in files.items()})
    return config.model_copy(update={"data": data, "model": model})


def _absolute(place: Any) -> str | None:
    return str(Path(place).absolute()) if isinstance(place, (str, Path)) else None


def _network(request: Request, config: Config, form: InputSpec, classes: tuple[str, ...]) -> Network:
    if request.model is not None:
        return given_network(config, request.model)
    return build_network(config, form, classes)


def _open(request: Request, reading: Reading, source: OpenLabelled) -> _Data:
    scored = few = None
    if request.evaluate is not None:
        scored = open_evaluation(request.evaluate, reading, source.classes)
    if request.target_labels is not None:
        few = open_few(request.target_labels, request.target, reading, source.classes)
    return _Data(source, open_target(request.target, reading), scored, few)


def _assemble(
    request: Request, config: Config, engine: Engine, network: Network, form: InputSpec, data: _Data
) -> tuple[Plan, Facts]:
    kept, held = stratified_split(data.source.labels, config.data.holdout, config.seed)
    if not len(held):
        raise DataError("every class of the source has a single image, so none can be held out. Add images.")
    example = example_of(data.source.images.plain)
    network.module.to(engine.device)
    _check_network(network, example.to(engine.device), data.source.classes)
    held_out = part_of(data.source.plain, held)
    train_source, notes = _needs_training(request, network, held_out, engine)
    check_positive(config.data.positive, data.source.classes)
    evaluation, more = evaluation_set(
        request.evaluate, data.scored, source=data.source, target=data.target, few=data.few
    )
    rest, also = unlabelled(data.target, data.few)
    shape = _input(form, example)
    plan = Plan(
        config=config,
        network=network.module,
        train_source=train_source,
        metadata=_metadata(request, config, data, shape),
        input=shape,
        pair=_pair(config, data, kept, example),
        held_out=held_out,
        target=data.target,
        sample=rest[subset(len(rest), config.data.score_images, seed=0)],
        unlabelled=rest,
        labelled=records_of(data.few),
        evaluation=evaluation,
        engine=engine,
        console=request.console,
        notes=(*data.notes, *notes, *more, *also),
        tensorboard=request.tensorboard,
        resume=request.resume,
    )
    return plan, Facts(len(kept), len(data.target), shape.size, shape.channels, network.pretrained)


def _pair(config: Config, data: _Data, kept: Tensor, example: Tensor) -> DomainPair:
    """What is trained on: labelled target images are target images as well, and stay among the unlabelled ones."""
    source = Labelled(Part(data.source.images.train, kept), data.source.labels[kept])
    if data.few is None:
        return DomainPair(source, data.target.train, balance=config.data.balance)
    shape = example_of(data.few.images.plain).shape[1:]
    if shape != example.shape[1:]:
        raise DataError(
            f"target_labels: images have shape {tuple(shape)}, but those of the source {tuple(example.shape[1:])}. "
            "Bring all images to one shape."
        )
    few = Labelled(data.few.images.train, data.few.labels)
    return DomainPair(source, with_few(data.target, data.few.images), few, config.data.balance)


def _check_network(network: Network, example: Tensor, classes: tuple[str, ...]) -> None:
    outputs = count_outputs(network.module, example)
    if outputs != len(classes):
        raise ModelError(
            f"{type(network.module).__name__} has {outputs} outputs, but the source has {len(classes)} classes "
            f"({', '.join(classes[:4])}{', ...' if len(classes) > 4 else ''}). Give a network with one output for each."
        )


def _needs_training(
    request: Request, network: Network, held_out: Labelled, engine: Engine
) -> tuple[bool, tuple[str, ...]]:
    """A network of a spec is trained unless it has a base; one that was given as an object, if it needs it."""
    if request.train_source is not None:
        return request.train_source, ()
    if request.model is None:
        return not network.trained, ()
    guess = 100.0 * float(held_out.labels.bincount().max()) / len(held_out.labels)
    right = accuracy_of(network.module, held_out, engine.device)
    if right >= min(TRAINED * guess, 0.5 * (100.0 + guess)):
        return False, ()
    note = (
        f"the network is right on {right:.0f} % of the held-out source images, where guessing gives {guess:.0f} %: "
        "it is trained on the source first. Set train_source to decide otherwise."
    )
    return True, (note,)


def _input(form: InputSpec, example: Tensor) -> InputSpec:
    """What the network reads, by the shape of what it was given."""
    channels, size = (example.shape[1], example.shape[-1]) if example.ndim > 1 else (1, 1)
    if channels == form.channels:
        return InputSpec(size=size, channels=channels, mean=form.mean, std=form.std, interpolation=form.interpolation)
    return InputSpec(size=size, channels=channels, mean=(0.0,), std=(1.0,), interpolation=form.interpolation)


def _metadata(request: Request, config: Config, data: _Data, shape: InputSpec) -> AdapterMetadata:
    own = request.model is not None
    return AdapterMetadata(
        method=config.method,
        classes=data.source.classes,
        model=None if own else config.model.spec,
        bottleneck=None if own else config.model.bottleneck,
        standardise=config.model.standardise,
        input=shape if data.source.images.raw and data.target.raw else None,
    )


def _status(request: Request, text: str) -> AbstractContextManager[Any]:
    if request.console.is_terminal:
        return request.console.status(text)
    request.console.print(text, markup=False, highlight=False)
    return nullcontext()
