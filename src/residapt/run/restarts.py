"""The same run several times from other seeds; the one that the others agree with most is selected (``--restarts N``).

Adversarial training ends in different places from different starts, and the source network decides much of it. Mistakes
differ from start to start, and what is right does not: so the restart whose predictions of the target images are those
of the others most often is taken. On recorded runs this recovers more than any score of a run alone
(docs/research/proving-ground.md). Each restart is a whole run of its own, source training included, in ``restarts/1``,
... of the run directory, so that all of them can be stopped, continued and compared. The selected one is moved to the
top at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from residapt.config import Config, load_config, write_config
from residapt.data.batches import derived_seed
from residapt.report import write_report
from residapt.run.checks import check_output
from residapt.run.judge import Finished
from residapt.run.request import Request
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary, write_summary

SCORE = "bnm"
"""Decides where two restarts agree with the others equally often, as two alone always do."""
FOLDER = "restarts"
PREDICTED = "predicted.json"
"""File with the predictions of a restart."""


class Candidate(NamedTuple):
    """A finished restart."""

    number: int
    summary: RunSummary
    predicted: dict[str, int]
    """Class by number of the target image, of those that were scored."""
    finished: Finished | None
    """None where an earlier process has finished it."""

    def agreement(self, others: Sequence[Candidate]) -> float:
        """Mean share of the images that both were scored on for which another restart predicts the same."""
        return statistics.fmean(_share(self.predicted, other.predicted) for other in others)

    def rank(self, found: Sequence[Candidate]) -> tuple[bool, float, float]:
        """Networks that the guard selected come first, then agreement with the others, then the score."""
        others = [one for one in found if one.number != self.number]
        return self.summary.verdict.selected == "adapted", self.agreement(others), self.summary.scores[SCORE][1]


Go = Callable[[Request, Callable[[], None]], Finished]
"""Goes through one run; the second argument is called once everything is checked, before anything is written."""


def with_restarts(request: Request, go: Go) -> Finished:
    """Go through all restarts and take the one that the others agree with most.

    Args:
        request: The request, with ``restarts`` above 1.
        go: Goes through one run.
    """
    top = None if request.out is None else RunDirectory(request.out)
    if top is not None and not request.resume:
        check_output(top.path)
    found = [_restart(request, top, number, go) for number in range(1, request.config.restarts + 1)]
    best = max(found, key=lambda one: one.rank(found))
    # Where an earlier process has finished the best one, its last checkpoint is still there.
    finished = best.finished or go(_part(request, top, best.number), _nothing)
    summary = finished.summary.model_copy(update={"notes": [_note(found, best), *finished.summary.notes]})
    finished = replace(finished, summary=summary)
    if top is not None and finished.setup.engine.is_main:
        _move_up(top, best.number, summary)
    finished.setup.engine.wait()
    return finished


def _restart(request: Request, top: RunDirectory | None, number: int, go: Go) -> Candidate:
    part = _part(request, top, number)
    kept = None if part.out is None else part.out / PREDICTED
    if part.out is not None and kept is not None and kept.exists():
        known = json.loads(kept.read_text(encoding="utf-8"))
        return Candidate(number, read_summary(RunDirectory(part.out).summary), known, None)

    def ready() -> None:
        if top is not None and not top.config.is_file():
            top.path.mkdir(parents=True, exist_ok=True)
            with atomic_file(top.config, overwrite=True) as file:
                write_config(request.config, file, given=True)

    part.console.print(f"restart {number} of {request.config.restarts}", highlight=False)
    finished = go(part, ready)
    images, classes = finished.setup.sample.tolist(), finished.predicted.tolist()
    predicted = {str(image): label for image, label in zip(images, classes, strict=True)}
    if kept is not None and finished.setup.engine.is_main:
        with atomic_file(kept, overwrite=True) as file:
            file.write_text(json.dumps(predicted), encoding="utf-8")
    return Candidate(number, finished.summary, predicted, finished)


def _share(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    both = one.keys() & other.keys()
    return sum(one[image] == other[image] for image in both) / max(len(both), 1)


def _nothing() -> None:
    """What is there needs no preparation."""


def _part(request: Request, top: RunDirectory | None, number: int) -> Request:
    """The request of one restart: another seed, its share of the time."""
    config = _config(request.config, number)
    request = request if number == 1 else replace(request, started=None)
    if top is None:
        return replace(request, config=config)
    out = top.path / FOLDER / str(number)
    begun = RunDirectory(out).config.is_file()
    if begun:
        config = load_config(RunDirectory(out).config)
    # Checkpoints stay until one restart is selected: the process that ends may not be the one that ran the best.
    return replace(
        request, config=config, out=out, resume=begun, keep_checkpoints=True, outputs=request.outputs or top.outputs
    )


def _config(config: Config, number: int) -> Config:
    seed = config.seed if number == 1 else derived_seed(config.seed, "restart", number)
    return config.model_copy(update={"restarts": 1, "seed": seed, "minutes": config.minutes / config.restarts})


def _note(found: list[Candidate], best: Candidate) -> str:
    shares = ", ".join(f"{one.rank(found)[1]:.1%}" for one in found)
    rejected = sum(one.summary.verdict.selected == "source" for one in found)
    more = f"; in {rejected} of them the source network was selected" if rejected else ""
    return (
        f"restart {best.number} of {len(found)} was selected, since its predictions agree most with those of the "
        f"others ({shares}){more}."
    )


def _move_up(top: RunDirectory, number: int, summary: RunSummary) -> None:
    """The files of the selected restart become those of the run; of the others the summaries stay."""
    selected = top.path / FOLDER / str(number)
    places = [place for place in selected.iterdir() if place.name not in ("summary.json", "checkpoint", PREDICTED)]
    for place in sorted(places, key=lambda place: place.name == top.config.name):  # what names the run comes last
        target = top.path / place.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(place, target)
    for other in (top.path / FOLDER).iterdir():
        for place in other.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            elif place.name not in ("summary.json", PREDICTED):
                place.unlink()
    shutil.rmtree(top.outputs, ignore_errors=True)
    write_summary(summary, top.summary)
    for place in (top.path / FOLDER).glob(f"*/{PREDICTED}"):  # until then they say which restarts have ended
        place.unlink()
    write_report(top)
