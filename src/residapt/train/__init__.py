"""The training loop that all methods share."""

from residapt.train.callbacks import Callback, StepInfo
from residapt.train.config import GroupConfig, TrainConfig
from residapt.train.curve import Curve
from residapt.train.method import Losses, Method, weighted_sum
from residapt.train.trainer import Trainer

__all__ = [
    "Callback",
    "Curve",
    "GroupConfig",
    "Losses",
    "Method",
    "StepInfo",
    "TrainConfig",
    "Trainer",
    "weighted_sum",
]
