"""A run before it begins: the request, and everything that was read and checked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from residapt.config import Config
from residapt.data.domains import DomainPair, Images, Labelled
from residapt.data.labelled_target import LabelRecord
from residapt.data.sources import OpenImages
from residapt.data.split import Part, part_of
from residapt.distributed import Engine
from residapt.errors import ConfigError
from residapt.evaluate.evidence import subset
from residapt.evaluate.predict import Evaluation
from residapt.methods import MethodConfig
from residapt.models import InputSpec
from residapt.run.checks import check_settings
from residapt.run.clock import RunClock
from residapt.run.frozen import Frozen
from residapt.run.scan import Scanned
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.summary import FrozenPart, TimedPart
from residapt.streams import TwoStream
from residapt.train import Callback
from residapt.train.progress import phase, show_message
from residapt.train.stopwatch import Stopwatch
from residapt.train.tensorboard import check_tensorboard
from residapt.trust import refuse_code

DATA = ("source", "target", "target_labels", "evaluate")
"""Data of a run: a folder, which belongs to the configuration, or an object, which belongs to the request."""
FILES = ("weights", "base", "adapters")


@dataclass(frozen=True, eq=False)
class Request:
    """What a user requests.

    Folders have one home, ``config.data``: those given as ``source``, ``target``, ``target_labels`` or ``evaluate``
    are moved there as absolute paths. What stays in these fields are objects: loaders, data sets, tensors.
    """

    config: Config
    source: Any = None
    target: Any = None
    target_labels: Any = None
    """Labelled target images."""
    evaluate: Any = None
    """Labelled images that only score the result."""
    model: nn.Module | None = None
    """A network as an object; None builds the one that the configuration names."""
    classes: Sequence[str] | None = None
    train_source: bool | None = None
    """Train the source network first; None finds out whether it needs it."""
    out: Path | None = None
    resume: bool = False
    """Resume the run in ``out`` instead of starting one there."""
    console: Console = field(default_factory=lambda: Console(quiet=True))
    callbacks: Sequence[Callback] = ()
    """Callbacks of the adaptation, besides those of the run itself."""
    tensorboard: bool = False
    keep_checkpoints: bool = False
    """Keep the checkpoints of the adaptation when the run has finished, so that another one can be selected."""
    trust_code: bool = False
    """Whether a network of the form ``package.module:factory`` may be imported: it was typed, or allowed."""
    outputs: Path | None = None
    """Folder for outputs of frozen stages that several runs share; None keeps them with the run, until its end."""
    scanned: Scanned | None = None
    """The data, if their folders have been scanned already."""
    started: float | None = None
    """When the time allowed began, by ``time.monotonic``; None is when the run is prepared."""

    def __post_init__(self) -> None:
        data = {name: getattr(self.config.data, name) for name in DATA}
        for name in DATA:
            value = getattr(self, name)
            if isinstance(value, (str, Path)):
                data[name] = str(value)
                object.__setattr__(self, name, None)
            elif value is not None:
                data[name] = None
        files = {name: getattr(self.config.model, name) for name in FILES}
        config = self.config.with_group("data", **{name: _absolute(value) for name, value in data.items()})
        config = config.with_group("model", **{name: _absolute(value) for name, value in files.items()})
        object.__setattr__(self, "config", config)

    def data(self, name: str) -> Any:
        """The data of a name: an object, a folder or nothing."""
        own = getattr(self, name)
        return own if own is not None else getattr(self.config.data, name)


def check_request(request: Request, config: Config, *, source_free: bool = False) -> None:
    """Refuse unknown names, missing parts and places that cannot be used."""
    if request.model is None:  # first of all: what else a file says does not matter then
        where = f"run '{request.out}'" if request.resume else "the configuration or base run"
        refuse_code(config.model.spec, where=where, trust_code=request.trust_code)
    given = frozenset(name for name in DATA if getattr(request, name) is not None)
    given |= {"source"} if source_free else set()
    check_settings(config, given, None if request.resume else request.out)
    if request.tensorboard:
        check_tensorboard()
        if request.out is None:
            raise ConfigError("tensorboard=True needs an output folder for its event files: give out=.")


def _absolute(place: str | None) -> str | None:
    return place if place in (None, "none") else str(Path(place).absolute())


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything that a run needs, read and checked; nothing has been written yet."""

    config: Config
    """Complete: every choice is made."""
    network: nn.Module
    """What is trained, as it is before any training of this run: the network, or what follows its frozen stages."""
    train_source: bool
    metadata: AdapterMetadata
    input: InputSpec
    """Like ``metadata.input``, but there for tensors as well."""
    pair: DomainPair
    held_out: Labelled
    """Source images that are not trained on."""
    target: OpenImages
    inputs: Images
    """The target images as the network reads them: pixels, or the outputs of frozen stages for them."""
    opened: Mapping[str, OpenImages]
    """All sets of images by name, of which the others are parts."""
    sample: Tensor
    """Indices of the target images that the scores are computed on."""
    scored: int
    """Most images of each domain that the scores are computed on."""
    unlabelled: Tensor
    """Indices of the target images without a given label: those of the health monitor."""
    labelled: tuple[LabelRecord, ...]
    """The labelled target images."""
    evaluation: Evaluation | None
    engine: Engine
    console: Console
    callbacks: Sequence[Callback] = ()
    frozen: Frozen | None = None
    """First stages that have been cut off from ``network``."""
    kept: FrozenPart = field(default_factory=FrozenPart)
    """What of the network stays as it is, and why."""
    source_free: bool = False
    """Whether target images with the base's predictions stand in for source images, which are not there."""
    start: TwoStream | None = None
    """The adapter that the target stream starts from."""
    outputs: Path | None = None
    """Folder for the outputs of frozen stages; None keeps them in a temporary one."""
    notes: tuple[str, ...] = ()
    tensorboard: bool = False
    keep_checkpoints: bool = False
    resume: bool = False
    """Whether the run was started by an earlier process and is resumed."""
    warnings: list[str] = field(default_factory=list)
    """Further notes, found during the run."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    """Where the time goes."""
    steps: dict[str, int] = field(default_factory=dict)
    """Steps taken, by stage."""
    clock: RunClock = field(default_factory=RunClock)
    """When it has to end."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of the outputs."""
        return self.metadata.classes

    @property
    def device(self) -> torch.device:
        """Where to compute."""
        return self.engine.device

    @property
    def method_config(self) -> MethodConfig:
        """The settings of the method for the network that is trained."""
        config = self.config.method_config
        return config if self.frozen is None else self.frozen.settings(config)

    @property
    def source_config(self) -> MethodConfig:
        """The same for the training of the source network, before it is a base that stays as it is."""
        return self.method_config.model_copy(update={"train_source": True})

    @property
    def watched(self) -> Images:
        """The target images that no label was given for."""
        whole = len(self.unlabelled) == len(self.target)
        return self.inputs if whole else Part(self.inputs, self.unlabelled)

    @property
    def held_out_seen(self) -> Labelled:
        """The held-out source images that the scores are computed on."""
        return part_of(self.held_out, subset(len(self.held_out.images), self.scored, seed=0))

    @property
    def seen(self) -> Images:
        """The target images that the scores are computed on."""
        return Part(self.inputs, self.sample)

    def whole(self, network: nn.Module) -> nn.Module:
        """A trained network with its frozen stages, which reads images."""
        return network if self.frozen is None else self.frozen.whole(network)

    def whole_streams(self, streams: TwoStream) -> TwoStream:
        """Trained streams with their frozen stages, which read images."""
        return streams if self.frozen is None else self.frozen.whole_streams(streams)

    @contextmanager
    def during(self, part: TimedPart, name: str) -> Iterator[None]:
        """What is done within this context is shown by name, and counts to this part of the run's time."""
        with self.stopwatch.part(part), phase(name, self.shown):
            yield

    @contextmanager
    def checking(self, name: str) -> Iterator[None]:
        """A check of scores or predictions during training."""
        with self.during("checks", name):
            yield

    @property
    def shown(self) -> Console:
        """The terminal, in one process only."""
        return self.console if self.engine.is_main else Console(quiet=True)

    def say(self, text: str) -> None:
        """Print to the terminal, or log if that is quiet; in one process only."""
        if self.engine.is_main:
            show_message(self.console, text)
