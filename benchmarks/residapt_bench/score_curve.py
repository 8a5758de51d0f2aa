"""The curve of a run: accuracy on the reported set and label-free scores, side by side, for the record only."""

from __future__ import annotations

import torch

from residapt.data.domains import Images
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.predict import Evaluation, evaluating, predict_logits
from residapt.evaluate.scores import score
from residapt.train import Method
from residapt.train.curve import Curve

SCORES = ("infomax", "bnm")
"""Label-free scores that are quick to compute and read nothing but the predictions on the target."""


class ScoreCurve(Curve):
    """Accuracy, and how confident and varied the predictions of fixed unlabelled images are."""

    def __init__(self, evaluations: list[Evaluation], every: int, target: Images | None) -> None:
        super().__init__(evaluations, every)
        self.target = target

    def measure(self, method: Method) -> dict[str, float]:
        """Accuracy and scores; no scores where there are no such images, or where the network has diverged."""
        found = super().measure(method)
        if self.target is None:
            return found
        with evaluating(method):
            logits = predict_logits(method.predict, self.target, device=torch.device("cpu"))
        if not logits.isfinite().all():
            return found
        unread = (
            logits[:1],
            torch.zeros(1, dtype=torch.long),
            logits[:1],
        )  # the source's part, which no score here reads
        evidence = Evidence(*unread, target_logits=logits, target_features=logits)
        return {**found, **{name: round(score(name, evidence), 6) for name in SCORES}}
