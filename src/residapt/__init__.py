"""Adapt any PyTorch classifier to a new domain by low-rank residual parameter transfer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from residapt.lazy import lazy
from residapt.version import __version__

if TYPE_CHECKING:
    from residapt import data, losses, methods, models, rank
    from residapt.config import Config, DataConfig, ModelConfig, PretrainConfig
    from residapt.errors import ConfigError, DataError, Interrupted, ModelError, ResidaptError, TrainingError
    from residapt.losses.adversarial import frozen
    from residapt.methods.config import MethodConfig
    from residapt.methods.registry import register
    from residapt.rank.config import RankConfig
    from residapt.run.api import AdaptedRun, adapt
    from residapt.run.decision import accept, reject
    from residapt.run.suggest import suggest
    from residapt.storage.adapter import load, save_pretrained
    from residapt.storage.adapter_set import AdapterSet
    from residapt.storage.hub import push_to_hub
    from residapt.storage.metadata import AdapterMetadata
    from residapt.streams.two_stream import TwoStream
    from residapt.train.callbacks import Callback
    from residapt.train.config import GroupConfig, HealthConfig, TrainConfig
    from residapt.train.trainer import Trainer
    from residapt.transform.config import TransformConfig

# Silent unless a program listens: logging.basicConfig(level="INFO") shows what the library has to say.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdaptedRun",
    "AdapterMetadata",
    "AdapterSet",
    "Callback",
    "Config",
    "ConfigError",
    "DataConfig",
    "DataError",
    "GroupConfig",
    "HealthConfig",
    "Interrupted",
    "MethodConfig",
    "ModelConfig",
    "ModelError",
    "PretrainConfig",
    "RankConfig",
    "ResidaptError",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "TransformConfig",
    "TwoStream",
    "__version__",
    "accept",
    "adapt",
    "data",
    "frozen",
    "load",
    "losses",
    "methods",
    "models",
    "push_to_hub",
    "rank",
    "register",
    "reject",
    "save_pretrained",
    "suggest",
]

__getattr__, _names = lazy(
    __name__,
    {
        **dict.fromkeys(("Config", "DataConfig", "ModelConfig", "PretrainConfig"), "residapt.config"),
        **dict.fromkeys(
            ("ConfigError", "DataError", "Interrupted", "ModelError", "ResidaptError", "TrainingError"),
            "residapt.errors",
        ),
        "frozen": "residapt.losses.adversarial",
        "MethodConfig": "residapt.methods.config",
        "register": "residapt.methods.registry",
        "RankConfig": "residapt.rank.config",
        **dict.fromkeys(("AdaptedRun", "adapt"), "residapt.run.api"),
        **dict.fromkeys(("accept", "reject"), "residapt.run.decision"),
        "suggest": "residapt.run.suggest",
        **dict.fromkeys(("load", "save_pretrained"), "residapt.storage.adapter"),
        "push_to_hub": "residapt.storage.hub",
        "AdapterMetadata": "residapt.storage.metadata",
        "AdapterSet": "residapt.storage.adapter_set",
        "TwoStream": "residapt.streams.two_stream",
        "Callback": "residapt.train.callbacks",
        **dict.fromkeys(("GroupConfig", "HealthConfig", "TrainConfig"), "residapt.train.config"),
        "Trainer": "residapt.train.trainer",
        "TransformConfig": "residapt.transform.config",
    },
    modules=("data", "losses", "methods", "models", "rank"),
)


def __dir__() -> list[str]:
    return sorted(__all__)
