"""``residapt predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from residapt.cli.app import app, messages
from residapt.cli.options import BaseOption, BatchOption, DeviceOption, OverwriteOption, RunArgument, TrustOption
from residapt.cli.progress import image_progress, list_unreadable, standard_output
from residapt.data.image_files import require_folder
from residapt.storage.atomic import refuse_existing
from residapt.storage.run_directory import check_result

_FORMATS: dict[str | None, Literal["csv", "jsonl"] | None] = {None: None, "csv": "csv", "jsonl": "jsonl"}


@app.command(epilog="Example: residapt predict run/ images/ -o predictions.csv")
def predict(
    run: RunArgument,
    images: Annotated[Path, typer.Argument(help="Folder of images, at any depth, or one image.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file; by default the rows are printed.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv or jsonl; by default from the name of the output file, otherwise csv."),
    ] = None,
    batch_size: BatchOption = 64,
    device: DeviceOption = "auto",
    base: BaseOption = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
) -> None:
    """Predict the class of every image: path, class and probability. Unreadable files are listed."""
    from residapt.errors import ConfigError

    if form not in _FORMATS:
        raise ConfigError(f"--format must be csv or jsonl, got {form!r}.")
    rows_as = _FORMATS[form]
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    check_result(run)
    if not images.is_file():
        require_folder(images)
    from residapt.deploy import load_run, predict_folder, print_predictions, write_predictions

    deployed = load_run(run, base=base, device=device, trust_code=trust_code)
    with image_progress("predicting") as on_images:
        rows = predict_folder(deployed, images, batch_size=batch_size, on_images=on_images)
        if out is None:
            with standard_output() as file:
                count = print_predictions(rows, file, rows_as or "csv")
        else:
            count = write_predictions(rows, out, form=rows_as, overwrite=overwrite)
    list_unreadable({bad.path: bad.reason for bad in count.unreadable})
    where = "" if out is None else f": {out}"
    messages.print(f"{count.images} images predicted{where}", markup=False, highlight=False, soft_wrap=True)
