"""``residapt bench speed``: time and memory of a step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from residapt.cli.app import console
from residapt.errors import ConfigError
from residapt_bench.cli.group import app

if TYPE_CHECKING:
    from rich.table import Table

WHAT = ("steps", "growth", "lora", "parts", "compile", "data", "views", "limit")


@app.command(epilog="Example: residapt bench speed steps --case lenet --rounds 40 -o benchmarks/results/speed.jsonl")
def speed(
    what: Annotated[
        str,
        typer.Argument(
            help="steps (RPT beside DANN), growth (with rank, batch and depth), lora (beside peft's LoRA), parts "
            "(what goes beyond the paper), compile (torch.compile), data (reading photographs), views (memory of "
            "frozen stages' outputs), limit (whether the time allowed is kept)"
        ),
    ] = "steps",
    case: Annotated[
        list[str] | None,
        typer.Option(
            help="lenet, svhnet, resnet50, resnet50_112 or vit_s; of growth rank, batch or depth; of limit minutes."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 20,
    method: Annotated[str, typer.Option(help="Method that the parts are added to.")] = "rpt",
    pixels: Annotated[int, typer.Option(min=32, help="Height and width of the images, for growth.")] = 224,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads, for steps: on a busy machine several wait for each other.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=1000, help="Images, for data (50,000 if not given) and views (4,000).")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where they are kept; a temporary folder otherwise.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
) -> None:
    """Time and memory of a training step, interleaved with what it is compared with, as ratios."""
    if what not in WHAT:
        raise ConfigError(f"there is no measurement '{what}'; measurements: {', '.join(WHAT)}.")
    if what in ("data", "views", "limit"):
        console.print(_of_a_run(what, images, folder, case or [], rounds, out))
        return
    console.print(_measured(what, case or [], rounds, method, pixels, threads, out))


def _of_a_run(
    what: str, images: int | None, folder: Path | None, cases: list[str], rounds: int, out: Path | None
) -> Table:
    from residapt_bench.speed import limit, reading, views

    if what == "data":
        return reading.reading_table(reading.run_reading(images or reading.IMAGES, folder, rounds, out))
    if what == "views":
        return views.views_table(views.run_views(images or views.IMAGES, out))
    return limit.limit_table(limit.run_limit([_number(each) for each in cases], out))


def _measured(
    what: str, cases: list[str], rounds: int, method: str, pixels: int, threads: int | None, out: Path | None
) -> Table:
    from residapt_bench.speed import compiled, growth, lora, parts, steps
    from residapt_bench.speed.cases import CASES

    if what == "steps":
        return steps.speed_table(steps.run_speed(tuple(cases or CASES), rounds, out, threads))
    if what == "compile":
        return compiled.compiled_table(compiled.run_compiled(cases, rounds, out))
    if what == "growth":
        return growth.growth_table(growth.run_growth(cases or list(growth.AXES), pixels=pixels, rounds=rounds, out=out))
    if what == "lora":
        return lora.lora_table(lora.run_lora(lora.LoraCase(), rounds, out))
    return parts.parts_table(parts.run_parts(cases[0] if cases else "lenet", method, rounds, out))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--case {text}: give a number of minutes.") from None
