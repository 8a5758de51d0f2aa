"""Tables of a detection benchmark as Markdown, from records only; a cell without runs is empty."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from residapt.errors import DataError
from residapt_bench.drones.published import EARLIER, PAPER
from residapt_bench.plan import DroneSetup
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown
from residapt_bench.report.paired import PairedDifference
from residapt_bench.report.rank_tables import HEADINGS, rank_rows

NAMES = {
    "source_only": "source only",
    "fine_tune": "fine-tuning",
    "pooled": "pooled real + synthetic",
    "dann_flip": "DANN",
    "adda": "ADDA",
    "two_stream": "two-stream",
    "rpt_fixed": "RPT, fixed ranks",
    "rpt": "RPT",
    "rpt (plus)": "RPT, plus",
}
MOST_LABELS = 200
SEVERAL_LABELS = ("fine_tune", "rpt", "rpt (plus)")


def setup_of(record: Record) -> DroneSetup:
    """What belongs to the benchmark, or an error where the record is one of another."""
    if not isinstance(record.plan.setup, DroneSetup):
        raise DataError(f"record '{record.key}' is one of {record.plan.setup.kind}, not of drones.")
    return record.plan.setup


def main_runs(records: Sequence[Record], method: str, labels: int | None = None) -> list[Record]:
    """The runs of a method on the test, without variants; ``labels`` None takes any number."""
    return [
        record
        for record in records
        if (setup := setup_of(record)).part == "test"
        and labels in (None, setup.labels)
        and record.plan.label == method
        and not record.plan.note
    ]


def precisions(records: Sequence[Record], name: str) -> list[float]:
    """Average precisions on one of the scored sets."""
    return [record.precision(name) for record in records if name in record.scores]


def method_table(records: Sequence[Record]) -> str:
    """Average precision of every method with all labels, beside the paper's on UAV-200."""
    heads = ("method", "paper, UAV-200", "AP", "std", "n", "AP second", "std", "trained parameters", "seconds")
    rows = []
    for method in NAMES:
        runs = main_runs(records, method, 0 if method == "source_only" else MOST_LABELS)
        test, second = precisions(runs, "target_test"), precisions(runs, "second")
        counts = [_trained(record) for record in runs]
        seconds = [record.seconds for record in runs]
        rows.append(
            (
                NAMES[method],
                _paper(method),
                *_mean_std(test),
                str(len(test) or ""),
                *_mean_std(second),
                f"{statistics.fmean(counts):,.0f}" if counts else "",
                f"{statistics.fmean(seconds):.0f}" if seconds else "",
            )
        )
    return markdown(heads, rows)


def difference_table(records: Sequence[Record]) -> str:
    """RPT minus every other method over the seeds that both have, with its 95 % interval."""
    mine = _by_seed(records, "rpt")
    rows = []
    for method in NAMES:
        theirs = _by_seed(records, method)
        seeds = sorted(mine.keys() & theirs.keys())
        if method == "rpt" or not seeds:
            continue
        found = PairedDifference("rpt", method, {seed: mine[seed] - theirs[seed] for seed in seeds})
        limits = found.interval()
        between = "" if limits is None else f"{limits[0]:+.3f} to {limits[1]:+.3f}"
        rows.append((NAMES[method], f"{found.mean:+.3f}", between, str(len(seeds))))
    return markdown(("RPT minus", "mean", "95 % interval", "seeds"), rows)


def _by_seed(records: Sequence[Record], method: str) -> dict[int, float]:
    runs = main_runs(records, method, 0 if method == "source_only" else MOST_LABELS)
    return {record.plan.seed: record.precision("target_test") for record in runs}


def label_rows(records: Sequence[Record], name: str = "target_test") -> dict[str, dict[int, list[float]]]:
    """Average precisions by method and number of labels; fine-tuning on none is the source network."""
    found: dict[str, dict[int, list[float]]] = {}
    for method in SEVERAL_LABELS:
        by_count: dict[int, list[float]] = {}
        for record in main_runs(records, method):
            by_count.setdefault(setup_of(record).labels, []).extend(precisions([record], name))
        if method == "fine_tune" and by_count:
            by_count[0] = precisions(main_runs(records, "source_only"), name)
        if by_count:
            found[method] = {count: values for count, values in sorted(by_count.items()) if values}
    return found


def label_table(records: Sequence[Record]) -> str:
    """Average precision against the number of labelled drones."""
    rows = []
    for method, by_count in label_rows(records).items():
        for count, values in by_count.items():
            rows.append((NAMES[method], str(count), *_mean_std(values), str(len(values))))
    return markdown(("method", "labelled drones", "AP", "std", "n"), rows)


def rank_table(records: Sequence[Record]) -> str:
    """Ranks l and r of every layer before and after, means over the runs of RPT (the paper's Table 5, left)."""
    return markdown(HEADINGS, rank_rows(main_runs(records, "rpt", MOST_LABELS)))


def tuning_table(records: Sequence[Record]) -> str:
    """Configurations tried, and their average precision on the held-out training photographs."""
    rows = []
    for record in records:
        if setup_of(record).part == "validation":
            method = record.plan.label
            rows.append((NAMES.get(method, method), record.plan.note, f"{record.precision('validation'):.3f}"))
    return markdown(("method", "tried", "AP, validation"), sorted(rows))


def all_tables(records: Sequence[Record]) -> dict[str, str]:
    """Every table by name."""
    makers = {
        "methods": method_table,
        "differences": difference_table,
        "labels": label_table,
        "ranks": rank_table,
        "tries": tuning_table,
    }
    return {name: make(records) for name, make in makers.items()}


def _trained(record: Record) -> int:
    """Parameters in training at the start, helpers that are thrown away left out."""
    counts = record.parameters.before
    return counts["network"] + counts["transform"]


def _mean_std(values: Sequence[float]) -> tuple[str, str]:
    mean = f"{statistics.fmean(values):.3f}" if values else ""
    return mean, f"{statistics.stdev(values):.3f}" if len(values) > 1 else ""


def _paper(method: str) -> str:
    if method in PAPER:
        mean, std = PAPER[method]
        return f"{mean:.3f}" if std is None else f"{mean:.3f} [{std:.3f}]"
    return f"{EARLIER[method]:.3f} (earlier paper)" if method in EARLIER else ""
