"""Source weights to target weights (paper §3.1)."""

from residapt.transform.config import TransformConfig
from residapt.transform.initial import Start, Transform, initialise
from residapt.transform.layers import build_transform, in_calling_order, select_layers, start_ranks
from residapt.transform.matrix import LayerMatrix, find_layers
from residapt.transform.residual import Residual, ResidualTransform
from residapt.transform.vector import VectorResidual, VectorTransform

__all__ = [
    "LayerMatrix",
    "Residual",
    "ResidualTransform",
    "Start",
    "Transform",
    "TransformConfig",
    "VectorResidual",
    "VectorTransform",
    "build_transform",
    "find_layers",
    "in_calling_order",
    "initialise",
    "select_layers",
    "start_ranks",
]
