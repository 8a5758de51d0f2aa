"""Finished runs side by side: method, accuracy, label-free scores, verdict, size and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from residapt.errors import DataError
from residapt.report.charts import Series, dot_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, badge, note, render_page, write_page
from residapt.report.run_data import read_settings
from residapt.report.tables import Column, table
from residapt.report.verdict import Scored, scored_sets
from residapt.report.words import count, number, score_name, signed
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary

VERDICTS = {True: ("helped", "good"), None: ("unclear", "warning"), False: ("did not help", "bad")}
"""The guard's judgement in a word or two, and the colour of its badge."""


@dataclass(frozen=True)
class FinishedRun:
    """What is compared of one run."""

    path: Path
    summary: RunSummary
    recipe: str
    target: str
    """The folder that was adapted to; empty where the run does not name one."""
    size: int
    """Bytes of the selected network."""
    adapter: int | None
    """Bytes of the adapter; None where the run has none."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def minutes(self) -> float:
        """Time of all stages."""
        return sum(self.summary.seconds.values()) / 60

    @property
    def scored(self) -> dict[tuple[str, str], Scored]:
        """Accuracies by scored set and protocol."""
        return {(one.name, one.protocol): one for one in scored_sets(self.summary.accuracies)}


def read_finished(path: Path) -> FinishedRun:
    """Read a run; one that has not finished is refused."""
    run = RunDirectory.open(path)
    summary = read_summary(run.summary)
    settings = {setting.key: setting.value for setting in read_settings(run.config)}
    files = [file for file in run.adapter.rglob("*") if file.is_file()] if run.adapter.is_dir() else []
    return FinishedRun(
        path,
        summary,
        settings.get("recipe", ""),
        settings.get("data.target", ""),
        run.model.stat().st_size if run.model.is_file() else 0,
        sum(file.stat().st_size for file in files) if files else None,
    )


def scored_names(runs: Sequence[FinishedRun]) -> list[tuple[str, str]]:
    """All scored sets with their protocols, each once."""
    return list(dict.fromkeys(key for run in runs for key in run.scored))


def score_keys(runs: Sequence[FinishedRun]) -> list[str]:
    """All label-free scores, each once."""
    return list(dict.fromkeys(key for run in runs for key in run.summary.scores))


def cautions(runs: Sequence[FinishedRun]) -> list[str]:
    """Why some of the numbers must not be compared."""
    found = []
    if len({(run.target, run.summary.target_images) for run in runs}) > 1:
        found.append("The runs have different target images: their label-free scores cannot be compared.")
    if len({run.summary.classes for run in runs}) > 1:
        found.append("The runs have different classes: neither accuracies nor scores can be compared.")
    for key in scored_names(runs):
        if len({run.scored[key].images for run in runs if key in run.scored}) > 1:
            found.append(f"'{key[0]}' has not the same number of images in all runs.")
    return found


def write_comparison(runs: Sequence[FinishedRun], path: Path) -> None:
    """Write the page of a comparison."""
    write_page(path, render_comparison(runs))


def render_comparison(runs: Sequence[FinishedRun]) -> Html:
    """The page."""
    if not runs:
        raise DataError("there is no finished run to compare, got an empty list. Give one run directory or more.")
    sections = [Section("runs", "Runs", join([*(note(text, "warning") for text in cautions(runs)), _overview(runs)]))]
    if scored_names(runs):
        sections.append(Section("accuracy", "Accuracy", join([_accuracies(runs), *_charts(runs)]), "Accuracy"))
    if score_keys(runs):
        sections.append(Section("scores", "Label-free scores", _scores(runs), "Scores"))
    header = [tag("p", "Comparison", class_="overline"), tag("h1", f"{len(runs)} runs")]
    return render_page("residapt: comparison of runs", join(header), sections)


def _overview(runs: Sequence[FinishedRun]) -> Html:
    columns: list[str | Column] = ["run", "method", "recipe", "network", "verdict", "selected"]
    columns += [Column(title, True) for title in ("network, MB", "adapter, MB", "minutes")]
    rows = [
        (
            run.name,
            run.summary.method,
            run.recipe,
            run.summary.model,
            badge(*VERDICTS[run.summary.verdict.helped]),
            run.summary.verdict.selected,
            in_megabytes(run.size),
            in_megabytes(run.adapter),
            f"{run.minutes:.1f}",
        )
        for run in runs
    ]
    return table(columns, rows, caption="What was trained and what came of it.")


def in_megabytes(size: int | None) -> str:
    """Bytes as millions."""
    return "–" if size is None else f"{size / 1e6:.1f}"


def _accuracies(runs: Sequence[FinishedRun]) -> Html:
    columns: list[str | Column] = ["run", "scored set", "protocol"]
    columns += [Column(title, True) for title in ("images", "source only", "adapted", "change")]
    best = {key: max(run.scored[key].after or 0.0 for run in runs if key in run.scored) for key in scored_names(runs)}
    rows = []
    for key in scored_names(runs):
        for run in runs:
            if (one := run.scored.get(key)) is not None:
                mark = "strong" if one.after == best[key] else "span"
                after = "–" if one.after is None else tag(mark, f"{one.after:.1f}")
                before = "–" if one.before is None else f"{one.before:.1f}"
                gain = "–" if one.gain is None else signed(one.gain)
                rows.append((run.name, one.name, badge(one.protocol), count(one.images), before, after, gain))
    return table(columns, rows, caption="Accuracy in per cent; labels were used for scoring only.")


def _charts(runs: Sequence[FinishedRun]) -> list[Html]:
    charts = []
    for key in scored_names(runs):
        known = [(run.name, run.scored[key]) for run in runs if key in run.scored]
        pairs = [
            (name, one.before, one.after) for name, one in known if one.before is not None and one.after is not None
        ]
        if pairs:
            series = [
                Series("source only", [before / 100 for _, before, _ in pairs], [], "--before", muted=True),
                Series("adapted", [after / 100 for _, _, after in pairs], [], "--target"),
            ]
            charts.append(dot_chart(f"Accuracy on {key[0]} ({key[1]})", [name for name, _, _ in pairs], series))
    return charts


def _scores(runs: Sequence[FinishedRun]) -> Html:
    keys = score_keys(runs)
    rows = []
    for run in runs:
        found = run.summary.scores
        rows.append((run.name, *(number(found[key][1]) if key in found else "–" for key in keys)))
    columns: list[str | Column] = ["run", *(Column(score_name(key), True) for key in keys)]
    return table(columns, rows, caption="Of the adapted networks; higher is better.")
