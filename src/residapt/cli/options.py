"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(help="Run directory, adapter folder or model.safetensors.")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="Images in memory at a time.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
BaseOption = Annotated[
    Path | None,
    typer.Option("--base", help="Weights of the base network, or its run, for an adapter that does not carry them."),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
