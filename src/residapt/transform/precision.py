r"""Weights in full precision under autocast.

Autocast computes products of activations in half precision. Weights are another matter: :math:`T` decides ranks,
:math:`\|\Delta\Theta\|^2` stands in a logarithm, and a residual is small beside the weight it is added to.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def is_autocast(tensor: Tensor) -> bool:
    """Whether products of this tensor would be computed in half precision now."""
    return torch.is_autocast_enabled(tensor.device.type)


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which products are computed in the precision of the tensors themselves."""
    return torch.autocast(tensor.device.type, enabled=False) if is_autocast(tensor) else nullcontext()
