r"""The two-stream network of "Beyond Sharing Weights" (Rozantsev, Salzmann & Fua, arXiv 1603.06432).

Chosen layers :math:`\Omega` exist once for each domain, and their weights are kept related:

.. math::
   L = L_s + L_t + \lambda_w \sum_{j \in \Omega} r_w(\theta_j^s, \theta_j^t) + \lambda_u\,\mathrm{MMD}^2,
   \qquad r_w = \exp(\|a_j \theta_j^s + b_j - \theta_j^t\|_2^2) - 1

with two learned numbers per layer, :math:`a_j = 1` and :math:`b_j = 0` at the start. :math:`L_t` is there
when some target labels are. MMD has one Gaussian kernel, :math:`\exp(-\|u - v\|^2/\sigma)`, on the last
features before the classifier (:math:`\sigma = 1` in the paper; here the median squared distance);
``discrepancy.kind = "reversal"`` is the paper's variant with DANN's loss, ``"mmd"``
the one with DDC's. Both streams start from the network as given, so train it on the source first. How the
paper chooses :math:`\Omega` is in :mod:`residapt_bench.digits.layer_choice`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residapt.data.batches import Batch
from residapt.losses.weights import exponential_distance, squared_distance
from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.discrepancy.base import Discrepancy
from residapt.methods.registry import register
from residapt.methods.separate import SeparateStreams
from residapt.streams import Outputs


class TwoStreamNetwork(Alignment):
    """Separate weights for chosen layers, tied by a regulariser, and a discrepancy."""

    name = "two_stream"
    streams: SeparateStreams

    def __init__(self, streams: SeparateStreams, discrepancy: Discrepancy, config: MethodConfig) -> None:
        super().__init__(streams, discrepancy, config, select_ranks=False)
        like = next(streams.model.parameters())
        count = len(streams.separate_layers)
        self.a = nn.Parameter(torch.ones(count, dtype=like.dtype, device=like.device))
        self.b = nn.Parameter(torch.zeros(count, dtype=like.dtype, device=like.device))

    def more_losses(self, batch: Batch, source: Outputs, target: Outputs) -> dict[str, tuple[float, Tensor]]:
        r"""The regulariser :math:`\sum_j r_w`, where any layer is separate."""
        if not self.streams.separate_layers:
            return {}
        return {"weights": (self.config.two_stream.weight, self.regulariser())}

    def regulariser(self) -> Tensor:
        r""":math:`\sum_{j \in \Omega} r_w(\theta_j^s, \theta_j^t)`; weights and biases are one vector."""
        distance = exponential_distance if self.config.two_stream.regulariser == "exponential" else squared_distance
        terms = []
        for j, names in enumerate(self.streams.separate_layers.values()):
            theta_s = torch.cat([self.streams.model.get_parameter(name).flatten() for name in names])
            theta_t = torch.cat([self.streams.target_parameter(name).flatten() for name in names])
            terms.append(distance(theta_s, theta_t, self.a[j], self.b[j]))
        return torch.stack(terms).sum()

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Both networks are the network; a and b relate their weights, as a transform does."""
        network = [*self.streams.model.parameters(), *self.streams.target_parameters.parameters()]
        adversary = [] if self.discrepancy is None else list(self.discrepancy.parameters())
        return {"network": network, "transform": [self.a, self.b], "adversary": adversary}


@register("two_stream")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> TwoStreamNetwork:
    """Two-stream network: related weights for each domain in some layers, and MMD. arXiv 1603.06432."""
    streams = SeparateStreams(model, config.transform, config.two_stream.layers)
    return TwoStreamNetwork(streams, build_discrepancy(config.discrepancy, "rbf_mmd", streams, example), config)
