"""The training loop that all methods share."""

from residapt.train.config import GroupConfig, TrainConfig
from residapt.train.evaluate import Curve, Evaluation, accuracy
from residapt.train.events import Callback, StepInfo
from residapt.train.method import Losses, Method, weighted_sum
from residapt.train.trainer import Trainer

__all__ = [
    "Callback",
    "Curve",
    "Evaluation",
    "GroupConfig",
    "Losses",
    "Method",
    "StepInfo",
    "TrainConfig",
    "Trainer",
    "accuracy",
    "weighted_sum",
]
