"""What is trained and the loss of one step: RPT and every system it is compared with.

Example:
    >>> import torch, residapt
    >>> method = residapt.methods.build_method("rpt", torch.nn.Linear(6, 2), example=torch.randn(4, 6))
    >>> method.streams.ranks()
    {'model': (32, 32)}
"""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
    from residapt.methods.baselines import is_oracle, training_pair
    from residapt.methods.config import (
        AverageConfig,
        DiscrepancyConfig,
        DSNConfig,
        InformationConfig,
        MethodConfig,
        MultilinearConfig,
        PriorConfig,
        TwoStreamConfig,
    )
    from residapt.methods.names import check_method
    from residapt.methods.registry import build_method, describe_methods, method_names, register

__all__ = [
    "AverageConfig",
    "DSNConfig",
    "DiscrepancyConfig",
    "InformationConfig",
    "MethodConfig",
    "MultilinearConfig",
    "PriorConfig",
    "TwoStreamConfig",
    "build_method",
    "check_method",
    "describe_methods",
    "is_oracle",
    "method_names",
    "register",
    "training_pair",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            (
                "AverageConfig",
                "DiscrepancyConfig",
                "DSNConfig",
                "InformationConfig",
                "MethodConfig",
                "MultilinearConfig",
                "PriorConfig",
                "TwoStreamConfig",
            ),
            "residapt.methods.config",
        ),
        **dict.fromkeys(("is_oracle", "training_pair"), "residapt.methods.baselines"),
        **dict.fromkeys(
            ("build_method", "describe_methods", "method_names", "register"),
            "residapt.methods.registry",
        ),
        "check_method": "residapt.methods.names",
    },
)
