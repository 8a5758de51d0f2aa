"""What is trained and the loss of one step: RPT and every system it is compared with."""

from residapt.methods import adda, baselines, dsn, rpt, shared, two_stream
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
from residapt.methods.registry import build_method, check_method, describe_methods, method_names, register

__all__ = [
    "AverageConfig",
    "DSNConfig",
    "DiscrepancyConfig",
    "InformationConfig",
    "MethodConfig",
    "MultilinearConfig",
    "PriorConfig",
    "TwoStreamConfig",
    "adda",
    "baselines",
    "build_method",
    "check_method",
    "describe_methods",
    "dsn",
    "is_oracle",
    "method_names",
    "register",
    "rpt",
    "shared",
    "training_pair",
    "two_stream",
]
