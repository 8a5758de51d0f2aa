r"""Features across processes, for losses that are not means over the batch (MMD, CORAL, normalised weights, ...).

With W processes, each holding its share :math:`F_r` of the features, every process forms the same loss
:math:`L(F_1, \dots, F_W)`. Backward through the gathering is its adjoint: process r gets the sum over the processes of
their gradients at :math:`F_r`, which is :math:`W\,\partial L/\partial F_r`. Gradients of parameters are averaged
afterwards, :math:`\frac1W \sum_r W\,\frac{\partial L}{\partial F_r}\frac{\partial F_r}{\partial\theta} =
\frac{dL}{d\theta}`: what a single process finds on the whole batch. Losses that are means over the batch need none of
this, since the mean of the shares' means is the mean of all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd import Function

from residapt.distributed import process_count


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = len(x)
        pieces = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(process_count())]
        distributed.all_gather(pieces, x.contiguous())
        return torch.cat(pieces)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        start = distributed.get_rank() * ctx.rows
        return total[start : start + ctx.rows]


def gather_features(x: Tensor) -> Tensor:
    """The rows of all processes, in the order of the global batch; every process must have equally many.

    In a single process it is ``x`` itself.
    """
    if process_count() == 1:
        return x
    # 16-bit features of mixed precision: losses over a whole batch are formed in single precision anyway.
    wide = x.float() if x.is_floating_point() and x.element_size() < 4 else x
    return _Gather.apply(wide)  # type: ignore[no-any-return]


def own_rows(x: Tensor) -> Tensor:
    """This process's rows of what was computed on gathered ones."""
    if process_count() == 1:
        return x
    rows = len(x) // process_count()
    return x[distributed.get_rank() * rows :][:rows]


@torch.no_grad()
def sum_processes(x: Tensor) -> Tensor:
    """Sum over all processes, the same in each of them and without gradient; ``x`` itself in a single process."""
    if process_count() == 1:
        return x
    total = x.detach().clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total
