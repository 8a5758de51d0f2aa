"""What is printed about a finished run, and ``residapt accept`` and ``residapt reject``, which change its result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from residapt.cli.app import app, console, show_json
from residapt.cli.options import JsonOption
from residapt.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from residapt.storage.summary import RunSummary

FILES = ("report.html", "model.safetensors", "adapter", "rejected", "config.toml", "metrics.jsonl")
RunOption = Annotated[Path, typer.Argument(help="Directory of a finished run.")]


@app.command(epilog="Example: residapt accept run/")
def accept(run: RunOption, as_json: JsonOption = False) -> None:
    """Select the adapted network of a finished run, although the guard did not."""
    RunDirectory.open(run)
    from residapt.run import accept

    show_summary(accept(run), run, as_json=as_json)


@app.command(epilog="Example: residapt reject run/")
def reject(run: RunOption, as_json: JsonOption = False) -> None:
    """Select the source network of a finished run instead of the adapted one."""
    RunDirectory.open(run)
    from residapt.run import reject

    show_summary(reject(run), run, as_json=as_json)


def show_summary(summary: RunSummary, out: Path, *, as_json: bool = False, first: Sequence[str] = ()) -> None:
    """The result in words, or as the content of ``summary.json``."""
    if as_json:
        show_json(summary)
    else:
        show_lines([*first, *result_lines(summary, out)])


def show_lines(lines: Sequence[str]) -> None:
    """Print lines as they are; the terminal wraps them."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def result_lines(summary: RunSummary, out: Path, *, images: Path | None = None) -> list[str]:
    """What is printed at the end: labels first, verdict, reasons, ranks, files, and what to do next.

    ``images`` is the folder that the example of a next command names.
    """
    example = "images/" if images is None else shlex.quote(str(images))
    there = ", ".join(name for name in FILES if (out / name).exists())
    return [
        "",
        *_accuracy(summary),
        *_detection(summary),
        *_verdict(summary),
        *_disagreement(summary, out),
        *_ranks(summary),
        *_sizes(out),
        f"Files in {out}: {there}. Open report.html first.",
        *_other_network(summary, out),
        f"Next: residapt predict {shlex.quote(str(out))} {example} -o predictions.csv",
    ]


def _verdict(summary: RunSummary) -> list[str]:
    verdict = summary.verdict
    first = {
        True: "Judged without target labels, adaptation helped:",
        False: "Judged without target labels, the adapted network looks worse than the source network:",
        None: "Judged without target labels, it is not clear whether adaptation helped:",
    }[verdict.helped]
    network = f"the adapted network ({summary.selected})" if verdict.selected == "adapted" else "the source network"
    why = {"guard": "", "force": ", because of --force", "user": ", as you have chosen"}[verdict.chosen_by]
    reasons = (f"  {reason}" for reason in verdict.reasons)
    return [first, *reasons, f"Selected: model.safetensors is {network}{why}."]


def _gains(summary: RunSummary) -> list[float]:
    """Change of accuracy on each scored set, in points."""
    before = {one.name: one.percent for one in summary.accuracies if one.stage == "source_only"}
    return [one.percent - before[one.name] for one in summary.accuracies if one.stage == "adapted"]


def _disagreement(summary: RunSummary, out: Path) -> list[str]:
    gains, selected = _gains(summary), summary.verdict.selected
    if not gains or summary.verdict.chosen_by == "user":
        return []
    place = shlex.quote(str(out))
    if selected == "source" and min(gains) > 0:
        return [
            f"The labels of the scored images disagree: accuracy rose. To follow the labels: residapt accept {place}"
        ]
    if selected == "adapted" and max(gains) < 0:
        return [
            f"The labels of the scored images disagree: accuracy fell. To follow the labels: residapt reject {place}"
        ]
    return []


def _other_network(summary: RunSummary, out: Path) -> list[str]:
    place = shlex.quote(str(out))
    if summary.verdict.selected == "adapted":
        return [f"The source network: {out / 'source.safetensors'}; to select it: residapt reject {place}"]
    model = out / "rejected" / "model.safetensors"
    return [
        f"The adapted network: {model}; to try it: residapt predict {shlex.quote(str(model))} images/; "
        f"to select it: residapt accept {place}"
    ]


def _accuracy(summary: RunSummary) -> list[str]:
    lines = []
    for after in (one for one in summary.accuracies if one.stage == "adapted"):
        before = next(one for one in summary.accuracies if (one.name, one.stage) == (after.name, "source_only"))
        used = "; used to choose the network" if after.used_for_choice else ""
        lines.append(
            f"Accuracy on {after.name} ({after.images} images, {after.protocol}{used}): {before.percent:.1f} % with "
            f"the source network, {after.percent:.1f} % adapted."
        )
    return lines


def _detection(summary: RunSummary) -> list[str]:
    if not summary.detections:
        return []
    before, after = (next(d for d in summary.detections if d.stage == s) for s in ("source_only", "adapted"))
    found = after.detection
    return [
        f"Average precision of '{found.positive}' ({found.positives} images against {found.negatives} others): "
        f"{before.detection.average_precision:.3f} with the source network, {found.average_precision:.3f} adapted."
    ]


def _sizes(out: Path) -> list[str]:
    """How large the adapter has become, and how a smaller one is made."""
    from residapt.report.words import megabytes
    from residapt.storage import read_config

    run = RunDirectory(out)
    folder = next((place for place in (run.adapter, run.rejected / run.adapter.name) if place.is_dir()), None)
    if folder is None:
        return []
    config, network = read_config(folder), megabytes(run.source.stat().st_size)
    size = megabytes(sum(file.stat().st_size for file in folder.iterdir()))
    if config.base == "reference":
        return [f"Adapter: {size}, on the source network of {network}, which stays as it is."]
    carried = f"{len(config.carried)} of the {len(config.tensors)} tensors of the source network"
    return [f"Adapter: {size}, with {carried} ({network}), which was trained as well; --freeze base makes a small one."]


def _ranks(summary: RunSummary) -> list[str]:
    if not summary.ranks:
        return []
    own = [layer for layer in summary.ranks if min(layer.after) > 0]
    shown = ", ".join(f"{layer.layer} [{layer.after[0]}, {layer.after[1]}]" for layer in own[:6])
    more = f" and {len(own) - 6} more" if len(own) > 6 else ""
    kept = f": {shown}{more}" if own else ""
    return [f"{len(own)} of {len(summary.ranks)} layers differ between the domains (ranks [l, r]){kept}."]
