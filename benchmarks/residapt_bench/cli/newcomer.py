"""``residapt bench newcomer``: what a new user's command takes and comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.errors import ConfigError
from residapt_bench.cli.group import CACHE, RESULTS, Cache, DataRoot, app, data_root


@app.command(epilog="Example: residapt bench newcomer --pairs amazon-webcam --seeds 0,1,2 --data DIR")
def newcomer(
    data: DataRoot = None,
    pairs: Annotated[str, typer.Option(help="Pairs of Office-31, separated by commas; all if not given.")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    image_size: Annotated[int, typer.Option("--image-size", help="Height and width in pixels.")] = 128,
    freeze: Annotated[str | None, typer.Option("--freeze", help="As residapt adapt takes it.")] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Time allowed.")] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="As residapt adapt takes it.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSONL file of the records.")] = RESULTS / "newcomer.jsonl",
    cache: Cache = CACHE,
) -> None:
    """Run residapt adapt on Office-31 as a new user types it, and append time and accuracy; runs what is missing."""
    from residapt_bench.cli.run import listed, numbers
    from residapt_bench.newcomer import DOMAINS, NewcomerRun, run_missing
    from residapt_bench.progress import write_line

    known = [f"{a}-{b}" for a in DOMAINS for b in DOMAINS if a != b]
    wanted = listed(pairs) or known
    if unknown := [pair for pair in wanted if pair not in known]:
        raise ConfigError(f"there is no pair '{unknown[0]}'. Give some of: {', '.join(known)}.")
    options = {"image_size": image_size, "freeze": freeze, "minutes": minutes, "recipe": recipe}
    runs = [
        NewcomerRun.parse({"source": source, "target": target, "seed": seed, **options})
        for source, _, target in (pair.partition("-") for pair in wanted)
        for seed in numbers(seeds)
    ]
    for one in run_missing(runs, out, data_root(data), cache):
        text = f"{one.source_only:.1f} % -> {one.adapted:.1f} %, {one.usage.seconds / 60:.1f} minutes"
        write_line(f"{one.run.name()}, seed {one.run.seed}: {text}", out.with_suffix(".log"))
