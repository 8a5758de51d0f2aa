"""``residapt bench speed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import console
from residapt_bench.cli.group import app
from residapt_bench.cli.records import write_figure


@app.command(epilog="Example: residapt bench speed --case lenet --rounds 40")
def speed(
    case: Annotated[
        list[str] | None, typer.Option(help="lenet, svhnet, resnet50 or vit_s; all when not given.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 30,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
) -> None:
    """Time and memory of a step of RPT against DANN, interleaved, as ratios."""
    from residapt_bench.speed.cases import CASES
    from residapt_bench.speed.steps import run_speed, speed_table

    console.print(speed_table(run_speed(tuple(case or CASES), rounds, out)))


@app.command(epilog="Example: residapt bench growth --axes rank,depth --rounds 10 -o growth.jsonl")
def growth(
    axes: Annotated[str, typer.Option(help="rank, batch, depth; separated by commas.")] = "rank,batch,depth",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 10,
    pixels: Annotated[int, typer.Option(min=32, help="Height and width of the images.")] = 224,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="SVG file with the plots.")] = None,
) -> None:
    """How time and memory of a step grow with rank, batch and depth, RPT against DANN on ResNets."""
    from residapt_bench.speed.growth import growth_figure, growth_table, run_growth

    points = run_growth([axis for axis in axes.split(",") if axis], pixels=pixels, rounds=rounds, out=out)
    console.print(growth_table(points))
    if figure is not None:
        write_figure(figure, growth_figure(points))


@app.command("growth-figure", epilog="Example: residapt bench growth-figure growth.jsonl -o docs/growth.svg")
def growth_figure_of(
    file: Annotated[Path, typer.Argument(help="Records of residapt bench growth.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="SVG file to write.")] = Path("growth.svg"),
) -> None:
    """The plots of growth from records, without measuring again."""
    from residapt_bench.speed.growth import growth_figure, read_growth

    write_figure(out, growth_figure(read_growth(file)))


@app.command(epilog="Example: residapt bench lora --rounds 40 -o benchmarks/results/lora.jsonl")
def lora(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 20,
    size: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 16,
    rank: Annotated[int, typer.Option(min=1, help="Rank of both.")] = 32,
    small: Annotated[bool, typer.Option(help="A tiny ViT at 32x32, to try the benchmark itself.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the record to this JSONL file.")] = None,
) -> None:
    """A supervised step on a frozen ViT-S beside peft's LoRA of the same rank, interleaved."""
    from residapt_bench.speed.lora import LoraCase, lora_table, run_lora

    console.print(lora_table(run_lora(LoraCase(size=size, rank=rank, small=small), rounds, out)))


@app.command(epilog="Example: residapt bench parts --case lenet --method rpt --rounds 30")
def parts(
    case: Annotated[str, typer.Option(help="lenet, svhnet, resnet50 or vit_s.")] = "lenet",
    method: Annotated[str, typer.Option(help="Method that the parts are added to.")] = "rpt",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds of 20 steps; the median counts.")] = 20,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
) -> None:
    """What prior, information maximisation and the other parts beyond the paper add to a step."""
    from residapt_bench.speed.parts import parts_table, run_parts

    console.print(parts_table(run_parts(case, method, rounds, out)))
