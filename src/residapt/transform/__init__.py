"""Source weights to target weights (paper §3.1)."""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "TransformConfig": "residapt.transform.config",
        **dict.fromkeys(("Start", "Transform", "initialise"), "residapt.transform.initial"),
        **dict.fromkeys(
            ("build_transform", "in_calling_order", "select_layers", "start_ranks"), "residapt.transform.layers"
        ),
        **dict.fromkeys(("LayerMatrix", "find_layers"), "residapt.transform.matrix"),
        **dict.fromkeys(("Residual", "ResidualTransform"), "residapt.transform.residual"),
        **dict.fromkeys(("VectorResidual", "VectorTransform"), "residapt.transform.vector"),
    },
)
