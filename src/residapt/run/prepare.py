"""Read and check everything that a run needs, before anything is written or trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from residapt.config import Config
from residapt.data.decoded import CacheConfig
from residapt.data.domains import DomainPair, Labelled
from residapt.data.folders import LabelledFiles
from residapt.data.labelled_target import check_unchanged, open_few, records_of, with_few
from residapt.data.sources import OpenImages, OpenLabelled, Reading, open_evaluation, open_source, open_target
from residapt.data.split import Part, part_of, stratified_split
from residapt.distributed import Engine
from residapt.errors import ConfigError, DataError, ModelError
from residapt.evaluate.evidence import subset
from residapt.evaluate.metrics import check_positive
from residapt.methods.fit import example_of
from residapt.models import InputSpec
from residapt.run.clock import RunClock
from residapt.run.defaults import Facts, complete
from residapt.run.networks import (
    Network,
    accuracy_of,
    build_network,
    count_outputs,
    form_of,
    given_network,
    with_base,
)
from residapt.run.request import DATA, Request, Setup, check_request
from residapt.run.scan import Scanned, scan
from residapt.run.scoring import doubtful_data, evaluation_set, unlabelled
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.run_directory import RunDirectory
from residapt.train.progress import phase
from residapt.train.stopwatch import Stopwatch

TRAINED = 2.0
"""A network counts as trained on the source when it is right this many times as often as a guess."""

ASKED = 1000
"""Most held-out source images by which that is found out."""


@dataclass(frozen=True, eq=False)
class _Data:
    """All data of a run, open."""

    source: OpenLabelled
    target: OpenImages
    scored: OpenLabelled | None
    few: OpenLabelled | None
    """Labelled target images."""

    @property
    def opened(self) -> dict[str, OpenImages]:
        """All sets of images by name."""
        others = {"labelled": self.few, "evaluate": self.scored}
        found = {"source": self.source.images, "target": self.target}
        return found | {name: data.images for name, data in others.items() if data is not None}

    @property
    def notes(self) -> tuple[str, ...]:
        others = [data.images.notes for data in (self.scored, self.few) if data]
        return (*self.source.images.notes, *self.target.notes, *(note for notes in others for note in notes))


def prepare(request: Request) -> Setup:
    """Everything a run needs, or an error that says what is wrong with what was given."""
    config = with_base(request.config)
    check_request(request, config)
    stopwatch, clock = Stopwatch(), RunClock(config.minutes)
    with stopwatch.part("reading"):
        setup, facts = _read(request, config)
    setup = replace(setup, stopwatch=stopwatch, clock=clock)
    with setup.during("planning", "measuring how long things take"):
        return complete(setup, config, facts)


def _read(request: Request, config: Config) -> tuple[Setup, Facts]:
    engine = Engine(config.device, config.precision)
    form = form_of(config, request.model)
    reading = Reading(form, config.data.augment, CacheConfig(config.data.cache_gb * 1e9))
    given = request.scanned or scan(*(request.data(name) for name in DATA))
    folders = isinstance(given.source, LabelledFiles)
    source = None if folders else open_source(given.source, reading, request.classes)
    network = _network(request, config, form, source.classes if source else given.source.classes)
    with phase("reading and checking the images", request.console):
        source = source or open_source(given.source, reading)
        data = _open(given, reading, source)
    setup, facts = _assemble(request, config, engine, network, form, data)
    if request.resume and request.out is not None:
        check_unchanged(setup.labelled, RunDirectory(request.out).labelled)
    return setup, facts


def _network(request: Request, config: Config, form: InputSpec, classes: tuple[str, ...]) -> Network:
    if request.model is not None:
        return given_network(config, request.model)
    return build_network(config, form, classes)


def _open(given: Scanned, reading: Reading, source: OpenLabelled) -> _Data:
    scored = few = None
    if given.evaluate is not None:
        scored = open_evaluation(given.evaluate, reading, source.classes)
    if given.labelled is not None:
        few = open_few(given.labelled, given.target, reading, source.classes)
    return _Data(source, open_target(given.target, reading, given.found), scored, few)


def _assemble(
    request: Request, config: Config, engine: Engine, network: Network, form: InputSpec, data: _Data
) -> tuple[Setup, Facts]:
    config = _with_holdout(config, len(data.source.labels))
    kept, held = stratified_split(data.source.labels, config.data.holdout, config.seed)
    if not len(held):
        raise DataError("every class of the source has a single image, so none can be held out. Add images.")
    example = example_of(data.source.images.plain)
    _check_shapes(config, data, example)
    network.module.to(engine.device)
    _check_network(network, example.to(engine.device), data.source.classes)
    held_out = part_of(data.source.plain, held)
    train_source, notes = _needs_training(request, network, held_out, engine)
    check_positive(config.data.positive, data.source.classes)
    evaluation, more = evaluation_set(
        request.data("evaluate"), data.scored, source=data.source, target=data.target, labelled=data.few
    )
    rest, also = unlabelled(data.target, data.few)
    shape = _input(form, example)
    setup = Setup(
        config=config,
        network=network.module,
        train_source=train_source,
        metadata=_metadata(request, config, data, shape),
        input=shape,
        pair=_pair(config, data, kept, example),
        held_out=held_out,
        target=data.target,
        inputs=data.target.plain,
        opened=data.opened,
        sample=rest[subset(len(rest), config.data.score_images, seed=0)],
        scored=config.data.score_images,
        unlabelled=rest,
        labelled=records_of(data.few),
        evaluation=evaluation,
        engine=engine,
        console=request.console,
        callbacks=tuple(request.callbacks),
        notes=(*data.notes, *doubtful_data(data.source, data.target), *notes, *more, *also),
        tensorboard=request.tensorboard,
        keep_checkpoints=request.keep_checkpoints,
        resume=request.resume,
        outputs=request.outputs or (request.out and RunDirectory(request.out).outputs),
    )
    return setup, Facts(len(kept), len(data.target), shape.size, shape.channels, network.pretrained or not train_source)


def _with_holdout(config: Config, images: int) -> Config:
    """The share held out as set; unless it is set, no more of a large source than scores are computed on."""
    most = config.data.score_images / images
    if config.is_set("data", "holdout") or config.data.holdout <= most:
        return config
    return config.with_group("data", holdout=most)


def _pair(config: Config, data: _Data, kept: Tensor, example: Tensor) -> DomainPair:
    """What is trained on: labelled target images are target images as well, and stay among the unlabelled ones."""
    source = Labelled(Part(data.source.images.train, kept), data.source.labels[kept])
    if data.few is None:
        return DomainPair(source, data.target.train, balance=config.data.balance, workers=config.data.workers)
    shape = example_of(data.few.images.plain).shape[1:]
    if shape != example.shape[1:]:
        raise DataError(
            f"target_labels: images have shape {tuple(shape)}, but those of the source {tuple(example.shape[1:])}. "
            "Bring all images to one shape."
        )
    few = Labelled(data.few.images.train, data.few.labels)
    return DomainPair(source, with_few(data.target, data.few.images), few, config.data.balance, config.data.workers)


def _check_shapes(config: Config, data: _Data, example: Tensor) -> None:
    """Refuse a target of another shape than the source, and changes of images where there are no images."""
    shape = tuple(example.shape[1:])
    target = tuple(example_of(data.target.plain).shape[1:])
    if target != shape:
        raise DataError(
            f"target: images have shape {target}, but those of the source {shape}. Bring all images to one shape."
        )
    if len(shape) == 3:
        return
    method = config.method_config
    chosen = config.recipe == "default"  # which takes changes that suit the data
    if method.consistency.weight > 0 and method.consistency.view == "changed" and not chosen:
        raise ConfigError(
            f"consistency.weight = {method.consistency.weight:g} (recipe '{config.recipe}') changes images at random, "
            f"but the source has shape {shape} for each sample. Set consistency.view=strong, or consistency.weight=0."
        )
    if method.augment.single:
        raise ConfigError(f"augment changes images at random, but each source sample has shape {shape}. Leave it out.")


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
    held_out = part_of(held_out, subset(len(held_out.images), ASKED, seed=0))
    guess = 100.0 * float(held_out.labels.bincount().max()) / len(held_out.labels)
    right = accuracy_of(network.module, held_out, engine.device)
    if right >= min(TRAINED * guess, 0.5 * (100.0 + guess)):
        return False, ()
    note = (
        f"the network is right on {right:.0f} % of the held-out source images, where guessing gives {guess:.0f} %: "
        "it is trained on the source first. Set train_source_first to decide this yourself."
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
