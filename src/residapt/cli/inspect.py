"""``residapt inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from residapt.cli.app import app, console, show_json
from residapt.cli.options import JsonOption, RunArgument
from residapt.storage.run_directory import check_result

if TYPE_CHECKING:
    from residapt.deploy import Inspection

LEGEND = (
    "Ranks are [l, r]: the number of output and input directions in which the domains differ. [0, 0]: a shared layer."
)


@app.command(epilog="Example: residapt inspect run/")
def inspect(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show layers, ranks, parameters and sizes of a run, an adapter or a model file."""
    check_result(run)  # before torch is loaded
    from residapt.deploy import inspect_run

    found = inspect_run(run)
    if as_json:
        show_json(found)
        return
    for line in summary_lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if found.layers:
        console.print(layer_table(found))
        console.print(LEGEND, markup=False, highlight=False, soft_wrap=True)
    console.print(file_table(found))


def summary_lines(found: Inspection) -> list[str]:
    """Network, method, classes and input in a few lines."""
    data = found.metadata
    shown = ", ".join(data.classes[:10]) + (f" and {len(data.classes) - 10} more" if len(data.classes) > 10 else "")
    lines = [
        f"network: {data.model or 'given as a module'}, {found.network_parameters:,} parameters and statistics",
        f"method: {data.method}, residapt {data.version}",
        f"classes ({len(data.classes)}): {shown}",
    ]
    if data.input is not None:
        form = data.input
        lines.append(f"input: {form.size}x{form.size}, {form.channels} channel(s), {form.interpolation}")
    if found.base is not None:
        carried = {"included": "source weights that changed are included", "reference": "needs its base network"}
        lines.append(f"adapter: {found.adapter_parameters:,} parameters ({found.share:.1f} %), {carried[found.base]}")
    return lines


def layer_table(found: Inspection) -> Table:
    """A row for each transformed layer."""
    table = Table("layer", title="Transformed layers")
    for column in ("matrix", "rank before", "rank after", "parameters"):
        table.add_column(column, justify="right")
    for layer in found.layers:
        shape = f"{layer.shape[0]} x {layer.shape[1]}"
        before, after = (escape(f"[{left}, {right}]") for left, right in (layer.before, layer.ranks))
        table.add_row(escape(layer.name), shape, before, after, f"{layer.parameters:,}")
    return table


def file_table(found: Inspection) -> Table:
    """Sizes on disk."""
    from residapt.report.words import megabytes

    table = Table("file", title="On disk")
    table.add_column("size", justify="right")
    for name, size in found.files.items():
        table.add_row(escape(name), megabytes(size))
    if len(found.files) > 1:
        table.add_row("all", megabytes(sum(found.files.values())), style="bold")
    return table
