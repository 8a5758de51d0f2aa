"""How far runs that differ by their seed agree on the same unlabelled target images; no label is needed.

Where the same settings lead to different names for the same images, at most one of the runs can be right about them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from torch import Tensor

from residapt.bench.budget import adaptation_steps
from residapt.bench.markdown import markdown
from residapt.errors import DataError

HEADINGS = ("task", "network", "method", "note", "steps", "varied", "runs", "agreement, %", "lowest pair", "InfoMax")


def class_text(logits: Tensor) -> str:
    """The predicted classes as one string, a digit for each image."""
    return "".join(str(label) for label in logits.argmax(1).tolist())


def pair_agreements(predictions: Sequence[str]) -> list[float]:
    """Share of images with the same class, for every pair of runs."""
    return [statistics.fmean(a == b for a, b in zip(x, y, strict=True)) for x, y in combinations(predictions, 2)]


def agreement_table(records: Iterable[dict[str, Any]]) -> str:
    """A row for each group of runs that differ by their seed only, those that agree best first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        plan = record["plan"]
        key = (plan["task"], plan["arch"], plan["method"], plan["note"], adaptation_steps(plan), plan["varied"])
        if "predicted" in record:
            groups.setdefault(key, []).append(record)
    rows = []
    for key, runs in groups.items():
        shares = pair_agreements([run["predicted"] for run in runs])
        if shares:
            score = statistics.fmean(run["label_free"]["infomax"][1] for run in runs)
            rows.append((statistics.fmean(shares), min(shares), score, len(runs), key))
    if not rows:
        raise DataError("the records have no two runs that differ by their seed only and hold their predictions.")
    rows.sort(key=lambda row: -row[0])
    return markdown(
        HEADINGS,
        [
            (*map(str, key), str(count), f"{100 * mean:.1f}", f"{100 * lowest:.1f}", f"{score:.3f}")
            for mean, lowest, score, count, key in rows
        ],
    )
