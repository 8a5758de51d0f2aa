r"""Distances between the feature distributions of two domains: MMD (linear and Gaussian) and Deep CORAL.

None of these is an average over samples: with several processes, gather the features of all of them first.

Source samples may have ``weights``: every mean over the source then is a weighted mean, :math:`\sum_i w_i f_i /
\sum_i w_i`, so that whole-number weights do what repeating the samples would do. The weights are normalised within
the batch, unlike those of losses that are means over samples: a distance between distributions needs two
distributions, whatever the batch has drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from residapt.errors import ConfigError, DataError

DSN_BANDWIDTHS: tuple[float, ...] = (
    *(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    *(1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 100.0),
    *(1e3, 1e4, 1e5, 1e6),
)
r"""The 19 values of :math:`\sigma` that Domain Separation Networks sum over (Bousmalis et al. 2016)."""

DAN_FACTORS: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the median squared distance in Deep Adaptation Networks' mixture (Long et al. 2015)."""


Mean = Callable[[Tensor], Tensor]
"""From the values of all pairs to one number."""


def linear_mmd(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Squared distance of the batch means, :math:`\|\bar u - \bar v\|_2^2` (Tzeng et al. 2014)."""
    source, target = _pair(source, target)
    mean = source.mean(dim=0) if weights is None else _shares(weights, source) @ source
    return (mean - target.mean(dim=0)).square().sum()


def gaussian_mmd(
    source: Tensor,
    target: Tensor,
    bandwidths: Sequence[float] | Tensor = DSN_BANDWIDTHS,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Biased squared MMD with a sum of Gaussian kernels (Gretton et al. 2012; Bousmalis et al. 2016).

    .. math:: k(u, v) = \sum_\sigma \exp(-\|u - v\|_2^2 / 2\sigma), \qquad
        \overline{k(u, u')} + \overline{k(v, v')} - 2\,\overline{k(u, v)}

    The means run over all pairs, the diagonal included (a V-statistic), so the value is never negative and is
    0 when both samples are equal. ``bandwidths`` are the :math:`\sigma`, in units of a squared distance.
    """
    source, target = _pair(source, target)
    if not isinstance(bandwidths, Tensor) and not (len(bandwidths) and min(bandwidths) > 0):
        raise ConfigError(f"gaussian_mmd: bandwidths must be one or more positive numbers, got {bandwidths!r}.")
    sigmas = torch.as_tensor(bandwidths, dtype=source.dtype, device=source.device).flatten()

    def kernel(d2: Tensor, mean: Mean) -> Tensor:
        # One kernel at a time: 19 stacked n x m matrices would only cost memory.
        return torch.stack([mean(torch.exp(-d2 / (2 * sigma))) for sigma in sigmas]).sum()

    return _biased_mmd(source, target, kernel, weights)


def rbf_mmd(source: Tensor, target: Tensor, sigma: float = 1.0, weights: Tensor | None = None) -> Tensor:
    r"""Biased squared MMD with :math:`\exp(-\|u - v\|_2^2 / \sigma)` (two-stream, Rozantsev et al. 2016)."""
    if sigma <= 0:
        raise ConfigError(f"rbf_mmd: sigma must be positive, got {sigma}. The two-stream paper uses 1.")
    return _biased_mmd(*_pair(source, target), lambda d2, mean: mean(torch.exp(-d2 / sigma)), weights)


def median_rbf_mmd(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """MMD with one kernel, as wide as the batch's median squared distance.

    The published width of 1 leaves no gradient where squared distances are around 2,800, as LeNet's are.
    """
    return gaussian_mmd(source, target, median_bandwidths(source, target, (1.0,)), weights)


def median_bandwidths(source: Tensor, target: Tensor, factors: Sequence[float] = DAN_FACTORS) -> Tensor:
    r"""Bandwidths around the median heuristic (Long et al. 2015), to be passed to :func:`gaussian_mmd`.

    DAN writes its kernels :math:`\exp(-\|u - v\|^2 / \gamma)` with :math:`\gamma` a multiple of the median
    squared distance over the pairs of the pooled sample; here :math:`\sigma = \gamma / 2`. The result carries
    no gradient. It is a scale, not a mean over a domain, so that all samples count the same.
    """
    pooled = torch.cat(_pair(source, target)).detach()
    # The lower floor only matters when most points coincide: then 0 / floor = 0 and the kernel is 1.
    median = torch.pdist(pooled).square().median().clamp_min(torch.finfo(pooled.dtype).eps)
    return median * torch.as_tensor(factors, dtype=pooled.dtype, device=pooled.device) / 2


def coral(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Deep CORAL, :math:`\|C_s - C_t\|_F^2 / 4d^2` (Sun & Saenko 2016, Eq. 1); blind to the means.

    With weights, :math:`C_s = \sum_i w_i (u_i - \bar u)(u_i - \bar u)^\top / (\sum_i w_i - 1)`.
    """
    source, target = _pair(source, target)
    if min(len(source), len(target)) < 2:
        raise DataError(
            f"coral: a covariance needs at least 2 samples per domain, got {len(source)} and {len(target)}. "
            "Use a larger batch or drop the last incomplete one."
        )
    d = source.shape[1]
    c_s = torch.cov(source.T) if weights is None else _weighted_covariance(source, weights)
    return (c_s - torch.cov(target.T)).square().sum() / (4 * d * d)


def _weighted_covariance(x: Tensor, weights: Tensor) -> Tensor:
    shares = _shares(weights, x)
    centred = x - shares @ x
    # A sum of weights near 1 is a single sample, which has no covariance; one more keeps the value finite.
    total = weights.detach().to(x).sum().clamp_min(2.0)
    return (centred * shares[:, None]).T @ centred * (total / (total - 1))


def _shares(weights: Tensor, x: Tensor) -> Tensor:
    """The weights of the rows of ``x`` with sum 1, without gradient."""
    if weights.shape != x.shape[:1]:
        raise DataError(f"moments need a weight for each of {len(x)} source samples, got {tuple(weights.shape)}.")
    weights = weights.detach().to(x)
    return weights / weights.sum()


def _biased_mmd(
    source: Tensor, target: Tensor, kernel: Callable[[Tensor, Mean], Tensor], weights: Tensor | None
) -> Tensor:
    """``kernel`` reads squared distances and a mean over their pairs."""
    within_s, between = _means(source, weights)
    within = kernel(_squared_distances(source, source), within_s)
    within = within + kernel(_squared_distances(target, target), torch.mean)
    # The exact value is a squared norm; only rounding can push it below zero.
    return (within - 2 * kernel(_squared_distances(source, target), between)).clamp_min(0)


def _means(source: Tensor, weights: Tensor | None) -> tuple[Mean, Mean]:
    """Means over pairs of source samples, and over pairs of a source and a target sample."""
    if weights is None:
        return torch.mean, torch.mean
    a = _shares(weights, source)
    return lambda k: a @ k @ a, lambda k: (a @ k).mean()


def _squared_distances(u: Tensor, v: Tensor) -> Tensor:
    # Not |u|^2 + |v|^2 - 2uv: its rounding error exceeds the smallest bandwidths, so that k(u, u) would not
    # be 1.
    return torch.cdist(u, v, compute_mode="donot_use_mm_for_euclid_dist").square()


def _pair(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both samples as (n, d) matrices of at least single precision."""
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise DataError(
            "moments need two matrices (samples, features) of equal width, "
            f"got {tuple(source.shape)} and {tuple(target.shape)}. Flatten the features of each sample first."
        )
    if not len(source) or not len(target):
        raise DataError(f"moments need samples of both domains, got {len(source)} and {len(target)}.")
    dtype = torch.promote_types(torch.promote_types(source.dtype, target.dtype), torch.float32)
    return source.to(dtype), target.to(dtype)
