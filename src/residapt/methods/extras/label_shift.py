r"""How often each class occurs in the target domain, estimated without target labels (label shift).

The estimator assumes that a class looks alike in both domains, :math:`p_s(x \mid y) = p_t(x \mid y)`, at
least as the classifier sees it. Under other shifts an estimate is a hint, which is why it is floored and meant to
be smoothed. All results are double precision on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.errors import ConfigError, DataError

FLOOR = 0.01
"""Smallest frequency of an estimated class, as a share of the flat prior 1 / classes."""


def bbse(confusion: Tensor, target_predictions: Tensor, *, floor: float = FLOOR, max_condition: float = 1e3) -> Tensor:
    r"""Target class frequencies by black-box shift estimation (Lipton et al. 2018).

    .. math:: C w = q, \qquad \pi_t = w \odot \pi_s

    with :math:`q` the frequencies of the target predictions (class numbers, or probabilities if :math:`C` was
    made from probabilities) and :math:`\pi_s` the column sums of :math:`C`. Solved for :math:`\pi_t` by least
    squares over the simplex, so that sampling noise cannot make a frequency negative. Where the classifier
    hardly tells classes apart, so that the condition number of :math:`p(\hat y \mid y)` exceeds
    ``max_condition``, a ridge draws the undetermined directions to the source frequencies instead of
    amplifying noise.
    """
    if max_condition < 1:
        raise ConfigError(f"bbse: max_condition must be at least 1, got {max_condition}.")
    joint = confusion.detach().cpu().double()
    if joint.ndim != 2 or joint.shape[0] != joint.shape[1]:
        raise DataError(f"bbse: the confusion matrix must be square, got {tuple(joint.shape)}.")
    source_prior = _distribution("the column sums of the confusion matrix", joint.sum(dim=0))
    q = _frequencies(target_predictions, len(joint))
    conditional = joint / joint.sum(dim=0)
    singular = torch.linalg.svdvals(conditional)
    smallest = float(singular[0]) / max_condition
    ridge = smallest if singular[-1] < smallest else 0.0
    return floored(_simplex_least_squares(conditional, q, ridge, source_prior), floor)


def class_weights(source_prior: Tensor, target_prior: Tensor) -> Tensor:
    r"""Weight of each class's source samples, :math:`w_k = \pi^t_k / \pi^s_k`; their source mean is 1."""
    prior_s = _distribution("the source prior", source_prior.detach().cpu().double())
    prior_t = target_prior.detach().cpu().double()
    if prior_t.shape != prior_s.shape or prior_t.min() < 0 or not prior_t.sum() > 0:
        raise DataError(f"class_weights: the target prior must be {len(prior_s)} frequencies, got {prior_t.tolist()}.")
    return prior_t / prior_t.sum() / prior_s


def effective_share(source_prior: Tensor, target_prior: Tensor) -> float:
    r"""Share of the source samples that is left effective by the weights, :math:`1 / \sum_k \pi^s_k w_k^2` (Kish)."""
    weights = class_weights(source_prior, target_prior)
    prior_s = source_prior.detach().cpu().double()
    return 1.0 / float((prior_s / prior_s.sum() * weights.square()).sum())


@dataclass(frozen=True)
class PriorDoubt:
    """How far an estimate of the target's class frequencies may be off, in total variation."""

    sampling: float
    """From the numbers of samples: twice the expected error, to first order."""
    unexplained: float
    """From target predictions that are less confident than any class frequencies explain: excess errors, if
    probabilities can be believed. Then classes do not look alike in both domains, which every estimator assumes."""
    disagreement: float
    """Between the estimate from class probabilities and that from predicted classes."""

    @property
    def total(self) -> float:
        """All three as independent errors."""
        return math.hypot(self.sampling, self.unexplained, self.disagreement)


def prediction_moments(probabilities: Tensor) -> Tensor:
    """What :func:`prior_doubt` needs of each prediction, shape (samples, 3 x classes).

    The probabilities, the predicted class as a row of 0 and 1, and that row times the probability of an error.
    """
    top = probabilities.max(dim=1)
    # one_hot would look at the indices first, and wait for the device.
    numbers = torch.arange(probabilities.shape[1], device=probabilities.device)
    predicted = (top.indices[:, None] == numbers).to(probabilities.dtype)
    return torch.cat([probabilities, predicted, predicted * (1 - top.values)[:, None]], dim=1)


