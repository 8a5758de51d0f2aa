"""The report of one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from residapt.report.curves import curves_section
from residapt.report.detection import detection_section
from residapt.report.domains import changed_section, frequencies_section, overlap_section, unusual_section
from residapt.report.html import Html, join, tag
from residapt.report.labelled import calibration_section, confusion_section
from residapt.report.layers import ranks_section
from residapt.report.page import Section, badge, note, render_page, write_page
from residapt.report.run_data import Note, RunData, Setting, read_run
from residapt.report.tables import Column, folded, table
from residapt.report.time_section import time_section
from residapt.report.usage import usage_section
from residapt.report.verdict import accuracy_section, verdict_section
from residapt.report.words import count, plural
from residapt.storage.run_directory import RunDirectory


def write_report(run: RunDirectory) -> Path:
    """Write ``report.html`` of a run, finished or not, and say where it is."""
    write_page(run.report, render_run(read_run(run)))
    return run.report


def render_run(data: RunData) -> Html:
    """The page: what matters first, details later."""
    sections = [section for build in BUILDERS if (section := build(data)) is not None]
    name = data.path.resolve().name or "run"
    return render_page(f"{name}: residapt report", _header(name, data), sections)


def _header(name: str, data: RunData) -> Html:
    recipe = data.setting("recipe")
    named = f"recipe {recipe}" if recipe else ""
    facts = [data.setting("method"), named, data.setting("model.spec")]
    if data.summary is not None:
        summary = data.summary
        facts = [
            summary.method,
            named,
            summary.model,
            plural(len(summary.classes), "class", "classes"),
            f"{count(summary.source_images)} source → {count(summary.target_images)} target images",
            *([f"{count(summary.labelled_images)} of the target labelled"] if summary.labelled_images else []),
            f"residapt {summary.version}",
        ]
    line = join((tag("span", fact) for fact in facts if fact), " · ")
    return join(
        [tag("p", "Adaptation report", class_="overline"), tag("h1", name), tag("p", line, class_="facts muted")]
    )


def health_section(data: RunData) -> Section | None:
    """Notes of the health monitor."""
    notes = _all_notes(data)
    if not notes:
        if data.summary is None:
            return None
        return Section("health", "Health notes", note("The health monitor found no problem.", "good"), "Health")
    return Section("health", "Health notes", join(map(_note, notes)), "Health")


def _all_notes(data: RunData) -> list[Note]:
    """Each text once, at its first step."""
    found: dict[str, Note] = {}
    for one in (*data.metrics.notes, *(Note(text) for text in (data.summary.notes if data.summary else ()))):
        found.setdefault(one.text, one)
    return list(found.values())


def _note(one: Note) -> Html:
    text = one.text[:1].upper() + one.text[1:]
    where = [] if not one.step else [badge(f"step {count(one.step)}"), " "]
    return note(join([*where, text]), "warning")


def settings_section(data: RunData) -> Section:
    """What was changed, then everything."""
    changed = [setting for setting in data.settings if setting.changed]
    first: object = tag("p", "All settings have their default values.")
    if changed:
        first = join([tag("p", "Settings that differ from their defaults:"), _settings_table(changed)])
    everything = folded(f"All {len(data.settings)} settings", _settings_table(data.settings))
    return Section("settings", "Configuration", join([first, everything]), "Settings", folds=True)


def _settings_table(settings: list[Setting]) -> Html:
    rows = [(tag("code", one.key), tag("b" if one.changed else "span", one.value), one.explanation) for one in settings]
    columns: list[str | Column] = ["setting", Column("value", wide=True), Column("what it does", wide=True)]
    return table(columns, rows, caption="Settings of this run.")


BUILDERS: tuple[Callable[[RunData], Section | None], ...] = (
    verdict_section,
    accuracy_section,
    detection_section,
    changed_section,
    confusion_section,
    calibration_section,
    health_section,
    curves_section,
    ranks_section,
    overlap_section,
    frequencies_section,
    unusual_section,
    usage_section,
    time_section,
    settings_section,
)
"""The sections of a run's page, in order."""
