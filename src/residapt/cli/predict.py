"""``residapt predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from residapt.cli.app import app, messages
from residapt.cli.options import (
    BaseOption,
    BatchOption,
    DeviceOption,
    OverwriteOption,
    QuietOption,
    RunArgument,
    TrustOption,
)
from residapt.cli.progress import image_progress, list_unreadable, standard_output
from residapt.data.image_files import require_folder
from residapt.storage.atomic import refuse_existing
from residapt.storage.run_directory import check_result

if TYPE_CHECKING:
    from residapt.deploy import DeployedDomains, DeployedModel

_FORMATS: dict[str | None, Literal["csv", "jsonl"] | None] = {None: None, "csv": "csv", "jsonl": "jsonl"}


def _check_domains(adapters: Path | None, domain_from: str | None, base: Path | None) -> None:
    """Refuse one of two options that belong together, and a base beside the one that is the base."""
    from residapt.errors import ConfigError

    if domain_from not in (None, "folder"):
        raise ConfigError(f"--domain-from must be folder, got {domain_from!r}.")
    if (adapters is None) != (domain_from is None):
        raise ConfigError("--adapters and --domain-from belong together: give both, or neither.")
    if adapters is not None and base is not None:
        raise ConfigError("--base is not needed with --adapters: the first argument is their base.")


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
    adapters: Annotated[
        Path | None,
        typer.Option("--adapters", help="Folder of adapters, one folder for each domain; RUN then names their base."),
    ] = None,
    domain_from: Annotated[
        str | None,
        typer.Option("--domain-from", help="folder: the first folder of an image's path names its domain."),
    ] = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict the class of every image: path, class and probability. Unreadable images are listed."""
    from residapt.errors import ConfigError

    if form not in _FORMATS:
        raise ConfigError(f"--format must be csv or jsonl, got {form!r}.")
    rows_as = _FORMATS[form]
    _check_domains(adapters, domain_from, base)
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    if adapters is None:
        check_result(run)
    if not images.is_file():
        require_folder(images)
    from residapt.deploy import load_domains, load_run, predict_folder, print_predictions, write_predictions

    deployed: DeployedModel | DeployedDomains
    if adapters is None:
        deployed = load_run(run, base=base, device=device, trust_code=trust_code)
    else:
        deployed = load_domains(run, adapters, device=device, trust_code=trust_code)
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
