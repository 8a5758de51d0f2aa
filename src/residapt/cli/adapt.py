"""``residapt adapt``: two folders in, a network for the second one out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residapt.cli.app import app, console

if TYPE_CHECKING:
    from residapt.run import AdaptedRun
    from residapt.storage.summary import RunSummary

EXAMPLE = "Example: residapt adapt -s photos/ -t new_site/ -m timm:resnet50 --weights resnet50.safetensors -o run/"
DATA, NETWORK, TRAINING, RESULT = "Data", "Network", "Training", "Result"


def _option(*names: str, help: str, panel: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


@app.command(epilog=EXAMPLE)
def adapt(
    source: Annotated[
        Path | None, _option("--source", "-s", help="Folder with one folder of images for each class.", panel=DATA)
    ] = None,
    target: Annotated[
        Path | None, _option("--target", "-t", help="Folder of unlabelled images, at any depth.", panel=DATA)
    ] = None,
    target_labels: Annotated[
        Path | None,
        _option(
            "--target-labels", help="A few labelled target images: CSV file (path,class) or class folders.", panel=DATA
        ),
    ] = None,
    out: Annotated[Path | None, _option("--out", "-o", help="New folder for the result.", panel=RESULT)] = None,
    evaluate: Annotated[
        Path | None, _option("--evaluate", help="Labelled folder to score at the end; never trained on.", panel=DATA)
    ] = None,
    positive: Annotated[
        str | None, _option("--positive", help="Class to be found; average precision is of it.", panel=DATA)
    ] = None,
    image_size: Annotated[int | None, _option("--image-size", help="Height and width in pixels.", panel=DATA)] = None,
    model: Annotated[
        str | None,
        _option("--model", "-m", help="lenet, torchvision:NAME, timm:NAME, hf:NAME or module:factory.", panel=NETWORK),
    ] = None,
    weights: Annotated[
        Path | None, _option("--weights", help="Weights to start from (.safetensors, .pth).", panel=NETWORK)
    ] = None,
    base: Annotated[
        Path | None, _option("--base", help="Run or weights already trained on the source; skips that.", panel=NETWORK)
    ] = None,
    layers: Annotated[
        str | None,
        _option("--layers", help="Layers to transform: name patterns, separated by commas.", panel=NETWORK),
    ] = None,
    freeze: Annotated[
        str | None,
        _option("--freeze", help="Stages that neither stream changes: patterns, separated by commas.", panel=NETWORK),
    ] = None,
    method: Annotated[
        str | None, _option("--method", help="How to adapt; see residapt methods.", panel=TRAINING)
    ] = None,
    recipe: Annotated[
        str | None,
        _option("--recipe", help="paper, or plus: also fits the target's class frequencies.", panel=TRAINING),
    ] = None,
    steps: Annotated[
        int | None, _option("--steps", help="Steps of adaptation; chosen if not given.", panel=TRAINING)
    ] = None,
    device: Annotated[str | None, _option("--device", help="auto, cpu, cuda or mps.", panel=TRAINING)] = None,
    seed: Annotated[int | None, _option("--seed", help="Seed of everything.", panel=TRAINING)] = None,
    select: Annotated[
        str | None, _option("--select", help="last, or the label-free score that picks the checkpoint.", panel=RESULT)
    ] = None,
    force: Annotated[
        bool, _option("--force", help="Hand out the adapted network even if it looks worse.", panel=RESULT)
    ] = False,
    resume: Annotated[
        Path | None, _option("--resume", help="Go on with a run that was stopped, where it was.", panel=RESULT)
    ] = None,
    trust_code: Annotated[
        bool,
        _option("--trust-code", help="Run the code that a configuration or run names as its network.", panel=NETWORK),
    ] = False,
    tensorboard: Annotated[
        bool, _option("--tensorboard", help="Write event files for TensorBoard.", panel=RESULT)
    ] = False,
    config: Annotated[Path | None, _option("--config", help="TOML file with settings.", panel=TRAINING)] = None,
    changes: Annotated[
        list[str] | None, _option("--set", help="Change one setting: key=value. Repeatable.", panel=TRAINING)
    ] = None,
) -> None:
    """Adapt a network to unlabelled images of a new place, camera or season."""
    from residapt.config import load_config
    from residapt.errors import ConfigError
    from residapt.run import Request, recorded_config, run_request

    given = {
        "data.source": source,
        "data.target": target,
        "data.target_labels": target_labels,
        "data.evaluate": evaluate,
        "data.positive": positive,
        "data.image_size": image_size,
        "model.spec": model,
        "model.weights": weights,
        "model.base": base,
        "transform.include": _patterns(layers),
        "transform.freeze": _patterns(freeze),
        "method": method,
        "recipe": recipe,
        "train.steps": steps,
        "device": device,
        "seed": seed,
        "select": select,
        "force": True if force else None,
    }
    overrides = [*_overrides(given), *(changes or ())]
    if resume is not None:
        if out is not None or config is not None:
            raise ConfigError(
                "--resume goes on in the run's own folder with its own settings: leave out -o and --config."
            )
        if _shown_if_finished(resume):
            return
        settings, out = recorded_config(resume, overrides), resume
    elif out is None:
        raise ConfigError("no output is given. Name a new folder for the result with -o.")
    else:
        settings = load_config(config, overrides)
    request = Request(
        config=settings,
        source=settings.data.source,
        target=settings.data.target,
        target_labels=settings.data.target_labels,
        evaluate=settings.data.evaluate,
        out=out,
        resume=resume is not None,
        console=console,
        tensorboard=tensorboard,
        # A spec that was typed is the user's own word; one in a file may be anybody's.
        trust_code=trust_code or (resume is None and typed_spec(model, changes or ())),
    )
    show_result(run_request(request), out)


def typed_spec(model: str | None, changes: Sequence[str]) -> bool:
    """Whether the network was named on the command line."""
    return model is not None or any(text.partition("=")[0].strip() == "model.spec" for text in changes)


def _shown_if_finished(path: Path) -> bool:
    """Show the result of a run that has nothing left to do, so that a script may resume until all is done."""
    from residapt.report import write_report
    from residapt.storage.run_directory import RunDirectory
    from residapt.storage.summary import read_summary

    run = RunDirectory.open(path)
    if not run.summary.exists():
        return False
    summary = read_summary(run.summary)
    if not run.report.exists():
        write_report(run)
    for line in (f"Run {path} has finished already.", *result_lines(summary, path)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return True


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _overrides(given: dict[str, Any]) -> list[str]:
    """The options that were used, as ``key=value``; texts are quoted, for a folder may be called "1"."""
    used = {key: str(v) if isinstance(v, Path) else v for key, v in given.items() if v is not None}
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in used.items()]


def show_result(run: AdaptedRun, out: Path) -> None:
    """The verdict in two sentences, accuracy if it is known, ranks, files, and what to do next."""
    if not run.plan.engine.is_main:
        return
    for line in result_lines(run.summary, out):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


FILES = ("report.html", "model.safetensors", "adapter", "adapter-turned-down", "config.toml", "metrics.jsonl")


def result_lines(summary: RunSummary, out: Path) -> list[str]:
    """What is printed at the end."""
    there = ", ".join(name for name in FILES if (out / name).exists())
    return [
        "",
        _verdict(summary),
        *_accuracy(summary),
        *_detection(summary),
        *_ranks(summary),
        f"Files in {out}: {there}. Open report.html first.",
        f"Next: residapt predict {shlex.quote(str(out))} images/ -o predictions.csv",
    ]


def _verdict(summary: RunSummary) -> str:
    verdict = summary.verdict
    first = {
        True: "Adaptation helped, judged without target labels",
        False: "The adapted network looks worse than the source network",
        None: "It is not clear whether adaptation helped",
    }[verdict.helped]
    reasons = "; ".join(verdict.reasons)
    if verdict.handed_out == "source":
        second = "So model.safetensors is the source network; --force hands out the adapted one."
    elif verdict.helped is False:
        second = "model.safetensors is the adapted network all the same, as --force asks."
    else:
        second = f"model.safetensors is the adapted network ({summary.selected})."
    return f"{first}: {reasons}. {second}"


def _accuracy(summary: RunSummary) -> list[str]:
    if not summary.accuracies:
        return []
    before, after = (next(a for a in summary.accuracies if a.stage == s) for s in ("source_only", "adapted"))
    return [
        f"Accuracy on {after.name} ({after.images} images, {after.protocol}): {before.percent:.1f} % with the source "
        f"network, {after.percent:.1f} % adapted."
    ]


def _detection(summary: RunSummary) -> list[str]:
    if not summary.detections:
        return []
    before, after = (next(d for d in summary.detections if d.stage == s) for s in ("source_only", "adapted"))
    found = after.detection
    return [
        f"Average precision of '{found.positive}' ({found.positives} images against {found.negatives} others): "
        f"{before.detection.average_precision:.3f} with the source network, {found.average_precision:.3f} adapted."
    ]


def _ranks(summary: RunSummary) -> list[str]:
    if not summary.ranks:
        return []
    own = [layer for layer in summary.ranks if min(layer.after) > 0]
    shown = ", ".join(f"{layer.layer} [{layer.after[0]}, {layer.after[1]}]" for layer in own[:6])
    more = f" and {len(own) - 6} more" if len(own) > 6 else ""
    kept = f": {shown}{more}" if own else ""
    return [f"{len(own)} of {len(summary.ranks)} layers differ between the domains (ranks [l, r]){kept}."]
