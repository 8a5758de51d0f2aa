"""What is trained and the loss of one step: RPT and every system it is compared with, one file each."""

from residapt.methods import dann, rpt, source_only
from residapt.methods.config import DiscrepancyConfig, MethodConfig
from residapt.methods.registry import build_method, describe_methods, method_names, register

__all__ = ["DiscrepancyConfig", "MethodConfig", "build_method", "dann", "describe_methods", "method_names", "register", "rpt", "source_only"]
