r"""Pseudo-labels by class centroids of the target's features (after SHOT, Liang et al. 2020), without a further pass.

.. math:: c_k = \frac{\sum_i p_{ik} \hat f_i}{\sum_i p_{ik}}, \qquad \hat y_i = \arg\max_k \cos(\hat f_i, c_k)

The sums run over all target images seen, older ones fading; :math:`\hat f` are features with a one behind them, scaled
to length 1. A classifier errs near its borders; where the features form clusters, the nearest centre errs less.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.losses.gather import sum_processes


class Centroids(nn.Module):
    """Running sums of the target's features by predicted class, as a buffer."""

    sums: Tensor

    def __init__(self, classes: int, width: int, decay: float, like: Tensor) -> None:
        super().__init__()
        self.decay = decay
        dtype = torch.promote_types(like.dtype, torch.float32)
        self.register_buffer("sums", torch.zeros(classes, width + 1, device=like.device, dtype=dtype))

    @torch.no_grad()
    def observe(self, features: Tensor, logits: Tensor) -> None:
        """Add a step's features, each to every class by its probability, over all processes."""
        p = logits.to(self.sums.dtype).softmax(dim=1)
        self.sums.mul_(self.decay).add_(sum_processes(p.T @ self._unit(features)))

    @torch.no_grad()
    def labels(self, features: Tensor) -> Tensor:
        """The class of the nearest centroid; only directions matter, so that sums serve as well as means."""
        return (self._unit(features) @ functional.normalize(self.sums, dim=1).T).argmax(dim=1)

    def _unit(self, features: Tensor) -> Tensor:
        flat = features.detach().flatten(1).to(self.sums.dtype)
        return functional.normalize(functional.pad(flat, (0, 1), value=1.0), dim=1)
