"""Each of the paper's tables with ours beside it, from records only; an empty cell says how far it is.

A cell is the mean of the runs that are there, their spread, and their number out of those that the experiment file
asks for. Nothing here reads anything but experiment files and records.
"""

from __future__ import annotations

import statistics

from residapt.errors import DataError
from residapt_bench.digits.network_choice import restart_score
from residapt_bench.digits.published import SVHN_MNIST
from residapt_bench.drones.published import PAPER as PAPER_DRONES
from residapt_bench.drones.tables import NAMES as DRONE_NAMES
from residapt_bench.office31.published import PUBLISHED_OFFICE
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown
from residapt_bench.report.networks import network_report
from residapt_bench.report.paired import PairedDifference, paired_difference
from residapt_bench.report.paper_runs import Lab, Runs
from residapt_bench.report.rank_tables import rank_rows
from residapt_bench.report.restarts import SIZE, best_of

ALL_SEPARATE = "by reversal, all layers separate"


def all_parts(lab: Lab) -> dict[str, str]:
    """Every table of the page by the name of its place."""
    return {
        "progress": progress(lab),
        "networks": networks(lab),
        "lenet": lenet_table(lab),
        "length": length_table(lab),
        "differences": differences(lab),
        "ranks": rank_table(lab),
        "svhnet": svhnet_table(lab),
        "sweeps": sweep_table(lab),
        "drones": drone_table(lab),
        "office": office_table(lab),
        "own": own_table(lab),
    }


def progress(lab: Lab) -> str:
    """How far each experiment is."""
    rows = [(f"`{name}`", runs.title, str(len(runs.records)), str(len(runs.planned))) for name, runs in lab.items()]
    return markdown(("experiment", "what it shows", "runs there", "of"), rows)


def networks(lab: Lab) -> str:
    """The rule and what it chooses, as soon as every short run is there."""
    runs = lab["paper-networks"]
    if len(runs.records) < len(runs.planned):
        return (
            f"{len(runs.records)} of {len(runs.planned)} short runs are there; nothing is chosen before all of them.\n"
        )
    return network_report(runs.records, "svhn-mnist")


LENET_ROWS = (
    ("source only", "source_only", "", "source_only", ""),
    ("DANN", "dann", "", "dann_flip", ""),
    ("ADDA", "adda", "", None, ""),
    ("two-stream", "two_stream", "", None, ""),
    ("two-stream, by reversal", "two_stream", ALL_SEPARATE, None, ""),
    ("domain confusion", "confusion", "", None, ""),
    ("RPT, fixed ranks", "rpt_fixed", "by reversal", "rpt_fixed", ""),
    ("RPT", "rpt", "by reversal", "rpt", ""),
)
"""Name, method and note by reversal (or as the method is), method and note by flipped labels."""


def lenet_table(lab: Lab) -> str:
    """Table 3, LeNet: five orders of one network by reversal and by flipped labels, ten networks, restarts, oracle."""
    rows = []
    for name, method, note, flipped, flipped_note in LENET_ROWS:
        oracle_note = "oracle network, by reversal" if method == "rpt" else "oracle network"
        ten = lab["paper-grid"].cell(method, note) or lab["paper-restarts"].cell(method, note)
        rows.append(
            (
                name,
                _published("lenet", method),
                lab["paper-orders"].cell(method, note),
                lab["paper-orders-flipped"].cell(flipped, flipped_note) if flipped else "",
                ten,
                _best_of_five(lab, method, note),
                lab["paper-oracle"].cell(method, oracle_note),
            )
        )
    heads = (
        "system",
        "paper",
        "five orders, chosen network",
        "the same, flipped labels",
        "ten networks (five for the baselines)",
        f"best of {SIZE} networks",
        "five orders, oracle network",
    )
    return markdown(heads, rows)


def _best_of_five(lab: Lab, method: str, note: str) -> str:
    """Restarts by the best score after adaptation; empty until the rule and enough runs are there."""
    runs = lab["paper-grid"].found(method, note) or lab["paper-restarts"].found(method, note)
    if len(runs) < SIZE:
        return ""
    try:
        score = restart_score(lab["paper-networks"].records)
    except DataError:
        return ""
    return f"{best_of([score.of(run) for run in runs], [run.target for run in runs]):.1f}"


