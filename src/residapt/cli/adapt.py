"""``residapt adapt``: two folders in, a network for the second one out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residapt.cli.app import app
from residapt.cli.options import JsonOption, QuietOption
from residapt.cli.progress import progress_console
from residapt.cli.result import show_lines, show_summary

if TYPE_CHECKING:
    from residapt.run import AdaptedRun
    from residapt.storage.summary import RunSummary

EXAMPLE = "Example: residapt adapt -s photos/ -t new_site/ -m timm:resnet50 -o run/"
RUNNING = ("residapt.run.api", "residapt.train", "residapt.methods", "residapt.streams")
"""What a run needs."""
DATA, NETWORK, TRAINING, RESULT = "Data", "Network", "Training", "Result"


def _option(*names: str, help: str, panel: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


@app.command(epilog=EXAMPLE)
def adapt(
    source: Annotated[
        Path | None,
        _option(
            "--source",
            "-s",
            help="Labelled images: folder of class folders, or CSV file (path,class).",
            panel=DATA,
        ),
    ] = None,
    target: Annotated[
        Path | None, _option("--target", "-t", help="Folder of unlabelled images, at any depth.", panel=DATA)
    ] = None,
    target_labels: Annotated[
        Path | None,
        _option("--target-labels", help="Labelled target images: CSV file (path,class) or class folders.", panel=DATA),
    ] = None,
    out: Annotated[Path | None, _option("--out", "-o", help="New folder for the result.", panel=RESULT)] = None,
    evaluate: Annotated[
        Path | None,
        _option("--evaluate", help="Like --source; scored at the end, never trained on.", panel=DATA),
    ] = None,
    positive: Annotated[
        str | None, _option("--positive", help="Positive class for average precision.", panel=DATA)
    ] = None,
    image_size: Annotated[int | None, _option("--image-size", help="Height and width in pixels.", panel=DATA)] = None,
    cache_gb: Annotated[
        float | None, _option("--cache-gb", help="Gigabytes of decoded images on disk; residapt cache.", panel=DATA)
    ] = None,
    model: Annotated[
        str | None,
        _option("--model", "-m", help="lenet, torchvision:NAME, timm:NAME, hf:NAME or module:factory.", panel=NETWORK),
    ] = None,
    weights: Annotated[
        str | None,
        _option("--weights", help="Weights to start from (.safetensors, .pth), or none.", panel=NETWORK),
    ] = None,
    base: Annotated[
        Path | None, _option("--base", help="Run or weights already trained on the source.", panel=NETWORK)
    ] = None,
    adapters: Annotated[
        Path | None,
        _option("--adapters", help="Adapters of the base; training starts from the nearest one.", panel=NETWORK),
    ] = None,
    layers: Annotated[
        str | None,
        _option("--layers", help="Layers to transform: name patterns, separated by commas.", panel=NETWORK),
    ] = None,
    freeze: Annotated[
        str | None,
        _option("--freeze", help="auto, none, base, or stages that neither stream changes: patterns.", panel=NETWORK),
    ] = None,
    method: Annotated[
        str | None, _option("--method", help="How to adapt; residapt methods lists them.", panel=TRAINING)
    ] = None,
    recipe: Annotated[
        str | None,
        _option("--recipe", help="Named set of settings: default, paper, plus.", panel=TRAINING),
    ] = None,
    steps: Annotated[
        int | None, _option("--steps", help="Steps of adaptation; chosen if not given.", panel=TRAINING)
    ] = None,
    restarts: Annotated[
        int | None,
        _option(
            "--restarts", help="Runs from different seeds; the one the others agree with is selected.", panel=TRAINING
        ),
    ] = None,
    processes: Annotated[
        int | None,
        _option("--processes", help="Processes on this machine that share each batch.", panel=TRAINING),
    ] = None,
    device: Annotated[str | None, _option("--device", help="auto, cpu, cuda or mps.", panel=TRAINING)] = None,
    seed: Annotated[int | None, _option("--seed", help="Seed of everything.", panel=TRAINING)] = None,
    select: Annotated[
        str | None, _option("--select", help="last, or the label-free score that selects the checkpoint.", panel=RESULT)
    ] = None,
    force: Annotated[
        bool, _option("--force", help="Select the adapted network even if it looks worse.", panel=RESULT)
    ] = False,
    keep_checkpoints: Annotated[
        bool,
        _option(
            "--keep-checkpoints", help="Keep checkpoints at the end, for --resume RUN --select SCORE.", panel=RESULT
        ),
    ] = False,
    dry_run: Annotated[
        bool, _option("--dry-run", help="Only show what would be done, and how long it takes.", panel=RESULT)
    ] = False,
    resume: Annotated[Path | None, _option("--resume", help="Continue a stopped run.", panel=RESULT)] = None,
    trust_code: Annotated[
        bool,
        _option("--trust-code", help="Allow code that a file names as its network.", panel=NETWORK),
    ] = False,
    tensorboard: Annotated[
        bool, _option("--tensorboard", help="Write event files for TensorBoard.", panel=RESULT)
    ] = False,
    config: Annotated[Path | None, _option("--config", help="TOML file with settings.", panel=TRAINING)] = None,
    changes: Annotated[
        list[str] | None, _option("--set", help="Change one setting: key=value. Repeatable.", panel=TRAINING)
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adapt a network to unlabelled images of a new place, camera or season."""
    started = time.monotonic()  # loading torch belongs to the time allowed
    from residapt.config import load_config
    from residapt.errors import ConfigError
    from residapt.methods.names import SOURCE_FREE
    from residapt.run.checks import check_settings
    from residapt.run.scan import scan_places
    from residapt.trust import refuse_code

    given = {
        "data.source": source,
        "data.target": target,
        "data.target_labels": target_labels,
        "data.evaluate": evaluate,
        "data.positive": positive,
        "data.image_size": image_size,
        "data.cache_gb": cache_gb,
        "model.spec": model,
        "model.weights": weights,
        "model.base": base,
        "model.adapters": adapters,
        "transform.include": _patterns(layers),
        "freeze": freeze,
        "method": method,
        "recipe": recipe,
        "train.steps": steps,
        "restarts": restarts,
        "device": device,
        "seed": seed,
        "select": select,
        "force": True if force else None,
    }
    options = {key: str(v) if isinstance(v, Path) else v for key, v in given.items() if v is not None}
    if resume is not None:
        if out is not None or config is not None or dry_run:
            raise ConfigError("--resume uses the run's own folder and settings: leave out -o, --config and --dry-run.")
        _go_on_in(processes)
        more = {"tensorboard": tensorboard, "trust_code": trust_code, "keep_checkpoints": keep_checkpoints}
        _resume(resume, options, changes or (), quiet, as_json, **more)
        return
    if out is None and not dry_run:
        raise ConfigError("no output is given. Name a new folder for the result with -o.")
    settings = load_config(config, changes or (), options=options)
    if settings.wants_source_free:
        settings = load_config(config, changes or (), options={**options, "method": SOURCE_FREE[0]})
    # A spec that was typed is the user's own word; one in a file may be anybody's.
    trusted = trust_code or typed_spec(model, changes or ())
    refuse_code(settings.model.spec, where="the configuration", trust_code=trusted)
    check_settings(settings, out=out)
    scanned = scan_places(settings.data)
    _go_on_in(processes)

    from residapt.run import Request, run_request

    request = Request(
        config=settings,
        out=out,
        console=progress_console(quiet=quiet, as_json=as_json),
        tensorboard=tensorboard,
        keep_checkpoints=keep_checkpoints,
        trust_code=trusted,
        scanned=scanned,
        started=started,
    )
    if dry_run:
        from residapt.run.plan import plan_lines
        from residapt.run.prepare import prepare

        show_lines(plan_lines(prepare(request), out))
    else:
        show_result(run_request(request), as_json=as_json)


