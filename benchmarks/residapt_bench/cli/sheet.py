"""``residapt bench sheet``: what the drawn drones look like beside photographed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import console
from residapt_bench.cli.group import CACHE, Cache, DataRoot, app, data_root


@app.command(epilog="Example: residapt bench sheet --data DIR -o sheet.png")
def sheet(
    data: DataRoot = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="PNG file to write.")] = Path("sheet.png"),
    cache: Cache = CACHE,
) -> None:
    """Drawn and photographed drones side by side, and numbers that compare them."""
    from residapt_bench.drones.render.compare import comparison, contact_sheet
    from residapt_bench.drones.render.standin import load_standin

    tensors, _ = load_standin(data_root(data), cache)
    sets = {
        name: tensors[key].squeeze(1).numpy()
        for name, key in (("drawn (source)", "synthetic"), ("photographed (training)", "train drone"))
    }
    contact_sheet(sets, out)
    for number, *cells in comparison(sets):
        console.print(f"| {number} | {' | '.join(cells)} |", highlight=False, soft_wrap=True)
    console.print(f"Wrote {out}", highlight=False)
