"""The README's table of results, from committed records: ``python scripts/results_table.py`` writes it again.

``proving-ground.jsonl`` gives a row for each pair, ``demo.jsonl`` the row of the demonstration. Nothing is typed in.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- results: made by scripts/results_table.py -->", "<!-- end of results -->"
PAGE = "docs/research/proving-ground.md"
GROUND = "python -m residapt_bench.proving_ground list"
HEAD = ("| shift | source network | adapted | change |", "|---|---|---|---|")


def records(name: str) -> list[dict[str, Any]]:
    """The records of a file; none if nobody has made them."""
    file = RECORDS / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def row(what: str, pairs: list[tuple[float, float]]) -> str:
    """Means over the seeds."""
    before, after = (statistics.mean(column) for column in zip(*pairs, strict=True))
    seeds = f"{len(pairs)} seeds" if len(pairs) > 1 else "1 seed"
    return f"| {what} ({seeds}) | {before:.1f} | **{after:.1f}** | {after - before:+.1f} |"


def demonstration() -> list[str]:
    """Printed to handwritten digits, by ``residapt demo``."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for record in records("demo"):
        found[record["method"]][record["seed"]] = record["accuracy"]
    pairs = [(found["source_only"][seed], after) for seed, after in sorted(found["rpt"].items())]
    return [row("printed → handwritten digits, the paper's settings: `residapt demo --seeds 3 --threads 1`", pairs)]


def proving_ground() -> list[str]:
    """Each pair of the proving ground with the default recipe: what a user is handed, the guard's choice."""
    found = defaultdict(list)
    for record in records("proving-ground"):
        if record["run"]["recipe"] == "default" and record["metric"] == "accuracy":
            found[record["run"]["pair"]].append((record["source"], record["selected"]))
    return [row(pair, found[pair]) for pair in sorted(found)]


def results() -> str:
    """The table with what makes it."""
    ground = proving_ground()
    lines = [*HEAD, *demonstration(), *ground]
    if ground:
        lines += [
            "",
            f"Rows without a command: pairs of the [proving ground]({PAGE}), adapted with the defaults (`{GROUND}`).",
        ]
    return "\n".join(lines)


def with_results(text: str) -> str:
    """The README with the table of now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{results()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_results(readme.read_text(encoding="utf-8")), encoding="utf-8")
