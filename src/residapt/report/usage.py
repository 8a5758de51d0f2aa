"""How to use the result: commands to copy."""

from __future__ import annotations

import shlex
from pathlib import Path

from residapt.report.html import join, tag
from residapt.report.page import Section, command
from residapt.report.run_data import RunData


def run_command(verb: str, *parts: str | Path) -> str:
    """A residapt command for a shell, with file names quoted."""
    return " ".join(["residapt", verb, *(shlex.quote(str(part)) for part in parts)])


def usage_section(data: RunData) -> Section | None:
    """What to do with a finished run."""
    if data.summary is None:
        return None
    run = data.path
    items = [
        ("Classify new images", run_command("predict", run, "images/", "-o", "predictions.csv")),
        ("Score it on labelled images", run_command("eval", run, "labelled/")),
        ("Export it: ONNX for other languages and phones", run_command("export", run, "--format", "onnx")),
        ("Show layers, ranks and sizes", run_command("inspect", run)),
        ("Name the images whose labels would help most", run_command("suggest", run, "-o", "few.csv")),
        _other_choice(data.summary.verdict.selected, run),
    ]
    parts: list[object] = []
    for title, text in items:
        parts += [tag("p", title), command(text)]
    if data.summary.verdict.selected == "adapted":
        parts += [tag("p", "In Python, on top of the network you already have"), command(_python(run / "adapter"))]
    return Section("use", "How to use the result", join(parts), "Use it", folds=True)


def _other_choice(selected: str, run: Path) -> tuple[str, str]:
    if selected == "adapted":
        return "Select the source network instead", run_command("reject", run)
    return "Select the adapted network, which was rejected", run_command("accept", run)


def _python(adapter: Path) -> str:
    load = f"network = residapt.load(model, {str(adapter)!r})"
    return f'import residapt\n\n{load}\nlogits = network(images, stream="target")'
