"""What is trained and the loss of one step: RPT and every system it is compared with, one file each."""

from residapt.methods import (
    adda,
    cdan,
    confusion,
    coral,
    dann,
    dsn,
    fine_tune,
    mmd,
    rman,
    rpt,
    source_only,
    target_only,
    two_stream,
)
from residapt.methods.config import (
    DiscrepancyConfig,
    DSNConfig,
    MethodConfig,
    MultilinearConfig,
    TwoStreamConfig,
)
from residapt.methods.oracle import is_oracle, training_pair
from residapt.methods.registry import build_method, check_method, describe_methods, method_names, register

__all__ = [
    "DSNConfig",
    "DiscrepancyConfig",
    "MethodConfig",
    "MultilinearConfig",
    "TwoStreamConfig",
    "adda",
    "build_method",
    "cdan",
    "check_method",
    "confusion",
    "coral",
    "dann",
    "describe_methods",
    "dsn",
    "fine_tune",
    "is_oracle",
    "method_names",
    "mmd",
    "register",
    "rman",
    "rpt",
    "source_only",
    "target_only",
    "training_pair",
    "two_stream",
]
