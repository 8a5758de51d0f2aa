"""Did it help? The verdict, the scores behind it, and accuracies where labelled images were given for scoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from residapt.evaluate.scores import SCORES
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, badge, command, note, tiles
from residapt.report.run_data import RunData
from residapt.report.tables import Column, table
from residapt.report.usage import run_command
from residapt.report.words import count, duration, number, plural, score_name, signed
from residapt.storage.summary import Accuracy, RunSummary, TimedPart, Verdict

MEANING = {
    True: "The new predictions agree better with the groups that the target images form by themselves.",
    None: "The scores disagree or hardly changed. Look at the examples below, or score it on labelled images.",
    False: "Judging by the scores, the adapted network is worse on the target than the source network.",
}
"""What the verdict means."""
CLEAR = 1.0
"""Points of accuracy that count as a difference in words."""
STAMPS = {
    "held-out": "held-out: the images were not used in training in any way.",
    "transductive": "transductive: the images were used in training, without their labels; expect less on new images.",
}


@dataclass(frozen=True)
class Scored:
    """One labelled set before and after."""

    name: str
    images: int
    protocol: str
    before: float | None
    after: float | None
    used_for_choice: bool = False
    """Whether the network was chosen by these labels."""

    @property
    def gain(self) -> float | None:
        """Points gained."""
        return None if self.before is None or self.after is None else self.after - self.before


def scored_sets(accuracies: list[Accuracy]) -> list[Scored]:
    """Pair the accuracies before and after."""
    found: dict[tuple[str, str], dict[str, Accuracy]] = {}
    for accuracy in accuracies:
        found.setdefault((accuracy.name, accuracy.protocol), {})[accuracy.stage] = accuracy
    return [
        Scored(
            name,
            max(accuracy.images for accuracy in pair.values()),
            protocol,
            pair["source_only"].percent if "source_only" in pair else None,
            pair["adapted"].percent if "adapted" in pair else None,
            any(accuracy.used_for_choice for accuracy in pair.values()),
        )
        for (name, protocol), pair in found.items()
    ]


def headline(verdict: Verdict) -> tuple[str, str]:
    """The verdict in one line, and its kind: good, bad or warning."""
    if verdict.helped:
        return "Adaptation helped.", "good"
    if verdict.helped is None:
        return "It is not clear whether adaptation helped.", "warning"
    if verdict.selected == "source":
        return "Adaptation did not help: the source network was selected.", "bad"
    if verdict.chosen_by == "user":
        return "Judged without labels, adaptation made it worse; you have selected the adapted network.", "warning"
    return "Adaptation seems to have made it worse; the adapted network was selected because of --force.", "bad"


def verdict_section(data: RunData) -> Section:
    """The first thing to read."""
    if data.summary is None:
        return Section("verdict", "Verdict", _unfinished(data))
    summary = data.summary
    line, kind = headline(summary.verdict)
    body = [
        tag("p", line, class_=f"headline {kind}"),
        tag("p", _selected(summary)),
        tag("ul", *(tag("li", _sentence(reason)) for reason in summary.verdict.reasons))
        if summary.verdict.reasons
        else "",
        *_labels_disagree(data, summary),
        tiles(_key_figures(summary)),
        _notes_link(data, summary),
    ]
    return Section("verdict", "Verdict", join(body), "Verdict")


def _unfinished(data: RunData) -> Html:
    steps = [step for curves in data.metrics.curves.values() for curve in curves.values() for step in curve]
    reached = f" It has reached step {count(max(steps))}." if steps else " Nothing has been recorded yet."
    return join(
        [
            tag("p", "This run has not finished.", class_="headline warning"),
            tag("p", f"There is no verdict yet; the curves below show how far it got.{reached} Resume with:"),
            command(run_command("adapt", "--resume", data.path)),
            note(data.problem, "warning") if data.problem else "",
        ]
    )


def _selected(summary: RunSummary) -> Html:
    what = "the adapted network" if summary.verdict.selected == "adapted" else "the source network, unchanged"
    which = f" (checkpoint: {summary.selected})" if summary.verdict.selected == "adapted" else ""
    which += ", as you have chosen" if summary.verdict.chosen_by == "user" else ""
    used = any(one.used_for_choice for one in summary.accuracies)
    return join(
        [
            MEANING[summary.verdict.helped],
            " No target label was used for this judgement",
            "; your choice went by the labels that were given for scoring. " if used else ". ",
            tag("code", "model.safetensors"),
            f" holds {what}{which}.",
        ]
    )


def _labels_disagree(data: RunData, summary: RunSummary) -> list[Html]:
    if summary.verdict.chosen_by == "user":
        return []
    gains = [one.gain for one in scored_sets(summary.accuracies) if one.gain is not None]
    if not gains:
        return []
    if summary.verdict.selected == "adapted" and max(gains) < -CLEAR:
        text = "The labelled images disagree: accuracy fell. Trust the labels; this selects the source network:"
        return [note(text, "bad"), command(run_command("reject", data.path))]
    if summary.verdict.selected == "source" and min(gains) > CLEAR:
        text = "The labelled images disagree: accuracy rose. Trust the labels; this selects the adapted network:"
        return [note(text, "warning"), command(run_command("accept", data.path))]
    return []


def _key_figures(summary: RunSummary) -> list[tuple[str, object, object]]:
    items: list[tuple[str, object, object]] = []
    for one in scored_sets(summary.accuracies)[:2]:
        if one.before is not None and one.after is not None and one.gain is not None:
            comment = f"{signed(one.gain)} points, {one.protocol}"
            items.append((f"Accuracy on {one.name}", f"{one.before:.1f} → {one.after:.1f}%", comment))
    share = f"{summary.changed_count / max(summary.target_images, 1):.0%} of the target images"
    items.append(("Predictions changed", count(summary.changed_count), share))
    if summary.ranks:
        shared = sum(min(layer.after) == 0 for layer in summary.ranks)
        items.append(("Layers shared", f"{shared} of {len(summary.ranks)}", "by both domains"))
    items.append(("Time", duration(sum(summary.seconds.values())), _longest(summary.seconds)))
    return items


def _longest(seconds: Mapping[TimedPart, float]) -> str:
    name, value = max(seconds.items(), key=lambda item: item[1], default=("", 0.0))
    return f"{name}: {duration(value)}" if name and len(seconds) > 1 else ""


def _notes_link(data: RunData, summary: RunSummary) -> Html:
    notes = {note.text for note in data.metrics.notes} | set(summary.notes)
    if not notes:
        return Html("")
    text = f"{plural(len(notes), 'health note')}: read before you rely on the result."
    return note(tag("a", text, href="#health"), "warning")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def accuracy_section(data: RunData) -> Section | None:
    """Accuracies with their stamps, then the label-free scores."""
    if data.summary is None or not (data.summary.accuracies or data.summary.scores):
        return None
    parts: list[object] = []
    sets = scored_sets(data.summary.accuracies)
    if sets:
        parts += [_accuracy_table(sets), *(tag("p", STAMPS[stamp], class_="muted small") for stamp in _stamps(sets))]
    else:
        parts.append(
            tag("p", "No labelled images were given for scoring (--evaluate DIR), so there is no accuracy here.")
        )
    if data.summary.scores:
        parts += [tag("h3", "Label-free scores"), _score_table(data.summary.scores)]
    return Section("scores", "Accuracy and scores", join(parts), "Scores")


def _stamps(sets: list[Scored]) -> list[str]:
    return sorted({one.protocol for one in sets})


def _accuracy_table(sets: list[Scored]) -> Html:
    columns: list[str | Column] = ["scored set", *(Column(name, True) for name in ("source only", "adapted", "change"))]
    rows = [
        (
            one.name,
            _percent(one.before),
            tag("strong", _percent(one.after)),
            "–" if one.gain is None else badge(signed(one.gain), _kind(one.gain, CLEAR)),
            join(
                [badge(one.protocol), *([" ", badge("used for the choice", "warning")] if one.used_for_choice else [])]
            ),
            count(one.images),
        )
        for one in sets
    ]
    used = any(one.used_for_choice for one in sets)
    caption = "Accuracy in per cent; labels were used for scoring only."
    if used:
        caption = "Accuracy in per cent; what the network was chosen by is no longer an independent estimate."
    return table([*columns, "protocol", Column("images", True)], rows, caption=caption)


def _score_table(scores: dict[str, tuple[float, float]]) -> Html:
    columns = [
        Column("score"),
        Column(""),
        Column("before", True),
        Column("after", True),
        Column("what it measures", wide=True),
    ]
    rows = []
    for name, (before, after) in scores.items():
        margin = 0.01 * max(abs(before), abs(after))
        kind = _kind(after - before, margin)
        word = {"good": "better", "bad": "worse", "": "same"}[kind]
        explanation = SCORES[name].explanation if name in SCORES else ""
        rows.append((score_name(name), badge(word, kind), number(before), number(after), explanation))
    return table(columns, rows, caption="Higher is better.")


def _kind(change: float, margin: float) -> str:
    return "good" if change > margin else "bad" if change < -margin else ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
