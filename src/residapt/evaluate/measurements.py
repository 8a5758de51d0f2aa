"""What the guard reads: plain numbers of both networks on the same samples, fit for a record."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from residapt.errors import DataError
from residapt.evaluate.evidence import Evidence, subset
from residapt.evaluate.scores import score

Votes = dict[str, tuple[float, float]]
"""Each measurement before and after the adaptation."""

RECORDED = ("source_accuracy", "class_ami", "infomax", "bnm", "snd")
"""Scores taken of both networks."""
ROUNDING = 1e-9
"""Probabilities closer than this are equal, so that equally confident predictions are taken or left together."""
NEIGHBOURS = 10
"""Nearest neighbours of a target sample."""
NEIGHBOURS_OF = 2_000
"""Largest number of target samples whose neighbours are found."""


def measure(before: Evidence, after: Evidence) -> Votes:
    """All measurements that :func:`decide` reads; plain numbers, fit for a record."""
    _check_same_samples(before, after)
    votes: Votes = {name: (score(name, before), score(name, after)) for name in RECORDED}
    anchored = replace(before, target_logits=after.target_logits)
    votes["anchored_ami"] = (votes["class_ami"][0], score("class_ami", anchored))
    votes["sure_agreement"] = (1.0, _sure_agreement(before.target_logits, after.target_logits))
    prior = _frequencies(after.source_labels, after.classes)
    old = _frequencies(before.target_logits.argmax(dim=1), before.classes)
    new = _frequencies(after.target_logits.argmax(dim=1), after.classes)
    votes["classes_predicted"] = (_effective_classes(old), _effective_classes(new))
    references = (prior, old, _sure_frequencies(before.target_logits))
    nearest = min(_total_variation(new, reference) for reference in references)
    votes["frequency_shift"] = (_total_variation(old, prior), nearest)
    votes["lost_mass"] = (0.0, _lost_mass(new, torch.stack(references).amin(dim=0)))
    votes["renamed_classes"] = (0.0, _renamed_classes(before.target_logits, after.target_logits))
    predicted = [seen.target_logits.argmax(dim=1) for seen in (before, after)]
    votes["reverse_accuracy"] = tuple(_reverse_accuracy(before, labels) for labels in predicted)  # type: ignore[assignment]
    votes["reverse_own"] = (votes["reverse_accuracy"][0], _reverse_accuracy(after, predicted[1]))
    votes["neighbours"] = tuple(_neighbour_agreement(before.target_features, labels) for labels in predicted)  # type: ignore[assignment]
    votes["atc"] = (_expected_accuracy(before), _expected_accuracy(after))
    votes["agreement"] = (1.0, float((predicted[0] == predicted[1]).double().mean()))
    return votes


def _reverse_accuracy(seen: Evidence, predicted: Tensor) -> float:
    """Accuracy on the source of a classifier that learned from the target's predicted classes (reverse validation).

    The classifier takes the nearest class mean, by cosine, of features that are standardised over their own domain.
    Classes that nothing is predicted as are never right.
    """
    source, target = (
        functional.normalize(_standardised(x), dim=1) for x in (seen.source_features, seen.target_features)
    )
    sums = torch.zeros(seen.classes, target.shape[1], dtype=target.dtype).index_add_(0, predicted, target)
    nearest = (source @ functional.normalize(sums, dim=1).T).masked_fill((sums == 0).all(dim=1), -2.0).argmax(dim=1)
    return float((nearest == seen.source_labels).double().mean())


def _standardised(features: Tensor) -> Tensor:
    wide = features.double()
    return (wide - wide.mean(dim=0)) / wide.std(dim=0, correction=0).clamp_min(1e-9)


def _neighbour_agreement(features: Tensor, predicted: Tensor) -> float:
    """Share of the nearest neighbours, by cosine of features, that are predicted as the same class."""
    keep = subset(len(features), NEIGHBOURS_OF, seed=0)
    points, labels = functional.normalize(features[keep].double(), dim=1), predicted[keep]
    alike = points @ points.T
    alike.fill_diagonal_(-2.0)
    near = alike.topk(min(NEIGHBOURS, len(keep) - 1), dim=1).indices
    return float((labels[near] == labels[:, None]).double().mean())


def _expected_accuracy(seen: Evidence) -> float:
    """Share of target predictions above the confidence that as many source predictions exceed as are right (ATC)."""
    source, target = (x.double().softmax(dim=1).max(dim=1).values for x in (seen.source_logits, seen.target_logits))
    wrong = (seen.source_logits.argmax(dim=1) != seen.source_labels).double().mean()
    return float((target > source.quantile(float(wrong))).double().mean())


def _frequencies(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.long(), minlength=classes).double() / len(labels)


def _sure_agreement(before: Tensor, after: Tensor) -> float:
    """Share of the most confident quarter of the old predictions that is still predicted."""
    confidence, predicted = before.double().softmax(dim=1).max(dim=1)
    confident = confidence >= confidence.quantile(0.75) - ROUNDING
    return float((after.argmax(dim=1) == predicted)[confident].double().mean())


def _sure_frequencies(logits: Tensor) -> Tensor:
    """Class frequencies among the surer half of the predictions.

    A class that the target lacks is still predicted now and then, but by mistake and rarely with confidence.
    """
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    return _frequencies(predicted[confidence >= confidence.median() - ROUNDING], logits.shape[1])


def _total_variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum()) / 2


def _effective_classes(frequencies: Tensor) -> float:
    return float(torch.special.entr(frequencies).sum().exp())


def _lost_mass(new: Tensor, reference: Tensor) -> float:
    """Share of the reference that belongs to classes of which less than a tenth is left."""
    return float(reference[new < 0.1 * reference].sum())


def _renamed_classes(before: Tensor, after: Tensor) -> float:
    """How many classes of average size gave their samples to a class and took those of another.

    Under the best renaming i -> j of the old predictions, a class counts by the smaller of what it gave and what
    it took: a misnamed cluster that moves into an empty class is not an exchange.
    """
    from scipy.optimize import linear_sum_assignment  # here: importing it takes a second

    classes = before.shape[1]
    pairs = before.argmax(dim=1) * classes + after.argmax(dim=1)
    table = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes).double()
    old, new = (torch.from_numpy(index) for index in linear_sum_assignment(table.numpy(), maximize=True))
    gave, taken = table[old, new], torch.empty(classes, dtype=table.dtype)
    taken[new] = gave
    return float(torch.minimum(gave, taken)[new != old].sum()) * classes / len(before)


def _check_same_samples(before: Evidence, after: Evidence) -> None:
    same_source = torch.equal(before.source_labels, after.source_labels)
    if not same_source or before.target_logits.shape != after.target_logits.shape:
        raise DataError(
            "the guard compares two networks on the same samples in the same order, "
            "but the source labels or the shape of the target outputs differ: "
            f"{tuple(before.target_logits.shape)} before, {tuple(after.target_logits.shape)} after. "
            "Collect both with the same loaders, without shuffling."
        )
