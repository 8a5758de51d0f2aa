"""``residapt export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import app, console
from residapt.cli.options import BaseOption, OverwriteOption, RunArgument, TrustOption
from residapt.storage.atomic import refuse_existing
from residapt.storage.run_directory import check_result


@app.command(epilog="Example: residapt export run/ --format onnx -o camera-7.onnx")
def export(
    run: RunArgument,
    form: Annotated[
        str, typer.Option("--format", "-f", help="onnx, torch-export, safetensors or state-dict.")
    ] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output file; by default target.onnx, target.pth, ... in the run directory."),
    ] = None,
    base: BaseOption = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
) -> None:
    """Export the selected network for other programs, and check that the file computes the same."""
    check_result(run)  # before torch is loaded
    from residapt.deploy import FORMATS, default_output, export_run, load_run
    from residapt.errors import ConfigError

    if form not in FORMATS:
        raise ConfigError(f"--format must be one of {', '.join(FORMATS)}, got {form!r}.")
    path = out or default_output(run, form)
    refuse_existing(path, overwrite=overwrite)
    done = export_run(load_run(run, base=base, trust_code=trust_code), form, path, overwrite=overwrite)
    check = (
        "the same tensors" if form in ("safetensors", "state-dict") else f"logits agree within {done.difference:.0e}"
    )
    console.print(
        f"{done.path} ({done.size / 1e6:.1f} MB, {form}; {check})", markup=False, highlight=False, soft_wrap=True
    )
