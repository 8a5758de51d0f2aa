"""Scores that need no target label, the guard against negative transfer, and estimates of the target's prior."""

from residapt.evaluate.evidence import Evidence
from residapt.evaluate.guard import GuardConfig, Judgement, compare
from residapt.evaluate.scores import SCORES, score

__all__ = ["SCORES", "Evidence", "GuardConfig", "Judgement", "compare", "score"]
