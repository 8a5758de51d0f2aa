"""The optimisers of ``torch.optim`` without its compiler.

The first optimiser of a process makes torch import its compiler, only to tell it which of the optimiser's methods it
must not look into. The import takes longer than that of torch itself, and memory in each process of a machine. These
classes take the methods as they are underneath; what they compute is the same.
"""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class _Eager(Optimizer):
    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


class Adam(_Eager, torch.optim.Adam):
    """Adam."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(_Eager, torch.optim.AdamW):
    """Adam with weight decay apart from the gradient."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


class SGD(_Eager, torch.optim.SGD):
    """Stochastic gradient descent."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adadelta(_Eager, torch.optim.Adadelta):
    """Adadelta."""

    step = torch.no_grad()(unwrap(torch.optim.Adadelta.step))
