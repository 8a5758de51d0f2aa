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

WHAT = ("steps", "growth", "lora", "parts", "compile", "data")


@app.command(epilog="Example: residapt bench speed steps --case lenet --rounds 40 -o benchmarks/results/speed.jsonl")
def speed(
    what: Annotated[
        str,
        typer.Argument(
            help="steps (RPT beside DANN), growth (with rank, batch and depth), lora (beside peft's LoRA), parts "
            "(what goes beyond the paper), compile (torch.compile), data (reading photographs)"
        ),
    ] = "steps",
    case: Annotated[
        list[str] | None,
        typer.Option(help="lenet, svhnet, resnet50, resnet50_112 or vit_s; of growth rank, batch or depth."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 20,
    method: Annotated[str, typer.Option(help="Method that the parts are added to.")] = "rpt",
    pixels: Annotated[int, typer.Option(min=32, help="Height and width of the images, for growth.")] = 224,
    images: Annotated[int, typer.Option(min=1000, help="Photographs that are rendered, for data.")] = 50_000,
    folder: Annotated[Path | None, typer.Option(help="Where they are kept; a temporary folder otherwise.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
) -> None:
    """Time and memory of a training step, interleaved with what it is compared with, as ratios."""
    if what not in WHAT:
        raise ConfigError(f"there is no measurement '{what}'; measurements: {', '.join(WHAT)}.")
    if what == "data":
        from residapt_bench.speed import reading

        console.print(reading.reading_table(reading.run_reading(images, folder, rounds, out)))
        return
    console.print(_measured(what, case or [], rounds, method, pixels, out))


def _measured(what: str, cases: list[str], rounds: int, method: str, pixels: int, out: Path | None) -> Table:
    from residapt_bench.speed import compiled, growth, lora, parts, steps
    from residapt_bench.speed.cases import CASES

    if what == "steps":
        return steps.speed_table(steps.run_speed(tuple(cases or CASES), rounds, out))
    if what == "compile":
        return compiled.compiled_table(compiled.run_compiled(cases, rounds, out))
    if what == "growth":
        return growth.growth_table(growth.run_growth(cases or list(growth.AXES), pixels=pixels, rounds=rounds, out=out))
    if what == "lora":
        return lora.lora_table(lora.run_lora(lora.LoraCase(), rounds, out))
    return parts.parts_table(parts.run_parts(cases[0] if cases else "lenet", method, rounds, out))