DIFFERENCES = (
    ("RPT minus DANN, five orders", "paper-orders", "rpt:by reversal", "dann", "order", "+4.0"),
    ("RPT minus fixed ranks, five orders", "paper-orders", "rpt:by reversal", "rpt_fixed:by reversal", "order", ""),
    ("RPT minus DANN, flipped labels", "paper-orders-flipped", "rpt", "dann_flip", "order", "+4.0"),
    ("RPT minus fixed ranks, flipped labels", "paper-orders-flipped", "rpt", "rpt_fixed", "order", ""),
    ("RPT minus DANN, ten networks", "paper-grid", "rpt:by reversal", "dann", "all", "+4.0"),
    ("RPT minus fixed ranks, ten networks", "paper-grid", "rpt:by reversal", "rpt_fixed:by reversal", "all", ""),
)


def differences(lab: Lab) -> str:
    """Paired differences with their intervals."""
    rows = []
    for name, experiment, first, second, varied, published in DIFFERENCES:
        try:
            found = paired_difference(lab[experiment].records, first, second, varied=varied)
        except DataError:
            rows.append((name, published, "", "", "0"))
            continue
        rows.append((name, published, f"{found.mean:+.1f}", _interval(found), str(len(found.differences))))
    return markdown(("difference", "paper", "ours", "95 % interval", "pairs"), rows)


def length_table(lab: Lab) -> str:
    """Where the label-free score stops rising: mean InfoMax along the runs of the five orders."""
    rows = []
    for name, method, note in (("DANN", "dann", ""), ("RPT, fixed ranks", "rpt_fixed", "by reversal"), _RPT):
        runs = lab["paper-orders"].found(method, note)
        means = [_mean_at(runs, step) for step in _STEPS]
        rise = f"{means[-1] - means[-2]:+.3f}" if means[-1] is not None and means[-2] is not None else ""
        rows.append((name, *("" if mean is None else f"{mean:.3f}" for mean in means), rise, str(len(runs))))
    heads = (*(f"{step:,}" for step in _STEPS), "last 4,000 steps", "runs")
    return markdown(("mean InfoMax after steps", *heads), rows)


_STEPS = (1000, 2000, 4000, 8000, 12000)
_RPT = ("RPT", "rpt", "by reversal")


def _mean_at(runs: list[Record], step: int) -> float | None:
    values = [point["infomax"] for run in runs for point in run.curve if point["step"] == step and "infomax" in point]
    return statistics.fmean(values) if values else None


PAPER_RANKS = {"conv1": (31, 31), "conv2": (9, 7), "full3": (7, 7), "full4": (16, 16)}
"""Table 4: what is left of [32, 32] in LeNet."""


def rank_table(lab: Lab) -> str:
    """Table 4: ranks after training."""
    ours = {row[0]: row for row in rank_rows(lab["paper-orders"].found("rpt", "by reversal"))}
    flipped = {row[0]: row for row in rank_rows(lab["paper-orders-flipped"].found("rpt"))}
    rows = [
        (layer, "[32, 32]", f"[{left}, {right}]", _pair(ours.get(layer)), _pair(flipped.get(layer)))
        for layer, (left, right) in PAPER_RANKS.items()
    ]
    return markdown(("layer", "before", "paper, after", "ours, by reversal", "ours, flipped labels"), rows)


SVHNET_ROWS = (
    ("source only", "source_only", ""),
    ("domain confusion", "confusion", ""),
    ("DANN", "dann", ""),
    ("DANN, flipped labels", "dann_flip", ""),
    ("RPT, fixed ranks", "rpt_fixed", "by reversal"),
    ("RPT", "rpt", "by reversal"),
    ("RPT, flipped labels", "rpt", ""),
    ("RMAN", "rman", ""),
    ("RPT + RMAN", "rpt", "RPT + RMAN"),
)


def svhnet_table(lab: Lab) -> str:
    """Table 3, SvhNet, and Table 7."""
    first, more = lab["paper-svhnet"], lab["paper-svhnet-seeds"]
    both = Runs("", [*first.planned, *more.planned], [*first.records, *more.records])
    rows = [
        (name, "84.6" if note == "RPT + RMAN" else _published("svhnet", method), both.cell(method, note))
        for name, method, note in SVHNET_ROWS
    ]
    return markdown(("system", "paper", "ours"), rows)


