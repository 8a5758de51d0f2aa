"""``residapt bench run``: execute what has no record yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.options import AddressOption, EngineOption, JobsOption
from residapt.errors import ConfigError
from residapt_bench.cli.group import CACHE, RESULTS, Cache, DataRoot, app, data_root, experiment_path, records_path


@app.command(epilog="Example: residapt bench run svhn-mnist --only rpt,dann_flip --seeds 0,1 --jobs 2")
def run(
    experiment: Annotated[str, typer.Argument(help="TOML file, or the name of one in benchmarks/experiments.")],
    data: DataRoot = None,
    only: Annotated[str, typer.Option(help="Some of its methods, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Some of its seeds, separated by commas.")] = "",
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that have no record.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSONL file of the records.")] = None,
    cache: Cache = CACHE,
) -> None:
    """Execute the runs of an experiment that have no record yet, and append their records."""
    from residapt.config import parse_override
    from residapt.parallel import make_engine
    from residapt.settings import merged
    from residapt_bench.experiment_file import read_experiment
    from residapt_bench.progress import write_line
    from residapt_bench.runner import pending, run_plans

    path = experiment_path(experiment)
    changed: dict[str, object] = {}
    for text in changes or ():
        changed = merged(changed, parse_override(text))
    wanted = read_experiment(path).only(listed(only), numbers(seeds))
    records = out or records_path(str(path))
    plans = wanted.plans(changed, RESULTS)
    if dry:
        for plan in pending(plans, records):
            write_line(plan.name(), None)
        return
    workers = make_engine(engine, jobs=jobs, address=address)
    run_plans(plans, out=records, root=data_root(data), cache=cache, engine=workers)


def listed(text: str) -> list[str]:
    """The parts of a list separated by commas."""
    return [name for name in text.split(",") if name]


def numbers(text: str) -> list[int]:
    """The whole numbers of such a list."""
    try:
        return [int(part) for part in listed(text)]
    except ValueError:
        raise ConfigError(f"--seeds {text!r}: give whole numbers separated by commas, for instance 0,1,2.") from None
