"""Settings of the training loop."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from residapt.settings import Seed, Settings
from residapt.train.schedule import Decay


class GroupConfig(Settings):
    """Settings of one group of parameters.

    Example:
        >>> GroupConfig(lr=1e-3).lr
        0.001
    """

    lr: float = Field(2e-4, ge=0)
    """Learning rate; 0 keeps the group as it is."""


class TrainConfig(Settings):
    """The loop: how long, how fast, with which optimiser.

    Example:
        >>> TrainConfig(steps=500, transform=GroupConfig(lr=1e-3)).network.lr
        0.0002
    """

    steps: int = Field(2000, ge=0)
    """Optimiser steps."""
    batch_size: int = Field(64, ge=1)
    """Samples of each domain in a step, over all processes."""
    few_batch: int | None = Field(None, ge=1)
    """Labelled target images in a step, where some are given; None takes as many as batch_size says. Fewer images
    than that are repeated, each as often as the others."""
    seed: Seed = 0
    """Seed of sample order, augmentation and dropout."""
    optimizer: Literal["adam", "adamw", "sgd", "adadelta"] = "adam"
    """Update rule of all groups."""
    beta1: float = Field(0.5, ge=0, lt=1)
    """First-moment decay of Adam."""
    network: GroupConfig = GroupConfig()
    """The network, that is, the source stream."""
    head: float = Field(1.0, gt=0)
    """Factor of the network's learning rate for its new layers: the classifier, and a bottleneck before it."""
    transform: GroupConfig = GroupConfig()
    """The residual transforms; they should not learn faster than the network."""
    adversary: GroupConfig = GroupConfig()
    """The domain classifier and other helpers that are thrown away after training."""
    weight_decay: float = Field(0.0, ge=0)
    """L2 penalty of the optimiser, for all groups."""
    decay: Decay = "constant"
    """Learning rate over time."""
    warmup: float = Field(0.0, ge=0, lt=1)
    """Share of the training over which all learning rates rise from 0 to their values."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm; None leaves gradients alone."""
    recover: ClassVar[int] = 3
    """How often a training that diverges goes back to its last good state, and on with gentler settings; after that it
    ends there. 0 does not look for divergence, and ends with an error where a loss is not finite."""
    accumulate: int = Field(1, ge=1)
    """Passes over equal parts of the batch whose gradients make one step: less memory, the same step for losses that
    are means over samples. Batch norm, MMD, CORAL and mean predictions see one part at a time."""
    checkpointing: bool = False
    """Compute the activations of blocks again in the backward pass instead of keeping them: less memory, more time."""
    compile: bool = False
    """Compile the network with ``torch.compile``, in methods without transforms and for the source network
    (``pretrain.compile``): the first step takes much longer, later ones may take less."""
    channels_last: ClassVar[bool] = True
    """Memory format of images and 2-d convolutions; 1.4 to 2 times as fast on CPUs."""
    log_every: int = Field(50, ge=1)
    """Steps between two lines of metrics."""
    evaluate_every: int = Field(0, ge=0)
    """Steps between two evaluations; 0 evaluates at the end only."""
    checkpoint_every: int = Field(0, ge=0)
    """Steps between two checkpoints; 0 writes none."""


class HealthConfig(Settings):
    """When the health monitor speaks.

    Example:
        >>> HealthConfig(checks=40).samples
        256
    """

    checks: int = Field(default=20, ge=1)
    """Health checks in a run."""
    samples: int = Field(default=256, ge=8)
    """Images of each domain in a health check; at least 8 for each class."""
    patience: ClassVar[int] = 10
    """Logged steps in a row before a domain classifier is called stuck or perfect."""
    stuck: ClassVar[float] = 0.02
    """A domain classifier whose loss is not even this far below log 2, and does not fall by as much, learns nothing."""
    perfect: ClassVar[float] = 0.98
    """Mean domain accuracy from which the domains count as fully separated."""
    few_classes: ClassVar[float] = 0.5
    """Collapse: the effective number of predicted classes falls below this share of what it was."""
    drift: ClassVar[float] = 0.3
    """Prior drift: share of target images that would have to change class to get any known frequencies back."""
    energy: ClassVar[float] = 10.0
    """Barrier blow-up: the energy is above this, or below its inverse, for three logged steps."""
    source_drop: ClassVar[float] = 0.1
    """Source accuracy has fallen by more than this share."""
    worse: ClassVar[float] = 2.0
    """A symptom is reported again when it has become this many times as severe."""
