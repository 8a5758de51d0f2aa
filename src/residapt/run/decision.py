"""The choice between the networks of a finished run, changed afterwards: ``residapt accept`` and ``reject``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from residapt.errors import ConfigError
from residapt.report import write_report
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary, write_summary

BY_LABELS = "by its labels"


def accept(path: Path | str) -> RunSummary:
    """Make the adapted network the result of a finished run.

    Args:
        path: The run directory.

    Returns:
        The new summary. Accuracies that speak for this choice are marked as used for it.

    Example:
        >>> import residapt, torch
        >>> x, y = torch.randn(60, 6), torch.arange(60) % 2
        >>> x[:, 0] += 4.0 * y
        >>> run = residapt.adapt(torch.nn.Linear(6, 2), source=(x, y), target=x + 0.5, out="accepted-run", steps=2,
        ...                      verbose=False, **{"pretrain.steps": 100, "pretrain.lr": 0.05})
        >>> accept("accepted-run").verdict.selected
        'adapted'
    """
    return _choose(Path(path), "adapted")


def reject(path: Path | str) -> RunSummary:
    """Make the source network the result of a finished run; the adapted one is kept in ``rejected/``.

    Args:
        path: The run directory.

    Returns:
        The new summary.

    Example:
        >>> import residapt, torch
        >>> x, y = torch.randn(60, 6), torch.arange(60) % 2
        >>> x[:, 0] += 4.0 * y
        >>> run = residapt.adapt(torch.nn.Linear(6, 2), source=(x, y), target=x + 0.5, out="rejected-run", steps=2,
        ...                      verbose=False, **{"pretrain.steps": 100, "pretrain.lr": 0.05})
        >>> reject("rejected-run").verdict.selected
        'source'
    """
    return _choose(Path(path), "source")


def _choose(path: Path, network: Literal["adapted", "source"]) -> RunSummary:
    run = RunDirectory.open(path)
    if not run.summary.exists():
        raise ConfigError(f"run '{path}' has not finished. Resume it with: residapt adapt --resume {path}")
    summary = read_summary(run.summary)
    # Each step may be repeated, so that a call that was cut off is completed by the next one.
    if network == "adapted":
        _accept_files(run)
    else:
        _reject_files(run)
    if summary.verdict.selected != network:
        summary = _with_choice(summary, network)
        write_summary(summary, run.summary)
        write_report(run)
    return summary


def _accept_files(run: RunDirectory) -> None:
    model, adapter = run.rejected / run.model.name, run.rejected / run.adapter.name
    if adapter.exists():
        shutil.rmtree(run.adapter, ignore_errors=True)
        os.replace(adapter, run.adapter)
    if model.exists():
        os.replace(model, run.model)
    if run.rejected.exists():
        run.rejected.rmdir()


def _reject_files(run: RunDirectory) -> None:
    model, adapter = run.rejected / run.model.name, run.rejected / run.adapter.name
    run.rejected.mkdir(exist_ok=True)
    if run.adapter.exists():
        os.replace(run.adapter, adapter)
    if not model.exists():
        os.replace(run.model, model)
    with atomic_file(run.model, overwrite=True) as file:
        shutil.copyfile(run.source, file)


def _with_choice(summary: RunSummary, network: Literal["adapted", "source"]) -> RunSummary:
    used, reasons = [], []
    for name in dict.fromkeys(one.name for one in summary.accuracies):
        before, after = (recorded_accuracy(summary, name, stage) for stage in ("source_only", "adapted"))
        if (after > before) == (network == "adapted") and after != before:
            used.append(name)
            mark = "for" if after > before else "against"
            reasons.append(
                f"{mark}: accuracy on {name} {BY_LABELS}: {before:.1f} % before, {after:.1f} % after (used for this "
                "choice, so no independent estimate any more)"
            )
    guard = [reason for reason in summary.verdict.reasons if BY_LABELS not in reason]
    verdict = summary.verdict.model_copy(
        update={"selected": network, "chosen_by": "user", "reasons": (*reasons, *guard)}
    )
    accuracies = [one.model_copy(update={"used_for_choice": one.name in used}) for one in summary.accuracies]
    return summary.model_copy(update={"verdict": verdict, "accuracies": accuracies})


def recorded_accuracy(summary: RunSummary, name: str, stage: str) -> float:
    """The accuracy on a scored set, in per cent, of one of the two networks."""
    return next(one.percent for one in summary.accuracies if (one.name, one.stage) == (name, stage))
