"""``residapt bench svhn-mnist`` and its kind, and ``residapt bench table``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residapt.cli.app import console, messages
from residapt.cli.options import LARGEST_SEED, SMALLEST_SEED, AddressOption, EngineOption, JobsOption
from residapt.errors import ConfigError
from residapt_bench.cli.group import app

if TYPE_CHECKING:
    from collections.abc import Iterable

    from residapt_bench.digits.plan import Plan

RESULTS = Path("benchmarks/results")
DataRoot = Annotated[
    Path | None, typer.Option("--data", help="Folder with the data sets; RESIDAPT_DATA when not given.")
]


def grid_command(task: str, title: str) -> None:
    """Register one command for a task."""

    @app.command(task, help=title, epilog=f"Example: residapt bench {task} --methods dann_flip,rpt --seeds 5 --jobs 2")
    def run(
        data: DataRoot = None,
        arch: Annotated[str, typer.Option(help="Network: lenet, svhnet, dtn, ...")] = "lenet",
        methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "source_only,dann_flip,rpt",
        seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
        first_seed: Annotated[int, typer.Option(min=SMALLEST_SEED, max=LARGEST_SEED, help="The first seed.")] = 0,
        recipe: Annotated[
            str, typer.Option(help="common or plus: one for all methods (rpt+ is rpt by plus); own: as published.")
        ] = "common",
        counts: Annotated[str, typer.Option(help="Images: all, balanced classes, or a skewed target.")] = "all",
        steps: Annotated[
            int | None, typer.Option(min=0, help="Adaptation steps of each run; the recipe's when not given.")
        ] = None,
        source_steps: Annotated[
            int | None, typer.Option(min=0, help="Steps of the warm start on the source; the recipe's when not given.")
        ] = None,
        engine: EngineOption = "local",
        jobs: JobsOption = None,
        address: AddressOption = None,
        vary: Annotated[str, typer.Option(help="What a seed changes: all, or order.")] = "all",
        note: Annotated[str, typer.Option(help="Name of a sweep or an ablation; part of the record.")] = "",
        tries: Annotated[int, typer.Option(min=1, help="Settings tried before, for the record.")] = 1,
        changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
        each: Annotated[
            list[str] | None,
            typer.Option(help="A try of its own with these settings (key=value key=value), which become its note."),
        ] = None,
        drawn: Annotated[
            int, typer.Option(min=0, help="So many tries with settings drawn at random, the same for all methods.")
        ] = 0,
        out: Annotated[Path | None, typer.Option("--out", "-o", help="JSONL file of the records.")] = None,
        cache: Annotated[Path, typer.Option(help="Folder for trained source networks.")] = Path("run-bench"),
    ) -> None:
        from residapt_bench.digits.random_settings import drawn_settings
        from residapt_bench.digits.recipe_plans import each_setting, recipe_plans

        if vary not in ("all", "order"):
            raise ConfigError(f"--vary {vary!r}: use 'all' or 'order'.")
        if counts not in ("all", "balanced", "skewed"):
            raise ConfigError(f"--counts {counts!r}: use 'all', 'balanced' or 'skewed'.")
        plans = [
            plan
            for seed in range(first_seed, first_seed + seeds)
            for changed, named in each_setting([*(each or ()), *drawn_settings(seed, drawn)], changes or (), note)
            for plan in recipe_plans(
                task,
                arch,
                [name for name in methods.split(",") if name],
                [seed],
                recipe=recipe,
                steps=steps,
                source_steps=source_steps,
                changes=changed,
                varied=vary,
                counts=counts,
                note=named,
                tries=tries,
            )
        ]
        _run(plans, out or RESULTS / f"{task}.jsonl", data, cache, engine, jobs, address)


def _run(
    plans: Iterable[Plan],
    out: Path,
    data: Path | None,
    cache: Path,
    engine: str,
    jobs: int | None,
    address: str | None,
) -> None:
    """Run what has no record yet, and say what each run came to."""
    from residapt.parallel import make_engine
    from residapt_bench.digits.grid import run_grid

    run_grid(
        plans,
        out=out,
        root=data_root(data),
        cache=cache,
        engine=make_engine(engine, jobs=jobs, address=address),
        on_record=lambda record: console.print(_line(record), highlight=False),
        on_retry=tell_retry,
    )


def tell_retry(text: str) -> None:
    """Say that a worker died and its run is tried again."""
    messages.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def data_root(given: Path | None) -> Path:
    """The data folder, from the option or the environment."""
    found = given or (Path(os.environ["RESIDAPT_DATA"]) if os.environ.get("RESIDAPT_DATA") else None)
    if found is None:
        raise ConfigError("where is the data? Give --data FOLDER, or set RESIDAPT_DATA.")
    if not found.is_dir():
        raise ConfigError(f"data folder '{found}' does not exist.")
    return found


def _line(record: dict[str, object]) -> str:
    plan, scores = record["plan"], record["accuracy"]
    return f"{plan['method']} seed {plan['seed']}: target test {scores['target_test']:.1f} %, {record['seconds']} s"  # type: ignore[index]


def records_of(files: list[Path]) -> list[dict[str, Any]]:
    """The records of files that must exist."""
    from residapt_bench.resumable import read_records

    for file in files:
        if not file.is_file():
            raise ConfigError(f"there is no file '{file}'.")
    return read_records(files)


@app.command(epilog="Example: residapt bench layers --task svhn-mnist --arch lenet --steps 1000")
def layers(
    data: DataRoot = None,
    task: Annotated[str, typer.Option(help="svhn-mnist, svhn-usps, mnist-usps or usps-mnist.")] = "svhn-mnist",
    arch: Annotated[str, typer.Option(help="Network.")] = "lenet",
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 1000,
    seed: Annotated[int, typer.Option(min=SMALLEST_SEED, max=LARGEST_SEED, help="Seed of all runs.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSONL file of the records.")] = None,
    cache: Annotated[Path, typer.Option(help="Folder for trained source networks.")] = Path("run-bench"),
) -> None:
    """Which layers the two-stream network separates: a short run of every combination, the lowest MMD wins."""
    from residapt_bench.digits.layer_runs import layer_plans, layer_table

    records = out or RESULTS / f"{task}-layers.jsonl"
    plans = layer_plans(task, arch, seed=seed, steps=steps, changes=changes or ())
    _run(plans, records, data, cache, engine, jobs, address)
    console.print(layer_table(records_of([records])), highlight=False, soft_wrap=True, markup=False)


@app.command(epilog="Example: residapt bench table benchmarks/results/*.jsonl --markdown")
def table(
    files: Annotated[list[Path], typer.Argument(help="JSONL files of records.")],
    markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False,
) -> None:
    """Published and measured accuracies side by side, from records only."""
    from residapt_bench.report.table import markdown_table, rich_tables, rows_of

    rows = rows_of(records_of(files))
    console.print(markdown_table(rows) if markdown else rich_tables(rows), highlight=False, soft_wrap=markdown)


@app.command(epilog="Example: residapt bench page benchmarks/results/svhn-mnist.jsonl -o svhn-mnist.html")
def page(
    files: Annotated[list[Path], typer.Argument(help="JSONL files of records.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("bench.html"),
) -> None:
    """One self-contained HTML page: table, curves, ranks and sweeps, from records only."""
    from residapt.report.page import write_page
    from residapt_bench.report.page import bench_page

    records = records_of(files)
    write_page(out, bench_page(records, " and ".join(sorted({record["plan"]["task"] for record in records}))))
    console.print(f"Wrote {out}", highlight=False)


for _task, _title in (
    ("svhn-mnist", "SVHN to MNIST: the paper's Tables 3 and 4."),
    ("svhn-usps", "SVHN to USPS: no published table; to choose settings on another pair than the reported one."),
    ("mnist-usps", "MNIST to USPS."),
    ("usps-mnist", "USPS to MNIST."),
):
    grid_command(_task, _title)
