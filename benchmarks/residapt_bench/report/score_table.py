"""Label-free scores of recorded runs, by which settings are chosen, beside the accuracy that nobody may choose by."""

from __future__ import annotations

from collections.abc import Iterable

from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown

SCORES = {"infomax": "InfoMax", "class_ami": "ClassAMI", "bnm": "BNM", "anchored_ami": "anchored AMI"}


def score_table(records: Iterable[Record]) -> str:
    """A row for each run that has measurements, in the order of the records."""
    rows = []
    for record in records:
        plan, found = record.plan, record.label_free
        if found:
            names = (plan.task, plan.method, str(plan.seed), str(plan.train["steps"]), plan.note)
            rows.append((*names, *(f"{found[name][1]:.3f}" for name in SCORES), f"{record.target:.1f}"))
    if not rows:
        raise DataError("the records have no label-free measurements.")
    return markdown(("task", "method", "seed", "steps", "note", *SCORES.values(), "accuracy"), rows)
