"""Two views of the same unlabelled image should be predicted alike."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from residapt.errors import DataError

Consistency = Literal["kl", "fixmatch"]


def consistency(logits: Tensor, changed: Tensor, kind: Consistency = "kl", threshold: float = 0.95) -> Tensor:
    r"""How far the predictions :math:`q_i` of changed images are from those, :math:`p_i`, of the images as they are.

    .. math:: \frac1n \sum_i \mathrm{KL}(p_i \,\|\, q_i) \qquad\text{or}\qquad
        \frac1n \sum_i [\max_k p_{ik} \ge \tau]\,\bigl(-\log q_{i \hat y_i}\bigr)

    The second form (FixMatch, Sohn et al. 2020) takes the class :math:`\hat y_i` of a confident prediction as the
    label.
    ``logits`` carry no gradient: the image as it is teaches the changed one.
    """
    if logits.shape != changed.shape or logits.ndim != 2 or not len(logits):
        raise DataError(
            "consistency needs logits (samples, classes) of the same images twice, "
            f"got {tuple(logits.shape)} and {tuple(changed.shape)}."
        )
    if changed.element_size() < 4:  # half precision has too few digits for differences of logarithms
        logits, changed = logits.float(), changed.float()
    teacher = torch.log_softmax(logits.detach(), dim=1)
    if kind == "kl":
        return functional.kl_div(torch.log_softmax(changed, dim=1), teacher, reduction="batchmean", log_target=True)
    best, labels = teacher.exp().max(dim=1)
    return (functional.cross_entropy(changed, labels, reduction="none") * (best >= threshold)).mean()
