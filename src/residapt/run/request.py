"""A run before it begins: what was asked for, and everything that was read and checked for it."""

from __future__ import annotations

from collections.abc import Sequence
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
from residapt.data.split import Part
from residapt.distributed import Engine
from residapt.evaluate.predict import Evaluation
from residapt.models import InputSpec
from residapt.storage.metadata import AdapterMetadata


@dataclass(frozen=True, eq=False)
class Request:
    """What a user asks for; source, target and evaluate are anything that :mod:`residapt.data.sources` opens."""

    config: Config
    source: Any = None
    target: Any = None
    target_labels: Any = None
    """A few labelled target images: what source can be, or a file with paths and classes."""
    evaluate: Any = None
    model: nn.Module | None = None
    """A network as an object; None builds the one that the configuration names."""
    classes: Sequence[str] | None = None
    train_source: bool | None = None
    """Train the source network first; None finds out whether it needs it."""
    out: Path | None = None
    resume: bool = False
    """Go on with the run in ``out`` instead of starting one there."""
    console: Console = field(default_factory=lambda: Console(quiet=True))
    tensorboard: bool = False
    trust_code: bool = False
    """Whether a network of the form ``package.module:factory`` may be imported: it was typed, or allowed."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A run that can begin: nothing has been written yet, and nothing about the input can fail any more."""

    config: Config
    """Complete: every choice is made."""
    network: nn.Module
    """As it is before any training of this run."""
    train_source: bool
    metadata: AdapterMetadata
    input: InputSpec
    """Like ``metadata.input``, but there for tensors as well."""
    pair: DomainPair
    held_out: Labelled
    """Source images that are not trained on."""
    target: OpenImages
    sample: Tensor
    """Which target images are looked at for scores."""
    unlabelled: Tensor
    """Which target images no label was given for: those that the health monitor looks at."""
    labelled: tuple[LabelRecord, ...]
    """The labelled target images."""
    evaluation: Evaluation | None
    engine: Engine
    console: Console
    notes: tuple[str, ...] = ()
    tensorboard: bool = False
    resume: bool = False
    """Whether the run was begun by another process, and goes on."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by stage; filled as the run goes on."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of the outputs."""
        return self.metadata.classes

    @property
    def device(self) -> torch.device:
        """Where to compute."""
        return self.engine.device

    @property
    def watched(self) -> Images:
        """The target images that no label was given for."""
        whole = len(self.unlabelled) == len(self.target)
        return self.target.plain if whole else Part(self.target.plain, self.unlabelled)

    @property
    def seen(self) -> Images:
        """The target images that are looked at for scores."""
        return Part(self.target.plain, self.sample)

    def say(self, text: str) -> None:
        """Tell the person at the terminal, once however many processes there are."""
        if self.engine.is_main:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
