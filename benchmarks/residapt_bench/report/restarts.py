"""Restarts: of several runs of a method that differ by their seed, the one with the highest label-free score counts."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from residapt.errors import DataError
from residapt_bench.digits.network_choice import Candidate
from residapt_bench.record import Record
from residapt_bench.report.groups import run_groups
from residapt_bench.report.markdown import markdown

SIZE = 5
"""Restarts that one is chosen from."""


def best_of(scores: Sequence[float], accuracies: Sequence[float], size: int = SIZE) -> float:
    """Mean accuracy of the run with the highest score, over all sets of ``size`` of the runs.

    A run is the best of a set whose others are all below it; between equal scores the earlier run counts.
    """
    count = len(scores)
    if not 1 <= size <= count:
        raise DataError(f"best of {size} needs at least {size} runs, got {count}.")
    order = sorted(range(count), key=lambda run: (scores[run], -run))
    sets = math.comb(count, size)
    return sum(math.comb(below, size - 1) * accuracies[run] for below, run in enumerate(order)) / sets


SETS = 2000
"""Most sets of restarts that are gone through; of more than these so many are drawn."""


def best_by_agreement(
    predicted: Sequence[str], accuracies: Sequence[float], size: int = SIZE, *, last: Sequence[bool] = ()
) -> float | None:
    """The same for the run that predicts what the others of its set do most often, as the library selects it.

    None where the predictions are not recorded, or of different images. Runs of ``last`` are taken only where all are.
    """
    if not all(predicted) or len(set(map(len, predicted))) > 1:
        return None
    classes = np.array([np.frombuffer(text.encode("latin-1"), np.uint8) for text in predicted])
    alike = (classes[:, None] == classes[None]).mean(axis=2)
    sets = list(itertools.combinations(range(len(predicted)), size))
    if len(sets) > SETS:
        sets = random.Random(0).sample(sets, SETS)
    penalty = 2.0 * size * np.array(last or [False] * len(predicted))
    picks = (
        chosen[int((alike[np.ix_(chosen, chosen)].sum(axis=1) - penalty[list(chosen)]).argmax())] for chosen in sets
    )
    return statistics.fmean(accuracies[pick] for pick in picks)


def restart_table(records: Iterable[Record], score: Candidate, *, size: int = SIZE) -> str:
    """A row for each group of at least ``size`` runs: what one run comes to, and the best of ``size``, each way."""
    rows = []
    for group, runs in run_groups(record for record in records if record.label_free).items():
        if len(runs) < size or group.varied != "all":
            continue
        accuracies = [run.target for run in runs]
        picked = best_of([score.of(run) for run in runs], accuracies, size)
        single = f"{statistics.fmean(accuracies):.1f} ± {statistics.stdev(accuracies):.1f}"
        name = (group.task, group.method, group.note, f"{group.steps:,}", str(len(runs)))
        agreed = best_by_agreement([run.predicted for run in runs], accuracies, size)
        best = best_of(accuracies, accuracies, size)
        rows.append((*name, single, f"{picked:.1f}", "" if agreed is None else f"{agreed:.1f}", f"{best:.1f}"))
    if not rows:
        raise DataError(f"the records have no method with {size} runs that differ by their seed.")
    picked_by = (f"best of {size} by {score.score}", "by agreement", "by labels")
    return markdown(("task", "method", "note", "steps", "n", "one run", *picked_by), rows)
