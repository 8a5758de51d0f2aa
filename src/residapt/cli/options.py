"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import messages


def _be_quiet(quiet: bool) -> bool:
    messages.quiet = quiet
    return quiet


QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only the result and errors: no progress, no notes.", callback=_be_quiet)
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON; progress and notes go to the standard error stream.")
]
RunArgument = Annotated[Path, typer.Argument(help="Run directory, adapter folder or model.safetensors.")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="Images in memory at a time.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
BaseOption = Annotated[
    Path | None,
    typer.Option("--base", help="Weights of the base network, or its run, for an adapter that does not carry them."),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
TrustOption = Annotated[
    bool,
    typer.Option("--trust-code", help="Run the code that a file names as its network (package.module:factory)."),
]
SMALLEST_SEED, LARGEST_SEED = -(2**63), 2**62
"""Seeds have 64 bits; there is room above the first one for those that follow."""
EngineOption = Annotated[
    str, typer.Option("--engine", help="local: processes of this machine; ray: a Ray cluster, of one machine or many.")
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="How many at a time; by default 1, with Ray as many as it has processors."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="Ray cluster to join, HOST:PORT or auto; without it one is started here."),
]
