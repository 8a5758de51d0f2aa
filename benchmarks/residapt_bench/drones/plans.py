"""Detecting drones, UAV-200 and its stand-in: one plan for each run, and the settings of each method."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from residapt.config import load_config
from residapt.errors import ConfigError, DataError
from residapt.methods import check_method
from residapt.settings import merged
from residapt_bench.digits.plan import Plan, SourceRecipe, make_plans
from residapt_bench.digits.recipe_plans import method_settings
from residapt_bench.names import full_name, named, split_plus

TASKS = ("uav", "drone-standin")
METHODS = ("source_only", "fine_tune", "pooled", "dann_flip", "adda", "two_stream", "rpt_fixed", "rpt", "rpt+")
NEED_LABELS = ("fine_tune", "pooled")
PAPER: dict[str, tuple[float, float | None]] = {
    "source_only": (0.377, None),
    "dann_flip": (0.715, 0.004),
    "adda": (0.731, 0.005),
    "two_stream": (0.732, 0.003),
    "rpt": (0.743, 0.006),
}
"""Average precision on UAV-200: mean and standard deviation of 5 runs (Rozantsev et al. 2018, Table 5)."""
EARLIER: dict[str, float] = {"fine_tune": 0.612, "pooled": 0.569}
"""The same with the network of "Beyond Sharing Weights" (the authors' earlier paper), one number each."""

COMMON = {
    "train": {"steps": 400, "batch_size": 32, "log_every": 100},
    # The run is short, so that the proximal steps lie closer together than by default.
    "rank": {"every": 15},
}
"""Settings of all methods; what tries have chosen for a method comes after them."""


class DetectionPlan(Plan):
    """One run of a detection task."""

    labels: int = Field(200, ge=0)
    """Photographed drones with labels; the others of the training set are there without."""
    part: Literal["test", "validation"] = "test"
    """What is scored: the test, or a part of the training photographs that is then not trained on."""


class Choice(NamedTuple):
    """What the tries of a method have chosen."""

    settings: dict[str, Any]
    """Nested settings of loop and method."""
    tries: int
    """Of how many tries they were the best."""


def best_tries(records: Sequence[dict[str, Any]]) -> dict[str, Choice]:
    """For each method the settings with the highest mean precision on the validation part, over the tries' seeds."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        plan = record.get("plan", {})
        if plan.get("part") == "validation":
            method = full_name(plan["method"], plan["recipe"])
            found.setdefault(method, {}).setdefault(plan["note"], []).append(record)
    if not found:
        raise DataError("the records have no tries: runs with --validation, each setting with a --note of its own.")
    return {method: _best(tries) for method, tries in found.items()}


def _best(tries: Mapping[str, Sequence[dict[str, Any]]]) -> Choice:
    means = {note: statistics.fmean(run["ap"]["validation"] for run in runs) for note, runs in tries.items()}
    plan = tries[max(means, key=lambda note: means[note])][0]["plan"]
    return Choice(merged({"train": plan["train"]}, plan["settings"]), len(tries))


def detection_plans(
    task: str,
    methods: Iterable[str],
    seeds: Sequence[int],
    *,
    labels: Sequence[int] = (200,),
    changes: Sequence[str] = (),
    source: SourceRecipe | None = None,
    part: Literal["test", "validation"] = "test",
    chosen: Mapping[str, Choice] | None = None,
    note: str = "",
    tries: int = 1,
    arch: str = "uavnet",
) -> list[DetectionPlan]:
    """The plans of a grid, seeds in the outer loop; ``changes`` (``a.b=c``) come after the method's own settings."""
    plans: list[DetectionPlan] = []
    for name in methods:
        method = split_plus(name)[0]
        check_method(method)
        choice = (chosen or {}).get(name, Choice({}, tries))
        config = load_config(None, changes, base=merged({**COMMON, **named(name)}, choice.settings))
        made = make_plans(
            task,
            arch,
            [method],
            seeds,
            train=config.train,
            settings=method_settings(config),
            source=source or SourceRecipe(steps=1000, batch_size=64),
            recipe="plus" if config.recipe == "plus" else "common",
            standardise=config.model.standardise,
            note=note,
            tries=choice.tries,
        )
        for count in _counts(method, labels):
            plans += [DetectionPlan(**dict(plan), labels=count, part=part) for plan in made]
    return sorted(plans, key=lambda plan: plan.seed)


def _counts(method: str, labels: Sequence[int]) -> Sequence[int]:
    if method == "source_only":  # it reads no labels of the target: one run serves all counts
        return [0]
    if method in NEED_LABELS and 0 in labels:
        raise ConfigError(
            f"method '{method}' learns from labelled target images; without any it is source_only. "
            f"Leave 0 out of --labels {','.join(map(str, labels))} for it."
        )
    return labels
