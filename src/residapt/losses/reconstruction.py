"""The reconstruction and difference losses of Domain Separation Networks (Bousmalis et al. 2016)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from residapt.errors import DataError


def scale_invariant_mse(prediction: Tensor, target: Tensor) -> Tensor:
    r"""Scale-invariant squared error (Eq. 4), averaged over the batch.

    .. math:: \frac1k\|x - \hat x\|_2^2 - \frac1{k^2}\big((x - \hat x)^\top \mathbf 1\big)^2

    over the :math:`k` values of a sample. The second term is subtracted, which makes this the variance of the
    error: an error that is the same everywhere (a brighter picture) costs nothing. It is computed as that
    variance, because the difference of the two terms cancels in single precision.
    """
    if prediction.shape != target.shape or prediction.ndim < 2:
        raise DataError(
            "scale_invariant_mse needs two batches of the same shape, "
            f"got {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
    error = (prediction - target).flatten(start_dim=1)
    return (error - error.mean(dim=1, keepdim=True)).square().mean()


def difference_loss(private: Tensor, shared: Tensor) -> Tensor:
    r"""Soft orthogonality of private and shared features: mean squared entry of :math:`H_p^\top H_c` (Eq. 5).

    As in the authors' code, each matrix (samples, features) is first centred over the batch, then each sample
    is scaled to length 1, so that the loss cannot be lowered by shrinking the features.
    """
    if private.ndim != 2 or shared.ndim != 2 or len(private) != len(shared):
        raise DataError(
            "difference_loss needs private and shared features of the same samples as two matrices, "
            f"got {tuple(private.shape)} and {tuple(shared.shape)}."
        )
    return (_unit_rows(private).T @ _unit_rows(shared)).square().mean()


def _unit_rows(features: Tensor) -> Tensor:
    # eps bounds the slope where a sample equals the batch mean; 1e-6 on the norm is 1e-12 on its square, as
    # in DSN.
    return functional.normalize(features - features.mean(dim=0, keepdim=True), dim=1, eps=1e-6)
