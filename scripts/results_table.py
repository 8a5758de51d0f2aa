"""The README's table of results, from committed records: ``python scripts/results_table.py`` writes it again.

``proving-ground.jsonl`` gives a row for each pair, ``demo-default.jsonl`` the row of the demonstration; ``--add RUN``
adds a run of ``residapt demo --threads 1`` to the latter. Nothing is typed in.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from residapt_bench.proving_ground.grid import read_ground
from residapt_bench.proving_ground.grid_table import PairResults
from residapt_bench.proving_ground.grid_table import results as results_of
from residapt_bench.proving_ground.registry import PAIRS

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- results: made by scripts/results_table.py -->", "<!-- end of results -->"
PAGE = "docs/research/proving-ground.md"
GROUND = "residapt bench run proving-ground"
SHOWN = (
    "printed-mnist", "mnist-usps", "svhn-mnist", "mnist-clutter", "amazon-webcam", "webcam-amazon", "amazon-edges",
    "amazon-noise", "features-webcam-amazon", "series-drift",
)  # fmt: skip
"""Pairs of all kinds, named before their runs; the page has the others."""
HEAD = ("| shift | source network | adapted | change |", "|---|---|---|---|")


def records(name: str) -> list[dict[str, Any]]:
    """The records of a file; none if nobody has made them."""
    file = RECORDS / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def row(what: str, pairs: list[tuple[float, float]], count: int | None = None) -> str:
    """Means over the seeds."""
    before, after = (statistics.mean(column) for column in zip(*pairs, strict=True))
    count = count or len(pairs)
    seeds = f"{count} seeds" if count > 1 else "1 seed"
    return f"| {what} ({seeds}) | {before:.1f} | **{after:.1f}** | {after - before:+.1f} |"


def demonstration() -> list[str]:
    """Printed to handwritten digits, by ``residapt demo``: the network that was selected."""
    pairs = [(record["source"], record["selected"]) for record in records("demo-default")]
    return [row("printed → handwritten digits: `residapt demo`", pairs)] if pairs else []


def demo_record(run: Path) -> dict[str, Any]:
    """The record of a demonstration's run directory."""
    from residapt.config import load_config
    from residapt.storage.summary import read_summary

    summary = read_summary(run / "summary.json")
    seed = load_config(run / "config.toml").seed
    found = {one.stage: one for one in summary.accuracies}
    before, after = found["source_only"].percent, found["adapted"].percent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        "command": f"residapt demo --seed {seed} --threads 1",
        "seed": seed,
        "source": before,
        "adapted": after,
        "selected": after if summary.verdict.selected == "adapted" else before,
        "helped": summary.verdict.helped,
        "images": found["adapted"].images,
        "protocol": found["adapted"].protocol,
        "environment": {
            "residapt": summary.version,
            "torch": metadata.version("torch"),
            "python": platform.python_version(),
            "commit": commit.stdout.strip(),
        },
    }


def default_results() -> dict[str, PairResults]:
    """The pairs of the proving ground that have records of the default recipe, and of a plainly trained network."""
    found = results_of(read_ground(RECORDS / "proving-ground.jsonl"))
    return {one.pair: one for one in found if one.source is not None and "default" in one.by_recipe}


def proving_ground(known: Mapping[str, PairResults]) -> list[str]:
    """Some pairs with the default recipe: what a user is handed, the guard's choice."""
    lines = []
    for pair in SHOWN:
        found = known.get(pair)
        if found is not None and found.source is not None:
            count = len(found.by_recipe["default"].verdicts)
            lines.append(row(PAIRS[pair].description, [(found.source, found.by_recipe["default"].selected)], count))
    return lines


def all_pairs(known: Mapping[str, PairResults]) -> str:
    """How it went on all pairs with records, shown or not."""
    gains = {pair: found.gain("default") for pair, found in known.items()}
    least = min(gains, key=gains.__getitem__)
    better, worse = sum(gain > 0 for gain in gains.values()), sum(gain < 0 for gain in gains.values())
    return (
        f"On all {len(gains)} pairs with records of both networks so far, shown or not: better on {better}, worse on "
        f"{worse}, {statistics.mean(gains.values()):+.1f} points in the mean, {gains[least]:+.1f} at the least "
        f"(`{least}`)."
    )


def results() -> str:
    """The table with what makes it."""
    known = default_results()
    ground = proving_ground(known)
    lines = [*HEAD, *demonstration(), *ground]
    if ground:
        lines += [
            "",
            f"Rows without a command: `residapt adapt` without flags on some of [{len(PAIRS)} pairs]({PAGE}), "
            f"`{GROUND}`;",
            "the source network is one that was trained without random changes.",
            all_pairs(known),
        ]
    return "\n".join(lines)


def with_results(text: str) -> str:
    """The README with the table of now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{results()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Add a record if one is given; write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--add", type=Path, help="Run directory of residapt demo.")
    if (run := options.parse_args().add) is not None:
        with (RECORDS / "demo-default.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(demo_record(run)) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(with_results(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
