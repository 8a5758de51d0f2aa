"""Where the time of a run went."""

from __future__ import annotations

from residapt.report.html import join, tag
from residapt.report.page import Section
from residapt.report.run_data import RunData
from residapt.report.tables import Column, table
from residapt.report.words import count, duration
from residapt.storage.summary import TimedPart

PARTS: dict[TimedPart, str] = {
    "reading": "Reading and checking the images, building the network.",
    "planning": "Measuring how long a step takes here; choosing what to freeze and how many steps to train for.",
    "frozen stages": "Outputs of the frozen stages for the images and their augmented views, computed once.",
    "source training": "Training the source network on the labelled source images.",
    "adaptation": "Adapting it to the target.",
    "checks": "Scores and checks of predictions while training went on.",
    "scoring": "Final scores of both networks.",
    "report": "Writing the networks, the adapter and this page.",
}
"""What each part of a run is."""
NOT_TRAINING: tuple[TimedPart, ...] = ("checks", "scoring", "report")


def time_section(data: RunData) -> Section | None:
    """Each part of the run with its time."""
    if data.summary is None or not data.summary.seconds:
        return None
    seconds, steps = data.summary.seconds, data.summary.steps
    whole = max(sum(seconds.values()), 1e-9)
    rows: list[tuple[object, ...]] = [
        (name, _time(seconds[name]), f"{seconds[name] / whole:.0%}", count(steps[name]) if name in steps else "", text)
        for name, text in PARTS.items()
        if name in seconds
    ]
    rows.append((tag("b", "all"), tag("b", _time(whole)), "", "", ""))
    columns: tuple[str | Column, ...] = (
        "part",
        *(Column(name, True) for name in ("time", "share", "steps")),
        Column("what it is", wide=True),
    )
    apart = sum(seconds.get(name, 0.0) for name in NOT_TRAINING) / whole
    text = tag("p", f"Checks, final scores and the report took {apart:.0%} of the time.")
    return Section("time", "Time", join([table(columns, rows, caption="Time of each part."), text]), "Time", folds=True)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
