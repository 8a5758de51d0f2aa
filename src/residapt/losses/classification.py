"""Cross-entropy of labelled samples that do not all count the same."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def weighted_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Classification loss with a weight for each sample; without weights, plain cross-entropy.

    .. math:: \frac1n \sum_i w_{y_i}\,\bigl(-\log p_{y_i}(x_i)\bigr), \qquad w_y = \frac{\pi_t(y)}{\pi_s(y)}

    It is divided by the number of samples, not by the sum of their weights: the weights have mean 1 under the source's
    class frequencies, so that the mean over batches is the loss of a source resampled to :math:`\pi_t`, without bias,
    and the mean over the shares of several processes is the loss of the whole batch.
    """
    if weights is None:
        return functional.cross_entropy(logits, labels)
    return (functional.cross_entropy(logits, labels, reduction="none") * weights).mean()