def prior_doubt(
    by_label: Tensor,
    target: Tensor,
    estimate: Tensor,
    *,
    source_samples: Tensor,
    target_samples: float,
    max_condition: float = 1e3,
) -> PriorDoubt:
    r"""How far ``estimate`` may be off, from mean :func:`prediction_moments`.

    ``by_label`` (classes, 3 x classes) holds them for source samples of each class, ``target`` (3 x classes) for the
    target, ``source_samples`` how many samples of each class there were. With :math:`G` the pseudo-inverse of
    :math:`p(\hat y \mid y)`, errors :math:`\delta q` of the frequencies of predictions are errors
    :math:`G\,\delta q` of the estimate; sampling errors are those of multinomial counts in both domains.
    """
    classes = len(estimate)
    soft, hard, doubt = torch.tensor_split(by_label.double(), 3, dim=1)
    q, q_hard, q_doubt = torch.tensor_split(target.double(), 3)
    G = torch.linalg.pinv(soft.T, rtol=1.0 / max_condition)
    counts = source_samples.double().clamp_min(1.0)
    variance = q * (1 - q) / max(target_samples, 1.0)
    variance = variance + ((soft * (1 - soft)).T * estimate.square() / counts).sum(dim=1)
    errors = (G.square() @ variance.clamp_min(0)).sqrt()
    # A normal error of deviation s has the expected size s sqrt(2 / pi).
    sampling = 2.0 * 0.5 * math.sqrt(2.0 / math.pi) * float(errors.sum())
    excess = (q_doubt.sum() - (estimate @ doubt).sum()).clamp_min(0)
    amplified = float(excess * G.abs().sum(dim=0).max().clamp_min(1.0))
    by_shares = bbse(soft.T / classes, q[None] / q.sum(), max_condition=max_condition)
    by_classes = bbse(hard.T / classes, q_hard[None] / q_hard.sum(), max_condition=max_condition)
    return PriorDoubt(min(sampling, 1.0), min(amplified, 1.0), 0.5 * float((by_classes - by_shares).abs().sum()))


def bounded_prior(start: Tensor, estimate: Tensor, doubt: float) -> Tensor:
    r"""The estimate drawn to where it started, as far as the distance may be an error of its own.

    .. math:: \pi = \pi_0 + \Big(1 - \frac{u^2}{\mathrm{TV}(\hat\pi, \pi_0)^2}\Big)_+ (\hat\pi - \pi_0)

    with :math:`u` the doubt: the positive part of James and Stein's shrinkage. An estimate that is no further from the
    start than it may be off says nothing, and one that is much further is taken nearly as it is.
    """
    moved = 0.5 * float((estimate - start).abs().sum())
    weight = 0.0 if moved == 0 else max(0.0, 1.0 - (doubt / moved) ** 2)
    return start + weight * (estimate - start)


def why_degenerate(
    confusion: Tensor, source_prior: Tensor, target_prior: Tensor, *, max_condition: float, min_ess: float
) -> str | None:
    """Why an estimate should not be used, in plain words; None if nothing speaks against it.

    Either the classifier hardly tells some classes apart (the condition number of p(prediction | label)), or the
    weights would let a few samples stand for all (their effective share).
    """
    joint = confusion.detach().cpu().double()
    condition = float(torch.linalg.cond(joint / joint.sum(dim=0)))
    if not condition <= max_condition:
        return (
            f"the source's confusion matrix has the condition number {condition:.3g}, above "
            f"{max_condition:g}: the network hardly tells some classes apart"
        )
    share = effective_share(source_prior, target_prior)
    if share < min_ess:
        return f"its weights would leave {100 * share:.2g} % of the source images effective, below {100 * min_ess:g} %"
    return None


