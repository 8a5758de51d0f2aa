"""Networks: the paper's own, and any classifier named by a model spec.

Example:
    >>> import torch, residapt
    >>> residapt.models.build_model("lenet", num_classes=7, in_channels=1)(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 7])
"""

from residapt.models.heads import Bottleneck, find_head, with_bottleneck
from residapt.models.input_spec import NATIVE, InputSpec, input_spec
from residapt.models.native import DTN, GaninLeNet, LeNet, SvhNet, UavNet, max_norm_
from residapt.models.specs import build_model
from residapt.models.weights import load_weights, read_weights

__all__ = [
    "DTN",
    "NATIVE",
    "Bottleneck",
    "GaninLeNet",
    "InputSpec",
    "LeNet",
    "SvhNet",
    "UavNet",
    "build_model",
    "find_head",
    "input_spec",
    "load_weights",
    "max_norm_",
    "read_weights",
    "with_bottleneck",
]
