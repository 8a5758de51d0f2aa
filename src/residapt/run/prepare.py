"""Read and check everything that a run needs, before anything is written or trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from residapt.config import Config
from residapt.data.decoded import CacheConfig
from residapt.data.domains import DomainPair, Labelled
from residapt.data.folders import LabelledFiles
from residapt.data.labelled_target import check_unchanged, label_records_of, open_few, with_few
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
    base_metadata,
    build_network,
    configured_input,
    count_outputs,
    given_network,
    with_base,
)
from residapt.run.request import DATA, Request, Setup, check_request
from residapt.run.scan import Scanned, scan
from residapt.run.scoring import doubtful_data, evaluation_set, unlabelled
from residapt.run.source_free import (
    class_names,
    find_evaluation,
    is_source_free,
    source_free_config,
    stand_in,
    with_frequencies,
)
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.run_directory import RunDirectory
from residapt.train.progress import phase
from residapt.train.stopwatch import Stopwatch

TRAINED = 2.0
"""A network counts as trained on the source when it is right this many times as often as a guess."""

JUDGED_ON = 1000
"""Most held-out source images by which that is found out."""


@dataclass(frozen=True, eq=False)
class _Data:
    """All data of a run, open."""

    source: OpenLabelled
    target: OpenImages
    scored: OpenLabelled | None
    few: OpenLabelled | None
    """Labelled target images."""
    source_free: bool = False
    """Whether the source is the target with the base's predictions."""
    extra_notes: tuple[str, ...] = ()

    @property
    def opened(self) -> dict[str, OpenImages]:
        """All sets of images by name."""
        others = {"labelled": self.few, "evaluate": self.scored}
        found = {"target": self.target} if self.source_free else {"source": self.source.images, "target": self.target}
        return found | {name: data.images for name, data in others.items() if data is not None}

    @property
    def notes(self) -> tuple[str, ...]:
        others = [data.images.notes for data in (self.scored, self.few) if data]
        own = () if self.source_free else self.source.images.notes
        return (*self.extra_notes, *own, *self.target.notes, *(note for notes in others for note in notes))


def prepare(request: Request) -> Setup:
    """Everything a run needs, or an error that says what is wrong with what was given."""
    config = with_base(request.config)
    free = is_source_free(config, request.data("source"), request.model)
    config = source_free_config(config) if free else config
    check_request(request, config, source_free=free)
    stopwatch = Stopwatch()
    clock = RunClock(config.minutes) if request.started is None else RunClock(config.minutes, request.started)
    with stopwatch.part("reading"):
        setup, facts = _read(request, config, free)
    setup = replace(setup, stopwatch=stopwatch, clock=clock)
    with setup.during("planning", "measuring how long things take"):
        return complete(setup, setup.config, facts)


def _read(request: Request, config: Config, free: bool) -> tuple[Setup, Facts]:
    engine = Engine(config.device, config.precision)
    said = base_metadata(config) if free else None
    form = configured_input(config, request.model) if said is None or said.input is None else said.input
    reading = Reading(form, config.data.augment, CacheConfig(config.data.cache_gb * 1e9))
    given = request.scanned or scan(*(request.data(name) for name in DATA))
    if free:
        config, notes = with_frequencies(config, said)
        network, data = _without_source(request, config, form, given, reading, engine)
        data = replace(data, extra_notes=notes)
    else:
        network, data = _with_source(request, config, form, given, reading)
    setup, facts = _assemble(request, config, engine, network, form, data)
    if request.resume and request.out is not None:
        check_unchanged(setup.labelled, RunDirectory(request.out).labelled)
    return setup, facts


def _with_source(
    request: Request, config: Config, form: InputSpec, given: Scanned, reading: Reading
) -> tuple[Network, _Data]:
    folders = isinstance(given.source, LabelledFiles)
    source = None if folders else open_source(given.source, reading, request.classes)
    network = _network(request, config, form, source.classes if source else given.source.classes)
    with phase("reading and checking the images", request.console):
        source = source or open_source(given.source, reading)
        return network, _open(given, reading, source, open_target(given.target, reading, given.found))


def _without_source(
    request: Request, config: Config, form: InputSpec, given: Scanned, reading: Reading, engine: Engine
) -> tuple[Network, _Data]:
    classes = class_names(config, request.classes, request.model)
    given = given._replace(evaluate=find_evaluation(given.evaluate, classes))
    network = _network(request, config, form, classes)
    with phase("reading and checking the images", request.console):
        target = open_target(given.target, reading, given.found)
        _check_network(network, example_of(target.plain), classes)
        source = stand_in(target, network.module, classes, engine.device)
        return network, replace(_open(given, reading, source, target), source_free=True)


def _network(request: Request, config: Config, form: InputSpec, classes: tuple[str, ...]) -> Network:
    if request.model is not None:
        return given_network(config, request.model)
    return build_network(config, form, classes)


def _open(given: Scanned, reading: Reading, source: OpenLabelled, target: OpenImages) -> _Data:
    scored = few = None
    if given.evaluate is not None:
        scored = open_evaluation(given.evaluate, reading, source.classes)
    if given.labelled is not None:
        few = open_few(given.labelled, given.target, reading, source.classes)
    return _Data(source, target, scored, few)


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
        request.data("evaluate"),
        data.scored,
        source=None if data.source_free else data.source,
        target=data.target,
        labelled=data.few,
    )
    doubtful = () if data.source_free else doubtful_data(data.source, data.target)
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
        labelled=label_records_of(data.few),
        evaluation=evaluation,
        engine=engine,
        console=request.console,
        callbacks=tuple(request.callbacks),
        notes=(*data.notes, *doubtful, *notes, *more, *also),
        tensorboard=request.tensorboard,
        keep_checkpoints=request.keep_checkpoints,
        resume=request.resume,
        source_free=data.source_free,
        outputs=request.outputs or (request.out and RunDirectory(request.out).outputs),
    )
    pretrained = network.pretrained or not train_source
    return setup, Facts(len(kept), len(data.target), shape.size, shape.channels, pretrained, images=example.ndim == 4)


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
    return DomainPair(
        source, with_few(data.target, data.few.images), few, config.data.balance, workers=config.data.workers
    )


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
    chosen = config.recipe in ("default", "source-free")  # which takes changes that suit the data
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
    held_out = part_of(held_out, subset(len(held_out.images), JUDGED_ON, seed=0))
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


def _source_frequencies(config: Config, data: _Data) -> tuple[float, ...] | None:
    """How frequent each class is in the source; without its images as the base's file had it."""
    if data.source_free:
        said = base_metadata(config)
        return None if said is None else said.frequencies
    counts = data.source.labels.bincount(minlength=len(data.source.classes)).double()
    return tuple(round(share, 6) for share in (counts / counts.sum()).tolist())


def _metadata(request: Request, config: Config, data: _Data, shape: InputSpec) -> AdapterMetadata:
    own = request.model is not None
    return AdapterMetadata(
        method=config.method,
        classes=data.source.classes,
        model=None if own else config.model.spec,
        bottleneck=None if own else config.model.bottleneck,
        standardise=config.model.standardise,
        frequencies=_source_frequencies(config, data),
        input=shape if data.source.images.raw and data.target.raw else None,
    )
