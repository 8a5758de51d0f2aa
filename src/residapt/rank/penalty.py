r"""The group penalties of Eq. 10, for the ablation that back-propagates through them (Eq. 11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from residapt.transform import ResidualTransform

GroupWeights = Literal["layer", "group", "equal"]
EQUAL = 16.0
"""Size of the weights ``equal`` at the start: those that the paper's have for 256 inputs and outputs."""


class GroupedCore(NamedTuple):
    """An inner matrix T with the size of its layer."""

    core: Tensor
    outputs: int
    inputs: int
    start: float = 1.0
    """Size of the entries of T at the start of the training, when they are random."""


def grouped_core(transform: ResidualTransform, weight: Tensor, bias: Tensor | None, start: float = 1.0) -> GroupedCore:
    """The whole T = [T_w T_b] of a layer: a row is common to weights and biases, so both blocks belong to its group."""
    blocks = [transform.core(weight)]
    if transform.has_bias and bias is not None:
        blocks.append(transform.bias_core(bias))
    return GroupedCore(torch.cat(blocks, dim=1), transform.outputs, transform.inputs, start)


def group_weights(kind: GroupWeights, item: GroupedCore) -> tuple[float, float]:
    r"""(w_c, w_r): ``layer`` is :math:`\sqrt{N}, \sqrt{C}` as printed, ``group`` is :math:`\sqrt{l}, \sqrt{r}`.

    With these a layer of few inputs keeps its ranks more easily than one of many, whatever the domains need. ``equal``
    compares each group with what it had in its own layer at the start, :math:`16\,s\sqrt{l}, 16\,s\sqrt{r}` where
    entries of T had the size s, so that the layer's shape does not decide.
    """
    if kind == "layer":
        return item.inputs**0.5, item.outputs**0.5
    rows, columns = item.core.shape
    scale = EQUAL * item.start if kind == "equal" else 1.0
    return scale * rows**0.5, scale * columns**0.5


def rank_penalty(items: Iterable[GroupedCore], kind: GroupWeights) -> Tensor:
    r""":math:`R_c + R_r` summed over the layers; 0 when there is none."""
    terms = []
    for item in items:
        column_weight, row_weight = group_weights(kind, item)
        terms.append(column_weight * _norms(item.core, 0).sum() + row_weight * _norms(item.core, 1).sum())
    return torch.stack(terms).sum() if terms else torch.zeros(())


def _norms(core: Tensor, dim: int) -> Tensor:
    # A group of zeros has no gradient; the small constant gives it a finite one.
    return (core.square().sum(dim) + torch.finfo(core.dtype).tiny).sqrt()
