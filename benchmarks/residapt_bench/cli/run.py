"""``residapt bench run``: execute what has no record yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import console
from residapt.cli.options import AddressOption, EngineOption, JobsOption
from residapt.errors import ConfigError
from residapt_bench.cli.group import CACHE, RESULTS, Cache, DataRoot, app, data_root, experiment_path, records_path


@app.command(epilog="Example: residapt bench run svhn-mnist --only rpt,dann_flip --seeds 0,1 --jobs 2")
def run(
    names: Annotated[
        list[str], typer.Argument(help="TOML files, or names of those in benchmarks/experiments; one after the other.")
    ],
    data: DataRoot = None,
    only: Annotated[str, typer.Option(help="Some of its methods or recipes, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Some of its seeds, separated by commas.")] = "",
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep-networks",
            help="Afterwards keep the chosen source network and the oracle's beside the experiments, for other "
            "machines.",
        ),
    ] = False,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that have no record.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSONL file of the records.")] = None,
    cache: Cache = CACHE,
) -> None:
    """Execute the runs of experiments that have no record yet, and append their records."""
    from residapt.config import parse_override
    from residapt.parallel import make_engine
    from residapt.settings import merged
    from residapt_bench.experiment_file import read_experiment
    from residapt_bench.progress import write_line
    from residapt_bench.proving_ground.grid import GroundExperiment, is_ground, read_ground_experiment, run_ground
    from residapt_bench.runner import pending, run_plans

    changed: dict[str, object] = {}
    for text in changes or ():
        changed = merged(changed, parse_override(text))
    paths = [experiment_path(name) for name in names]
    readers = [read_ground_experiment if is_ground(path) else read_experiment for path in paths]
    experiments = [read(path).only(listed(only), numbers(seeds)) for read, path in zip(readers, paths, strict=True)]
    for path, experiment in zip(paths, experiments, strict=True):
        records = out or records_path(str(path))
        if isinstance(experiment, GroundExperiment):
            run_ground(experiment, changed, records, data_root(data), cache, dry=dry)
            continue
        plans = experiment.plans(changed, RESULTS)  # now, as it may read the records of the experiment before
        if dry:
            for plan in pending(plans, records):
                write_line(plan.name(), None)
            continue
        workers = make_engine(engine, jobs=jobs, address=address)
        run_plans(plans, out=records, root=data_root(data), cache=cache, engine=workers)
        if keep:
            _keep_networks(str(records), cache)


def _keep_networks(name: str, cache: Path) -> None:
    """Keep the network that the label-free rule chooses for each pair, and the one that labels choose."""
    from residapt.errors import DataError
    from residapt_bench.cli.group import records_of
    from residapt_bench.digits.network_choice import choose_network
    from residapt_bench.source_networks import keep_network

    records = records_of([name])
    for task in sorted({record.plan.task for record in records}):
        for choice in (choose_network(records, task), choose_network(records, task, by="labels")):
            if choice.sha256 is None:
                raise DataError(f"the records of '{name}' do not say which weights seed {choice.seed} has.")
            kept = keep_network(choice.sha256, cache)
            console.print(f"Kept {kept} ({task}, {choice.by}, seed {choice.seed})", highlight=False)


def listed(text: str) -> list[str]:
    """The parts of a list separated by commas."""
    return [name for name in text.split(",") if name]


def numbers(text: str) -> list[int]:
    """The whole numbers of such a list."""
    try:
        return [int(part) for part in listed(text)]
    except ValueError:
        raise ConfigError(f"--seeds {text!r}: give whole numbers separated by commas, for instance 0,1,2.") from None
