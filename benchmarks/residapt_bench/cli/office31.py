"""``residapt bench office31`` and the page of its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from residapt.cli.app import console
from residapt.cli.options import AddressOption, EngineOption, JobsOption
from residapt.errors import ConfigError
from residapt_bench.cli.grid import DataRoot, data_root, records_of, tell_retry
from residapt_bench.cli.group import app

RECORDS = Path("benchmarks/results/office31.jsonl")
EXAMPLE = "Example: residapt bench office31 --pairs a-w,w-a,d-a --seeds 1 --jobs 2"


@app.command(epilog=EXAMPLE)
def office31(
    data: DataRoot = None,
    pairs: Annotated[str, typer.Option(help="Pairs of domains, separated by commas.")] = "a-w,w-a,d-a,a-d,d-w,w-d",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "source_only,dann_flip,rpt_fixed,rpt",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    steps: Annotated[int | None, typer.Option(min=0, help="Adaptation steps; the recipe's when not given.")] = None,
    freeze: Annotated[str | None, typer.Option(help="Last frozen stage, for instance blocks.4.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change one setting: key=value; network.* and warm.* are this benchmark's own."),
    ] = None,
    note: Annotated[str, typer.Option(help="Name of a sweep or an ablation; part of the record.")] = "",
    tries: Annotated[int, typer.Option(min=1, help="Settings tried before, for the record.")] = 1,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSONL file of the records.")] = RECORDS,
    cache: Annotated[Path, typer.Option(help="Folder for decoded images, activations and source networks.")] = Path(
        "run-bench"
    ),
) -> None:
    """Office-31, six pairs, fully transductive: the paper's table for very deep networks."""
    from residapt.parallel import make_engine
    from residapt_bench.office31.execute import run_office
    from residapt_bench.office31.plans import OfficeNetwork, OfficeSource, office_plans

    own, others = _split(changes or [])
    if freeze is not None:
        own["network"]["freeze"] = freeze
    if steps is not None:
        others.append(f"train.steps={steps}")
    plans = office_plans(
        _listed(pairs, "--pairs"),
        _listed(methods, "--methods"),
        range(first_seed, first_seed + seeds),
        network=OfficeNetwork.parse(own["network"], where="network"),
        source=OfficeSource.parse(own["warm"], where="warm"),
        changes=others,
        note=note,
        tries=tries,
    )
    run_office(
        plans,
        out=out,
        root=data_root(data),
        cache=cache,
        engine=make_engine(engine, jobs=jobs, address=address),
        on_retry=tell_retry,
        on_record=lambda record: console.print(_line(record), highlight=False),
    )


def _listed(text: str, option: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise ConfigError(f"{option} {text!r}: name at least one.")
    return names


def _split(changes: list[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Settings of the network and of the warm start, which only this benchmark has, and all others."""
    from residapt.config import parse_override

    own: dict[str, dict[str, Any]] = {"network": {}, "warm": {}}
    others = []
    for text in changes:
        group, dot, key = text.partition(".")
        if dot and group in own:
            own[group].update(parse_override(key))
        else:
            others.append(text)
    return own, others


def _line(record: dict[str, Any]) -> str:
    plan, target = record["plan"], record["accuracy"]["target"]
    return f"{plan['task']} {plan['method']} seed {plan['seed']}: target {target:.1f} %, {record['seconds']} s"


@app.command("office31-table", epilog="Example: residapt bench office31-table --markdown")
def office31_table(
    files: Annotated[list[Path] | None, typer.Argument(help="JSONL files of records.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False,
) -> None:
    """Published and measured accuracies of the six pairs side by side, from records only."""
    from residapt_bench.office31.table import office_markdown, office_rich, office_rows

    rows = office_rows(records_of(files or [RECORDS]))
    console.print(office_markdown(rows) if markdown else office_rich(rows), highlight=False, soft_wrap=markdown)


@app.command("office31-page", epilog="Example: residapt bench office31-page -o office31.html")
def office31_page(
    files: Annotated[list[Path] | None, typer.Argument(help="JSONL files of records.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("office31.html"),
) -> None:
    """One self-contained HTML page: table, curves and ranks of every layer, from records only."""
    from residapt.report.page import write_page
    from residapt_bench.office31.page import office_page

    write_page(out, office_page(records_of(files or [RECORDS])))
    console.print(f"Wrote {out}", highlight=False)
