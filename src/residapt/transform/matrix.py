r"""A layer's weight and bias as a matrix :math:`\Theta \in R^{C \times N}` and back (paper §3.1).

Rows are outputs. The columns of a convolution are ordered kernel first, input channel last: for a weight in
``channels_last`` memory that order is a view, so no copy is made in training. Any fixed order of columns is
equivalent, since the rows of :math:`\alpha^2, \beta^2` follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

Kind = Literal["linear", "conv", "conv_transpose", "vector"]


@dataclass(frozen=True)
class LayerMatrix:
    """Where one layer's matrix lives in a model, and how its tensors are folded."""

    name: str
    weight: str
    bias: str | None
    kind: Kind
    rows: tuple[int, int] | None = None
    """Rows of a packed tensor that belong to this layer (q, k or v of an attention block)."""
    groups: int = 1

    def weight_matrix(self, weight: Tensor) -> Tensor:
        """The C x N matrix of the layer's weight."""
        if self.kind in ("linear", "vector"):
            part = weight if self.rows is None else weight[self.rows[0] : self.rows[1]]
            return part.unsqueeze(1) if self.kind == "vector" else part
        if self.kind == "conv":
            return weight.movedim(1, -1).reshape(weight.shape[0], -1)
        kernel = weight.shape[2:]
        split = weight.reshape(self.groups, weight.shape[0] // self.groups, weight.shape[1], *kernel)
        return split.movedim(2, 1).movedim(2, -1).reshape(self.groups * weight.shape[1], -1)

    def weight_from(self, matrix: Tensor, like: Tensor) -> Tensor:
        """Fold a matrix back to the shape of the layer's weight ``like`` (a view where possible)."""
        if self.kind == "vector":
            return matrix.squeeze(1)
        if self.kind == "linear":
            return matrix
        kernel = like.shape[2:]
        if self.kind == "conv":
            return matrix.reshape(like.shape[0], *kernel, like.shape[1]).movedim(-1, 1)
        inputs, outputs = like.shape[0] // self.groups, like.shape[1]
        split = matrix.reshape(self.groups, outputs, *kernel, inputs)
        return split.movedim(-1, 1).reshape(like.shape)

    def bias_vector(self, bias: Tensor) -> Tensor:
        """The C biases of this layer."""
        return bias if self.rows is None else bias[self.rows[0] : self.rows[1]]


def find_layers(model: nn.Module) -> Iterator[LayerMatrix]:
    """Every layer that can be transformed, in the order of registration; a tied weight or bias is listed once."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    seen: set[tuple[str | None, tuple[int, int] | None]] = set()
    for path, module in model.named_modules():
        for layer in _layers_of(path, module, names):
            if (layer.weight, layer.rows) in seen:
                continue
            tied = layer.bias is not None and (layer.bias, layer.rows) in seen
            seen |= {(layer.weight, layer.rows), (layer.bias, layer.rows)}
            yield replace(layer, bias=None) if tied else layer


def _layers_of(path: str, module: nn.Module, names: dict[int, str]) -> Iterator[LayerMatrix]:
    if isinstance(module, nn.MultiheadAttention):
        yield from _attention_layers(path, module, names)
        return
    if not isinstance(module, (nn.Linear, _ConvNd)):
        return
    # A parametrised weight (weight norm and the like) is computed, not stored: there is nothing to transform.
    weight = names.get(id(module.weight))
    if weight is None or isinstance(module.weight, nn.parameter.UninitializedParameter):
        return
    kind: Kind = "linear"
    if isinstance(module, _ConvNd):
        kind = "conv_transpose" if isinstance(module, _ConvTransposeNd) else "conv"
    bias = None if module.bias is None else names.get(id(module.bias))
    yield LayerMatrix(path or "model", weight, bias, kind, groups=getattr(module, "groups", 1))


def _attention_layers(path: str, module: nn.MultiheadAttention, names: dict[int, str]) -> Iterator[LayerMatrix]:
    """The projections q, k and v as three layers, whether they are packed into one tensor or not."""
    width = module.embed_dim
    bias = None if module.in_proj_bias is None else names.get(id(module.in_proj_bias))
    prefix = f"{path}." if path else ""
    for position, letter in enumerate("qkv"):
        rows = (position * width, (position + 1) * width)
        if id(module.in_proj_weight) in names:
            weight = names[id(module.in_proj_weight)]
            yield LayerMatrix(f"{prefix}in_proj.{letter}", weight, bias, "linear", rows)
        else:
            weight = names[id(getattr(module, f"{letter}_proj_weight"))]
            yield LayerMatrix(f"{prefix}{letter}_proj", weight, None, "linear")
            if bias is not None:
                yield LayerMatrix(f"{prefix}{letter}_proj.bias", bias, None, "vector", rows)
