"""``residapt bench uav``, ``residapt bench drone-standin`` and the tables and figures of their records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residapt.cli.app import console
from residapt.cli.options import AddressOption, EngineOption, JobsOption
from residapt.errors import ConfigError
from residapt_bench.cli.grid import DataRoot, data_root, records_of, tell_retry
from residapt_bench.cli.group import app
from residapt_bench.cli.records import write_figure

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = Path("benchmarks/results/drone-standin.jsonl")
TRIES = Path("benchmarks/results/drone-standin-tries.jsonl")
ALL = "source_only,fine_tune,pooled,dann_flip,adda,two_stream,rpt_fixed,rpt"
Methods = Annotated[str, typer.Option(help="Methods, separated by commas.")]
Labels = Annotated[str, typer.Option(help="Numbers of labelled real drones, separated by commas.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds.")]
FirstSeed = Annotated[int, typer.Option(help="The first seed.")]
Steps = Annotated[int | None, typer.Option(min=0, help="Adaptation steps; the benchmark's when not given.")]
SourceSteps = Annotated[int, typer.Option(min=0, help="Steps of training on the source before.")]
Validation = Annotated[
    bool, typer.Option("--validation", help="Score a held-out part of the training photographs, to choose settings.")
]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")]
Chosen = Annotated[
    Path | None, typer.Option(help="Records of tries (--validation): each method takes the settings of its best one.")
]
Note = Annotated[str, typer.Option(help="Name of a sweep or an ablation; part of the record.")]
Tries = Annotated[int, typer.Option(min=1, help="Settings tried before, for the record.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="JSONL file of the records.")]
Cache = Annotated[Path, typer.Option(help="Folder for patches and trained source networks.")]
CACHE = Path("run-bench")


def _grid_command(task: str, prepare: Callable[[Path, Path], None]) -> Callable[..., None]:
    """The command of one detection benchmark; both have the same options."""

    def command(
        data: DataRoot = None,
        methods: Methods = ALL,
        labels: Labels = "200",
        seeds: Seeds = 5,
        first_seed: FirstSeed = 0,
        steps: Steps = None,
        source_steps: SourceSteps = 1000,
        validation: Validation = False,
        chosen: Chosen = None,
        changes: Changes = None,
        note: Note = "",
        tries: Tries = 1,
        engine: EngineOption = "local",
        jobs: JobsOption = None,
        address: AddressOption = None,
        out: Out = None,
        cache: Cache = CACHE,
    ) -> None:
        from residapt.parallel import make_engine
        from residapt_bench.digits.plan import SourceRecipe
        from residapt_bench.drones.execute import run_detection
        from residapt_bench.drones.plans import best_tries, detection_plans

        plans = detection_plans(
            task,
            [name for name in methods.split(",") if name],
            range(first_seed, first_seed + seeds),
            labels=numbers(labels),
            changes=[*(changes or ()), *([] if steps is None else [f"train.steps={steps}"])],
            source=SourceRecipe(steps=source_steps, batch_size=64),
            part="validation" if validation else "test",
            chosen=None if chosen is None else best_tries(records_of([chosen])),
            note=note,
            tries=tries,
        )
        root = data_root(data)
        prepare(root, cache)
        run_detection(
            plans,
            out=out or Path("benchmarks/results") / f"{task}.jsonl",
            root=root,
            cache=cache,
            engine=make_engine(engine, jobs=jobs, address=address),
            on_retry=tell_retry,
            on_record=lambda record: console.print(_line(record), highlight=False),
        )

    return command


@app.command("drone-sheet", epilog="Example: residapt bench drone-sheet --data DIR -o sheet.png")
def drone_sheet(
    data: DataRoot = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="PNG file to write.")] = Path("sheet.png"),
    cache: Cache = CACHE,
) -> None:
    """Drawn and photographed drones side by side, and numbers that compare them."""
    from residapt_bench.drones.render.compare import comparison, contact_sheet
    from residapt_bench.drones.render.standin import load_standin

    tensors, _ = load_standin(data_root(data), cache)
    sets = {
        name: tensors[key].squeeze(1).numpy()
        for name, key in (("drawn (source)", "synthetic"), ("photographed (training)", "train drone"))
    }
    contact_sheet(sets, out)
    for number, *cells in comparison(sets):
        console.print(f"| {number} | {' | '.join(cells)} |", highlight=False, soft_wrap=True)
    console.print(f"Wrote {out}", highlight=False)


@app.command("drone-table", epilog="Example: residapt bench drone-table --figure docs/drones.svg")
def drone_table(
    files: Annotated[list[Path] | None, typer.Argument(help="JSONL files of records.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw AP against the number of labels into this SVG.")] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the tables in this Markdown page.")] = None,
) -> None:
    """Tables of a detection benchmark as Markdown: average precision, labels, ranks, tries; from records only."""
    from residapt_bench.drones.figure import label_figure
    from residapt_bench.drones.tables import all_tables, fill_in

    records = records_of(files or [path for path in (RECORDS, TRIES) if path.is_file()] or [RECORDS])
    tables = all_tables(records)
    for made in tables.values():
        console.print(made, highlight=False, soft_wrap=True, markup=False)
    if figure is not None:
        write_figure(figure, label_figure(records))
        where = os.path.relpath(figure, page.parent if page else ".")
        tables["figure"] = f"![Average precision against the number of labelled drones]({where})\n"
    if page is not None:
        if not page.is_file():
            raise ConfigError(f"there is no page '{page}'.")
        page.write_text(fill_in(page.read_text(encoding="utf-8"), tables, str(page)), encoding="utf-8")
        console.print(f"Wrote {page}", highlight=False)


def numbers(text: str) -> list[int]:
    """Whole numbers of 0 or more, separated by commas."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [-1]
    if min(found) < 0:
        raise ConfigError(f"--labels {text!r}: give numbers of 0 or more, separated by commas, for instance 0,10,50.")
    return found


def _draw_first(root: Path, cache: Path) -> None:
    """Draw the stand-in's patches, where they are not there yet, and say so."""
    from residapt_bench.drones.render.standin import load_standin

    def tell(name: str, done: int, total: int) -> None:
        if done % 1000 == 0 or done == total:
            console.print(f"drawing {name}: {done} of {total}", highlight=False)

    load_standin(root, cache, on_count=tell)


def _line(record: dict[str, Any]) -> str:
    plan = record["plan"]
    found = ", ".join(f"{name} AP {value:.3f}" for name, value in record["ap"].items())
    return f"{plan['method']} {record['labelled']} labels seed {plan['seed']}: {found}, {record['seconds']} s"


for _task, _help, _prepare in (
    (
        "uav",
        "UAV-200 from its folders (docs/uav.md): the paper's Table 5, by average precision.",
        lambda root, cache: None,
    ),
    (
        "drone-standin",
        "A stand-in for UAV-200 from real photographs and drawn drones (docs/drones.md), by average precision.",
        _draw_first,
    ),
):
    _example = f"Example: residapt bench {_task} --data DIR --methods fine_tune,rpt --seeds 5"
    app.command(_task, help=_help, epilog=_example)(_grid_command(_task, _prepare))
