"""Scores that need no target label, the guard against negative transfer, and estimates of the target's prior."""

from residapt.selection.evidence import Evidence
from residapt.selection.guard import GuardConfig, Verdict, compare
from residapt.selection.scores import SCORES, score

__all__ = ["SCORES", "Evidence", "GuardConfig", "Verdict", "compare", "score"]
