"""The training loop that all methods share."""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(("Callback", "StepInfo"), "residapt.train.callbacks"),
        **dict.fromkeys(("GroupConfig", "TrainConfig"), "residapt.train.config"),
        "Curve": "residapt.train.curve",
        **dict.fromkeys(("Losses", "Method", "weighted_sum"), "residapt.train.method"),
        "Trainer": "residapt.train.trainer",
    },
)