def sweep_table(lab: Lab) -> str:
    """Figure 4 as numbers; the middle is RPT's run of the first order."""
    runs = lab["paper-sweeps"]
    middle = [run for run in lab["paper-orders"].found("rpt", "by reversal") if run.plan.seed == 0]
    weights = (0.01, 0.1, 1.0, 10.0, 100.0)
    rows = []
    for name, key in (("λs", "stream_weight"), ("λr", "rank.weight")):
        values = {float(run.plan.setting(key)): run.target for run in runs.records if run.plan.swept == key}
        if middle:
            values[1.0] = middle[0].target
        rows.append((name, *(f"{values[weight]:.1f}" if weight in values else "" for weight in weights)))
    return markdown(("weight", *(f"{weight:g}" for weight in weights)), rows)


def drone_table(lab: Lab) -> str:
    """Table 5 on the stand-in: average precision."""
    rows = []
    for method in ("source_only", "fine_tune", "dann_flip", "adda", "two_stream", "rpt_fixed", "rpt"):
        paper = f"{PAPER_DRONES[method][0]:.3f}" if method in PAPER_DRONES else ""
        runs = lab["paper-drones"]
        test = runs.cell(method, value=lambda run: run.precision("target_test"), digits=3)
        second = runs.cell(method, value=lambda run: run.precision("second"), digits=3)
        rows.append((DRONE_NAMES[method], paper, test, second))
    return markdown(("method", "paper, UAV-200", "stand-in", "stand-in, second collection"), rows)


OFFICE_ROWS = (
    ("source only", "source_only", "", None),
    ("DANN, flipped labels", "dann_flip", "", 1),
    ("DANN, by reversal", "dann", "", 1),
    ("RPT, flipped labels", "rpt", "", 2),
    ("RPT, by reversal", "rpt", "by reversal", 2),
    ("the library's default recipe", "rpt", "recipe default", None),
)
"""Name, method, note, and the place of the paper's row among the published ones."""
OFFICE_PAIRS = ("a-w", "d-a", "a-d")


def office_table(lab: Lab) -> str:
    """Table 6, three pairs; the mean only where all three have a run."""
    runs = lab["paper-office31-resnet50"]
    rows = []
    for name, method, note, published in OFFICE_ROWS:
        paper = {} if published is None else PUBLISHED_OFFICE[published].by_pair()
        means, cells = [], []
        for pair in OFFICE_PAIRS:
            cells += [f"{paper[pair]:.1f}" if paper else "", runs.cell(method, note, pair)]
            if found := runs.found(method, note, pair):
                means.append(statistics.fmean(run.target for run in found))
        ours = f"{statistics.fmean(means):.1f}" if len(means) == len(OFFICE_PAIRS) else ""
        mean = f"{statistics.fmean(paper[pair] for pair in OFFICE_PAIRS):.1f}" if paper else ""
        rows.append((name, *cells, mean, ours))
    heads = [f"{pair.upper().replace('-', '→')}, {whose}" for pair in OFFICE_PAIRS for whose in ("paper", "ours")]
    return markdown(("method", *heads, "mean, paper", "mean, ours"), rows)


def own_table(lab: Lab) -> str:
    """Baselines by their own recipes."""
    runs = lab["paper-own-recipes"]
    rows = []
    for method in ("source_only", "adda", "confusion", "dann", "two_stream", "dsn"):
        steps = next(plan.train.steps for plan in runs.planned if plan.method == method)
        paper = "82.8 (SvhNet-like)" if method == "dsn" else _published("lenet", method)
        rows.append((method, paper, runs.cell(method), "" if method == "source_only" else f"{steps:,}"))
    return markdown(("system", "paper", "ours", "steps"), rows)


def _published(arch: str, method: str) -> str:
    found = SVHN_MNIST.get((arch, method))
    return "" if found is None else f"{found.percent:.1f}"


def _interval(found: PairedDifference) -> str:
    limits = found.interval()
    return "" if limits is None else f"{limits[0]:+.1f} to {limits[1]:+.1f}"


def _pair(row: tuple[str, ...] | None) -> str:
    return "" if row is None else f"[{row[2]}, {row[4]}]"
