"""The table of the documentation page, from the registry and the committed records."""

from __future__ import annotations

from residapt_bench.proving_ground.registry import PAIRS
from residapt_bench.proving_ground.source_only import only_no_harm, recorded
from residapt_bench.proving_ground.store import recorded_sizes


def table() -> str:
    """All pairs in Markdown, by kind of shift."""
    sizes, figures = recorded_sizes(), recorded()
    lines = ["| pair | kind | network | what | source / target / scored | source only |", "|---|---|---|---|---|---|"]
    for spec in PAIRS.values():
        counted = " / ".join(f"{count:,}" for count in sizes.get(spec.name, ()))
        figure = f"{figures[spec.name]:.1f}" if spec.name in figures else ""
        figure += " AP" * (figure != "" and spec.metric == "average_precision") + " (no harm)" * only_no_harm(spec.name)
        variant = "" if spec.variant == "closed" else f" ({spec.variant})"
        lines.append(
            f"| `{spec.name}` | {spec.kind}{variant} | {spec.network} | {spec.description} | {counted} | {figure} |"
        )
    return "\n".join(lines)
