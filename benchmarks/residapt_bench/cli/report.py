"""``residapt bench report``: tables, pages and figures, from records only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residapt.cli.app import console
from residapt.errors import ConfigError
from residapt_bench.cli.group import (
    CACHE,
    EXPERIMENTS,
    RESULTS,
    Cache,
    DataRoot,
    OptionalNames,
    app,
    data_root,
    records_of,
    records_path,
    write_text,
)

if TYPE_CHECKING:
    from residapt_bench.proving_ground.grid import GroundRecord
    from residapt_bench.record import Record


@dataclass(frozen=True)
class View:
    """How a report is shown."""

    markdown: bool
    out: Path | None
    methods: str
    arch: str
    note: str
    task: str
    score: str
    data: Path | None
    cache: Path

    def show(self, shown: Any) -> None:
        """Print, or write text into the file."""
        if self.out is not None and isinstance(shown, str):
            write_text(self.out, shown)
        else:
            console.print(shown, highlight=False, soft_wrap=isinstance(shown, str), markup=not isinstance(shown, str))

    def parts(self, parts: Mapping[str, str]) -> None:
        """Print tables, or put each into its place on the page that was given."""
        from residapt_bench.report.markdown import fill_in

        if self.out is None:
            self.show("\n".join(parts.values()))
        elif not self.out.is_file():
            raise ConfigError(f"there is no page '{self.out}' to put the tables into.")
        else:
            write_text(self.out, fill_in(self.out.read_text(encoding="utf-8"), parts, str(self.out)))

    def figure(self, picture: str, name: str) -> None:
        """Write an SVG or a page."""
        write_text(self.out or Path(name), picture)


def _kind(records: list[Record]) -> str:
    kinds = {record.plan.setup.kind for record in records}
    if len(kinds) != 1:
        raise ConfigError(f"the records are of {', '.join(sorted(kinds)) or 'no benchmark'}: give those of one.")
    return kinds.pop()


def _table(records: list[Record], view: View) -> None:
    from residapt_bench.drones.tables import all_tables
    from residapt_bench.office31.table import office_markdown, office_rich, office_rows
    from residapt_bench.report.table import markdown_table, rich_tables, rows_of

    kind = _kind(records)
    if kind == "digits":
        rows = rows_of(records)
        view.show(markdown_table(rows) if view.markdown else rich_tables(rows))
    elif kind == "office31":
        office = office_rows(records)
        view.show(office_markdown(office) if view.markdown else office_rich(office))
    else:
        view.parts(all_tables(records))


def _page(records: list[Record], view: View) -> None:
    from residapt_bench.office31.page import office_page
    from residapt_bench.report.page import bench_page

    title = " and ".join(sorted({record.plan.task for record in records}))
    view.figure(office_page(records) if _kind(records) == "office31" else bench_page(records, title), "bench.html")


def _ranks(records: list[Record], view: View) -> None:
    from residapt_bench.report.rank_tables import rank_tables

    view.show(rank_tables(records, method=view.methods or "rpt"))


def _scores(records: list[Record], view: View) -> None:
    from residapt_bench.report.score_table import score_table

    view.show(score_table(records))


def _agreement(records: list[Record], view: View) -> None:
    from residapt_bench.report.agreement import agreement_table

    view.show(agreement_table(records))


def _networks(records: list[Record], view: View) -> None:
    from residapt_bench.report.networks import network_report

    view.show(network_report(records, view.task))


def _restarts(records: list[Record], view: View) -> None:
    from residapt_bench.digits.network_choice import Candidate, restart_score
    from residapt_bench.report.restarts import restart_table

    score = Candidate(view.score, 1) if view.score else restart_score(records_of(["paper-networks"]))
    view.show(restart_table(records, score))


def _layers(records: list[Record], view: View) -> None:
    from residapt_bench.report.layer_table import layer_table

    view.show(layer_table(records))


def _guard_of_ground(names: list[str], view: View) -> None:
    from residapt_bench.report.guard_calibration import left_out_outcomes
    from residapt_bench.report.guard_check import ground_outcomes, guard_totals

    records = _ground_records(names)
    view.parts(
        {
            "guard in use": f"Thresholds in use: {guard_totals(ground_outcomes(records))}\n",
            "guard left out": f"Thresholds of other kinds of shift: {guard_totals(left_out_outcomes(records))}\n",
        }
    )


def _restarts_of_ground(names: list[str], view: View) -> None:
    from residapt_bench.report.ground_restarts import ground_restart_table

    view.parts({"restarts": ground_restart_table(_ground_records(names))})


def _ground_records(names: list[str]) -> list[GroundRecord]:
    """Each run once, as it was recorded last."""
    from residapt_bench.proving_ground.grid import read_ground

    return list({one.run.key: one for name in names for one in read_ground(records_path(name))}.values())


def _guard(records: list[Record], view: View) -> None:
    from residapt_bench.report.guard_check import guard_markdown, guard_table, guard_totals, judge, outcomes_of

    judged = judge(records)
    view.show(guard_markdown(judged) if view.markdown else guard_table(judged))
    view.show(guard_totals(outcomes_of(judged)))


def _curves(records: list[Record], view: View) -> None:
    from residapt_bench.report.figures import curves_figure

    methods = (view.methods or "dann_flip,rpt").split(",")
    view.figure(curves_figure(records, methods, arch=view.arch, note=view.note), "curves.svg")


def _sweeps(records: list[Record], view: View) -> None:
    from residapt_bench.report.figures import sweep_figure

    view.figure(sweep_figure(records, arch=view.arch), "sweeps.svg")


def _pareto(records: list[Record], view: View) -> None:
    from residapt_bench.report.pareto import pareto_figure, pareto_table

    if view.markdown:
        view.show(pareto_table(records))
    else:
        view.figure(pareto_figure(records), "pareto.svg")


def _labels(records: list[Record], view: View) -> None:
    from residapt_bench.drones.figure import label_figure

    view.figure(label_figure(records), "labels.svg")


def _growth(names: list[str], view: View) -> None:
    from residapt_bench.speed.growth import growth_figure, read_growth

    view.figure(growth_figure(read_growth(records_path(names[0]))), "growth.svg")


def _newcomer(names: list[str], view: View) -> None:
    from residapt_bench.newcomer import newcomer_table, read_newcomer_records

    view.show(newcomer_table([record for name in names for record in read_newcomer_records(records_path(name))]))


def _ground(names: list[str], view: View) -> None:
    from residapt_bench.proving_ground.grid_table import left_out_table, pairs_table, results, summary_table

    found = results(_ground_records(names))
    view.parts({"summary": summary_table(found), "left out": left_out_table(found), "pairs": pairs_table(found)})


def _paper(view: View) -> None:
    from residapt_bench.report.paper import all_parts
    from residapt_bench.report.paper_runs import read_lab

    view.parts(all_parts(read_lab(EXPERIMENTS, RESULTS)))


def _sheet(view: View) -> None:
    from residapt_bench.drones.render.compare import comparison, contact_sheet
    from residapt_bench.drones.render.standin import load_standin

    tensors, _ = load_standin(data_root(view.data), view.cache)
    sets = {
        name: tensors[key].squeeze(1).numpy()
        for name, key in (("drawn (source)", "synthetic"), ("photographed (training)", "train drone"))
    }
    out = view.out or Path("sheet.png")
    contact_sheet(sets, out)
    for number, *cells in comparison(sets):
        console.print(f"| {number} | {' | '.join(cells)} |", highlight=False, soft_wrap=True)
    console.print(f"Wrote {out}", highlight=False)


KINDS: dict[str, Callable[[list[Record], View], None]] = {
    "table": _table,
    "page": _page,
    "ranks": _ranks,
    "scores": _scores,
    "agreement": _agreement,
    "layers": _layers,
    "networks": _networks,
    "restarts": _restarts,
    "guard": _guard,
    "curves": _curves,
    "sweeps": _sweeps,
    "labels": _labels,
    "pareto": _pareto,
}
OTHER_RECORDS: dict[str, Callable[[list[str], View], None]] = {
    "growth": _growth,
    "ground": _ground,
    "ground-guard": _guard_of_ground,
    "newcomer": _newcomer,
    "ground-restarts": _restarts_of_ground,
}
"""Reports of records that are of another type."""
WITHOUT_RECORDS: dict[str, Callable[[View], None]] = {"paper": _paper, "sheet": _sheet}
"""Reports that take no names: of all experiments of the paper, and of the drawn images themselves."""
HELP = (
    "table (published and measured, with --out of detection tasks: put into a page), page (HTML), ranks (of every "
    "layer), scores (label-free), agreement (of seeds on unlabelled images), layers (choice by MMD), "
    "networks (the rule that chooses a source network, and its choice), restarts (best of five), guard (verdicts "
    "beside the labels), ground, ground-guard and ground-restarts (of the proving ground, "
    "with --out: put into a page), curves, sweeps, labels or growth (SVG); without names: paper (the tables of its "
    "page, with --out: put into it), sheet (drawn and photographed drones side by side)"
)


@app.command(epilog="Example: residapt bench report table svhn-mnist --markdown")
def report(
    kind: Annotated[str, typer.Argument(help=HELP)],
    names: OptionalNames = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write.")] = None,
    methods: Annotated[str, typer.Option(help="Methods of curves, separated by commas, or the one of ranks.")] = "",
    arch: Annotated[str, typer.Option(help="Network of curves and sweeps.")] = "lenet",
    note: Annotated[str, typer.Option(help="Note of curves of other recipes than the common one.")] = "",
    task: Annotated[str, typer.Option(help="Pair of networks.")] = "svhn-mnist",
    score: Annotated[str, typer.Option(help="Score of restarts; not given: the rule's, of paper-networks.")] = "",
    data: DataRoot = None,
    cache: Cache = CACHE,
) -> None:
    """Tables, pages and figures, from records only."""
    view = View(markdown, out, methods, arch, note, task, score, data, cache)
    if kind in WITHOUT_RECORDS:
        WITHOUT_RECORDS[kind](view)
    elif kind not in (*KINDS, *OTHER_RECORDS):
        kinds = ", ".join((*KINDS, *OTHER_RECORDS, *WITHOUT_RECORDS))
        raise ConfigError(f"there is no report '{kind}'; reports: {kinds}.")
    elif not names:
        raise ConfigError(f"report '{kind}' needs the name of an experiment, or a JSONL file of records.")
    elif kind in OTHER_RECORDS:
        OTHER_RECORDS[kind](names, view)
    else:
        KINDS[kind](records_of(names), view)
