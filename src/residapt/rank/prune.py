"""Remove rows and columns of T from all factors, together with the optimiser's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from residapt.transform import ResidualTransform

Selection = Callable[[Tensor], Tensor]


@torch.no_grad()
def prune_transform(
    transform: ResidualTransform,
    rows: Tensor,
    columns: Tensor,
    bias_columns: Tensor | None,
    optimizer: Optimizer | None,
) -> None:
    """Keep the given rows and columns (boolean masks) of T; everything else of the layer's factors goes.

    With all of them kept nothing is touched. With no row left there is nothing for the columns to multiply, and the
    other way round: the layer is shared then.
    """
    if bool(rows.all() and columns.all() and (bias_columns is None or bias_columns.all())):
        return
    if not bool(rows.any()) or not bool(columns.any() or (bias_columns is not None and bias_columns.any())):
        rows, columns = torch.zeros_like(rows), torch.zeros_like(columns)
        bias_columns = None if bias_columns is None else torch.zeros_like(bias_columns)
    selections: dict[str, Selection] = {
        "A1": lambda t: t[:, rows],
        "B1": lambda t: t[:, rows],
        "A2": lambda t: t[:, columns],
        "B2": lambda t: t[:, columns],
        "D": lambda t: t[rows][:, columns],
    }
    if transform.has_bias and bias_columns is not None:
        kept = bias_columns
        selections |= {
            "bias_A2": lambda t: t[:, kept],
            "bias_B2": lambda t: t[:, kept],
            "bias_D": lambda t: t[rows][:, kept],
        }
    for name, select in selections.items():
        replace_parameter(transform, name, select, optimizer)


def replace_parameter(module: nn.Module, name: str, select: Selection, optimizer: Optimizer | None) -> None:
    """Put a selection of a parameter in its place, in the module and in the optimiser with all its moments."""
    old = module.get_parameter(name)
    new = nn.Parameter(_compact(select(old.detach())), requires_grad=old.requires_grad)
    if optimizer is not None:
        for group in optimizer.param_groups:
            group["params"] = [new if parameter is old else parameter for parameter in group["params"]]
        if old in optimizer.state:
            optimizer.state[new] = _select_state(optimizer.state.pop(old), old.shape, select)
    setattr(module, name, new)


def _select_state(state: dict[str, Any], shape: torch.Size, select: Selection) -> dict[str, Any]:
    return {
        key: _compact(select(value)) if isinstance(value, Tensor) and value.shape == shape else value
        for key, value in state.items()
    }


def _compact(tensor: Tensor) -> Tensor:
    # Row by row in memory whatever was selected: the same layout as after a resume, and so the same rounding.
    return tensor.clone(memory_format=torch.contiguous_format)
