"""What a run directory holds: configuration, curves and, once it has finished, the summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residapt.config import Config, describe_config, load_config, read_toml
from residapt.errors import ResidaptError
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary

Curve = dict[int, float]
"""Value by step."""


@dataclass(frozen=True)
class Setting:
    """One line of the configuration."""

    key: str
    value: str
    explanation: str
    changed: bool
    """Whether it differs from the default."""


@dataclass(frozen=True)
class Note:
    """A health note; ``step`` is None for those of the summary alone."""

    text: str
    step: int | None = None


@dataclass(frozen=True)
class Metrics:
    """The lines of metrics.jsonl, sorted out."""

    curves: dict[tuple[str, str], dict[str, Curve]]
    """By (stage, kind) and name; the kinds are ``step``, ``accuracy`` and ``scores``."""
    ranks: Curve
    """Sum of all ranks."""
    notes: list[Note]


@dataclass(frozen=True)
class RunData:
    """Everything the page shows."""

    path: Path
    settings: list[Setting]
    metrics: Metrics
    summary: RunSummary | None
    problem: str
    """What is wrong with the summary, where there is one that cannot be read."""

    def setting(self, key: str) -> str:
        """The value of a setting as text, or nothing."""
        return next((setting.value for setting in self.settings if setting.key == key), "")


def read_run(run: RunDirectory) -> RunData:
    """Read what is there; a run that has not finished has no summary, and its last line may be cut."""
    summary, problem = None, ""
    try:
        summary = read_summary(run.summary)
    except ResidaptError as error:
        problem = str(error) if run.summary.exists() else ""
    return RunData(run.path, read_settings(run.config), read_metrics(run.metrics), summary, problem)


def read_settings(path: Path) -> list[Setting]:
    """All settings with explanations; of a configuration by another version, what the file holds."""
    values = read_toml(path)
    try:
        config = Config.parse(values, where=str(path))
    except ResidaptError:
        return [Setting(key, _show(value), "", False) for key, value in _flatten(values)]
    defaults = {key: value for key, value, _ in describe_config(load_config())}
    return [
        Setting(key, _show(value), explanation.replace("``", ""), value != defaults.get(key))
        for key, value, explanation in describe_config(config)
    ]


def read_metrics(path: Path) -> Metrics:
    """Curves, ranks and notes. Where a resumed run wrote a step twice, the later line counts."""
    found = Metrics({}, {}, [])
    for line in _lines(path):
        step, kind = line.get("step"), line.get("kind")
        if not isinstance(step, int):
            continue
        if kind == "note":
            found.notes.append(Note(str(line.get("text", "")), step))
        elif isinstance(line.get("values"), dict):
            stage = str(line.get("stage", "adapt"))
            _add(found.curves.setdefault((stage, str(kind)), {}), step, line["values"])
            if line.get("ranks") and stage != "source":
                found.ranks[step] = float(sum(sum(pair) for pair in line["ranks"].values()))
    return found


def _add(curves: dict[str, Curve], step: int, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            curves.setdefault(name, {})[step] = float(value)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _show(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, default=str)
