r"""One class against the others: precision, recall and average precision of a ranking.

.. math:: AP = \sum_k (R_k - R_{k-1})\,P_k

over the distinct scores from the highest to the lowest, without interpolation: what scikit-learn's
``average_precision_score`` gives for the same scores. The measure for tasks with many negatives, where accuracy says
little: a network that finds nothing is right on 99 % of the images if 1 % are positive.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.errors import ConfigError, DataError
from residapt.settings import Settings

ROWS = 4096
"""Rows of logits converted to double precision at a time."""
MOST_POINTS = 200
"""Points of a curve that is written down."""


class CurvePoint(Settings):
    """Precision and recall where everything at or above a threshold is predicted positive."""

    recall: float
    """Share of the positive images that are found."""
    precision: float
    """Share of what is found that is positive."""
    threshold: float
    """Smallest probability of the positive class among what is found."""


class Detection(Settings):
    """How well one class is separated from the others."""

    positive: str
    """The positive class."""
    positives: int
    """Images of it."""
    negatives: int
    """Images of all others."""
    average_precision: float
    """Sum over thresholds of precision times the gain in recall; a random ranking has the share of positives."""
    curve: list[CurvePoint]
    """Precision and recall from the highest threshold to the lowest; a long curve is thinned out evenly in recall."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Precision and recall at every distinct score, from the highest on."""

    scores: Tensor
    precision: Tensor
    recall: Tensor

    @property
    def average_precision(self) -> float:
        """The sum of gains in recall times precision."""
        before = torch.cat([self.recall.new_zeros(1), self.recall[:-1]])
        return float(((self.recall - before) * self.precision).sum())


def rank(scores: Tensor, positive: Tensor) -> Ranking:
    """Rank by score; equal scores make one threshold, so that their order in the data cannot matter."""
    if bool(scores.isnan().any()):
        raise DataError("the network's outputs contain NaN, so that images cannot be ranked. Train it again.")
    found = int(positive.sum())
    if not found:
        raise DataError("there is no positive image, so that there is no recall. Give images of the positive class.")
    ordered, order = scores.sort(descending=True, stable=True)
    last = torch.cat([ordered[1:] != ordered[:-1], torch.ones(1, dtype=torch.bool)]).nonzero().flatten()
    hits = positive[order].double().cumsum(0)[last]
    return Ranking(ordered[last], hits / (last + 1), hits / found)


def average_precision(scores: Tensor, positive: Tensor) -> float:
    r""":math:`\sum_k (R_k - R_{k-1}) P_k` of scores (n,) against booleans (n,)."""
    return rank(scores, positive).average_precision


def confusion_matrix(logits: Tensor, labels: Tensor) -> Tensor:
    """Counts (classes, classes) of logits (n, classes): a row for each true class, a column for each predicted one."""
    classes = logits.shape[1]
    return torch.bincount(labels * classes + logits.argmax(1), minlength=classes**2).view(classes, classes)


class OneAgainstRest:
    r"""How much each class is preferred to all others together: :math:`\log p - \log(1 - p)`, in float64.

    It ranks as the probability does, but goes on where that is rounded to 1: a confident network has many
    probabilities of exactly 1, which would be one threshold. Of n logits of c classes it keeps two numbers each, so
    that no class needs more than a column of memory.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.best, self.top = logits.max(1)
        blocks = [slice(start, start + ROWS) for start in range(0, len(logits), ROWS)]
        self.rest = torch.cat([self._without_best(rows) for rows in blocks])

    def log_odds(self, index: int) -> Tensor:
        """The scores of one class, shape (n,)."""
        own = self.logits[:, index].double() - self.best.double()
        # Where the class is not the best one, the others hold the best, and taking it off their sum loses nothing.
        others = torch.log1p(self.rest.exp() - own.exp())
        if self.logits.shape[1] == 2:
            others = torch.zeros_like(others)  # exactly
        return own - torch.where(self.top == index, self.rest, others)

    def _without_best(self, rows: slice) -> Tensor:
        """log-sum-exp of all classes but the best, less the best; so that adding to a row changes nothing."""
        less = self.logits[rows].double() - self.best[rows, None].double()
        return less.scatter(1, self.top[rows, None], -torch.inf).logsumexp(1)


def check_positive(name: str | None, classes: Sequence[str]) -> None:
    """Refuse a positive class that is none of the classes."""
    if name is not None and name not in classes:
        near = difflib.get_close_matches(name, classes, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"Classes: {', '.join(classes[:8])}."
        raise ConfigError(f"the positive class '{name}' is not a class of the source. {hint}")


def choose_positive(labels: Tensor, classes: Sequence[str], name: str | None = None) -> int | None:
    """The positive class: the named one, or of two the one with fewer images (of equals the second)."""
    check_positive(name, classes)
    if name is not None:
        return list(classes).index(name)
    if len(classes) != 2:
        return None
    counts = labels.bincount(minlength=2)
    return 0 if counts[0] < counts[1] else 1


def detect(logits: Tensor, labels: Tensor, classes: Sequence[str], positive: str | None = None) -> Detection | None:
    """Detection scores of logits (n, classes); None without a positive class, or where only one kind is there."""
    index = choose_positive(labels, classes, positive)
    if index is None:
        return None
    wanted = labels == index
    if bool(wanted.all()) or not bool(wanted.any()):
        return None
    ranking = rank(OneAgainstRest(logits).log_odds(index), wanted)
    return Detection(
        positive=classes[index],
        positives=int(wanted.sum()),
        negatives=int((~wanted).sum()),
        average_precision=ranking.average_precision,
        curve=_points(ranking),
    )


def _points(ranking: Ranking) -> list[CurvePoint]:
    """For each of many levels of recall the highest threshold that reaches it, and the end, where all is found."""
    size = len(ranking.recall)
    chosen = torch.arange(size)
    if size > MOST_POINTS:
        levels = torch.linspace(0, 1, MOST_POINTS - 1, dtype=torch.float64)
        chosen = torch.cat([torch.searchsorted(ranking.recall, levels), chosen[-1:]]).clamp_(max=size - 1)
        chosen = torch.tensor(sorted(set(chosen.tolist())))
    thresholds = ranking.scores[chosen].sigmoid()
    values = zip(ranking.recall[chosen].tolist(), ranking.precision[chosen].tolist(), thresholds.tolist(), strict=True)
    return [CurvePoint(recall=r, precision=p, threshold=t) for r, p, t in values]