def _go_on_in(processes: int | None) -> None:
    """Go on in so many processes; the present one if none are asked for."""
    from residapt.parallel.forked import fork_processes

    if processes is not None:
        fork_processes(processes, RUNNING)


def _resume(
    path: Path, options: Mapping[str, Any], changes: Sequence[str], quiet: bool, as_json: bool, **more: Any
) -> None:
    """Resume a run. One that has finished is shown again; ``--force`` then accepts its adapted network.

    ``--select`` takes another of its checkpoints, if they were kept.
    """
    from residapt.run.recorded import recorded_config, reopened_config
    from residapt.storage.run_directory import RunDirectory

    finished = RunDirectory.open(path).summary.exists() and not changes
    if finished and options.keys() <= {"force"}:
        from residapt.run.decision import accept

        summary = accept(path) if options else _finished(path)
        show_summary(summary, path, as_json=as_json, first=[f"Run {path} has finished already."])
        return
    if finished and options.keys() == {"select"}:
        settings, more = reopened_config(path, options), {**more, "keep_checkpoints": True}
    else:
        settings = recorded_config(path, changes, options)

    from residapt.run import Request, run_request

    progress = progress_console(quiet=quiet, as_json=as_json)
    request = Request(config=settings, out=path, resume=True, console=progress, **more)
    show_result(run_request(request), as_json=as_json)


def _finished(path: Path) -> RunSummary:
    """The summary of a finished run, so that a script may resume until all is done."""
    from residapt.report import write_report
    from residapt.storage.run_directory import RunDirectory
    from residapt.storage.summary import read_summary

    run = RunDirectory.open(path)
    summary = read_summary(run.summary)
    if not run.report.exists():
        write_report(run)
    return summary


def typed_spec(model: str | None, changes: Sequence[str]) -> bool:
    """Whether the network was named on the command line."""
    return model is not None or any(text.partition("=")[0].strip() == "model.spec" for text in changes)


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def show_result(run: AdaptedRun, *, as_json: bool = False) -> None:
    """The result of a run, in one process only."""
    if run.setup.engine.is_main and run.directory is not None:
        show_summary(run.summary, run.directory.path, as_json=as_json)