def smooth(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """Exponential moving average, ``momentum * old + (1 - momentum) * new``."""
    if not 0 <= momentum <= 1:
        raise ConfigError(f"smooth: momentum must lie between 0 and 1, got {momentum}.")
    if old.shape != new.shape:
        raise DataError(f"smooth: the priors have {tuple(old.shape)} and {tuple(new.shape)} classes.")
    return momentum * old + (1 - momentum) * new


def floored(prior: Tensor, floor: float = FLOOR) -> Tensor:
    """The nearest distribution whose frequencies are all at least ``floor / classes``.

    A prior that already is one comes back unchanged (but for rounding). A frequency of exactly 0 would be
    final: no later step could ever find that class again.
    """
    if not 0 <= floor <= 1:
        raise ConfigError(f"floor must lie between 0 and 1 (a share of the flat prior), got {floor}.")
    smallest = floor / len(prior)
    return smallest + _project_simplex(prior.double() - smallest, 1 - floor)


def _project_simplex(v: Tensor, total: float) -> Tensor:
    """Nearest point with non-negative entries of the given sum (Held et al. 1974)."""
    u = v.sort(descending=True).values
    excess = (u.cumsum(0) - total) / torch.arange(1, len(v) + 1, dtype=v.dtype)
    # The last entry that stays positive decides how much is taken from all.
    return (v - excess[(u > excess).nonzero().max()]).clamp_min(0) if total > 0 else torch.zeros_like(v)


def _simplex_least_squares(matrix: Tensor, q: Tensor, ridge: float, anchor: Tensor) -> Tensor:
    """Minimise |M x - q|² + ridge² |x - anchor|² over the simplex."""
    from scipy.optimize import nnls  # here: importing it takes a second

    classes = len(q)
    # The heavy last row asks for the sum 1; where M x = q has a solution, it has that sum anyway.
    rows = [matrix, ridge * torch.eye(classes).double(), torch.full((1, classes), 1e3).double()]
    right = [q, ridge * anchor, torch.full((1,), 1e3).double()]
    found, _ = nnls(torch.cat(rows).numpy(), torch.cat(right).numpy())
    solution = torch.from_numpy(found)
    return solution / solution.sum()


def _frequencies(predictions: Tensor, classes: int) -> Tensor:
    """Mean prediction, of class numbers or class probabilities."""
    if predictions.ndim == 1:
        numbers = _class_numbers("target predictions", predictions, classes)
        return torch.bincount(numbers, minlength=classes).double() / len(numbers)
    return _probabilities("target predictions", predictions, classes).mean(dim=0)


def _class_numbers(what: str, values: Tensor, classes: int) -> Tensor:
    numbers = values.detach().cpu()
    if numbers.ndim != 1 or not len(numbers) or numbers.is_floating_point():
        raise DataError(f"{what} must be class numbers (samples,), got {values.dtype} {tuple(values.shape)}.")
    if numbers.min() < 0 or numbers.max() >= classes:
        raise DataError(f"{what} must lie between 0 and {classes - 1}, got {numbers.min()} to {numbers.max()}.")
    return numbers.long()


def _probabilities(what: str, values: Tensor, classes: int) -> Tensor:
    p = values.detach().cpu().double()
    if p.ndim != 2 or not len(p) or p.shape[1] != classes:
        raise DataError(f"{what} must be a matrix (samples, {classes}), got {tuple(values.shape)}.")
    # A hundredth leaves room for half precision; logits miss it by far.
    if not p.min() >= 0 or not (p.sum(dim=1) - 1).abs().max() < 1e-2:
        raise DataError(
            f"{what} must be rows of probabilities with sum 1, got sums from {p.sum(dim=1).min():.3g} "
            f"to {p.sum(dim=1).max():.3g}. Apply a softmax to logits first."
        )
    return p / p.sum(dim=1, keepdim=True)


def _distribution(what: str, values: Tensor) -> Tensor:
    if values.ndim != 1 or not len(values) or not values.isfinite().all() or values.min() <= 0:
        raise DataError(
            f"{what} must be positive for each class, got {values.tolist()}. "
            "Every class needs at least one source sample."
        )
    return values / values.sum()
