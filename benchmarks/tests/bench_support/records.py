"""Records of made-up runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residapt_bench.plan import DigitSetup, DroneSetup, OfficeSetup, RecordedPlan, SourceTraining
from residapt_bench.proving_ground.grid import GroundRecord, GroundRun
from residapt_bench.record import BeforeAfter, Environment, Record, Score, Sizes

ENVIRONMENT = Environment(residapt="0", torch="0", python="0")
SETUPS = {"digits": DigitSetup(), "office31": OfficeSetup(), "drones": DroneSetup()}


def digit_record(method: str = "rpt", accuracy: float = 80.0, *, steps: int = 2000, **more: Any) -> Record:
    """A run on SVHN to MNIST; ``more`` are fields of the plan or of the record, and settings of the method."""
    scores = {
        "target_test": Score(accuracy=accuracy),
        "target_train": Score(accuracy=accuracy - 1, protocol="transductive"),
        "source_test": Score(accuracy=90.0),
    }
    return make_record("digits", method, scores, steps=steps, **{"task": "svhn-mnist", "arch": "lenet", **more})


def office_record(task: str, method: str, accuracy: float, **more: Any) -> Record:
    """A run on Office-31."""
    scores = {"target": Score(accuracy=accuracy, protocol="transductive")}
    settings = {"average": {"decay": 0.995}}
    more = {"arch": "timm:tf_efficientnet_lite0", "settings": settings, **more}
    return make_record("office31", method, scores, task=task, steps=1500, **more)


def drone_record(method: str, precision: float, *, labels: int = 200, part: str = "test", **more: Any) -> Record:
    """A run on the stand-in."""
    names = {"validation": precision} if part == "validation" else {"target_test": precision, "second": precision / 2}
    scores = {name: Score(accuracy=50.0, average_precision=value) for name, value in names.items()}
    setup = DroneSetup(labels=labels, part=part)  # type: ignore[arg-type]
    more = {"task": "drone-standin", "arch": "uavnet", "setup": setup, **more}
    return make_record("drones", method, scores, steps=400, **more)


def make_record(kind: str, method: str, scores: dict[str, Score], *, steps: int, **more: Any) -> Record:
    """A record of one of the benchmarks."""
    in_plan = {name: more.pop(name) for name in list(more) if name in RecordedPlan.model_fields}
    before, after = more.pop("before", {}), more.pop("after", {})
    base = {"setup": SETUPS[kind], "source": SourceTraining(), "seed": 0, "settings": {}}
    plan = RecordedPlan(**{**base, "method": method, "train": {"steps": steps}, **in_plan})
    accuracy = next(iter(scores.values())).accuracy
    return Record(
        **{
            "key": f"{plan.task} {plan.label} {plan.seed} {plan.note} {steps} {accuracy}",
            "plan": plan,
            "scores": scores,
            "ranks": BeforeAfter(before=before, after=after),
            "parameters": Sizes(before={"network": 1000, "transform": 50}, after={"transform": 5, "deployed": 1000}),
            "environment": ENVIRONMENT,
            **more,
        }
    )


NEUTRAL = {
    "source_accuracy": (0.9, 0.9),
    "class_ami": (0.5, 0.5),
    "anchored_ami": (0.5, 0.5),
    "infomax": (1.0, 1.0),
    "sure_agreement": (1.0, 1.0),
    "frequency_shift": (0.0, 0.0),
    "lost_mass": (0.0, 0.0),
    "renamed_classes": (0.0, 0.0),
}
"""What the guard reads of a run in which nothing changed."""


def ground_record(
    pair: str,
    recipe: str,
    source: float,
    adapted: float,
    *,
    seed: int = 0,
    votes: Mapping[str, tuple[float, float]] | None = None,
    **more: Any,
) -> GroundRecord:
    """A run of the proving ground, with what the guard reads of it."""
    return GroundRecord(
        run=GroundRun(pair=pair, recipe=recipe, seed=seed),
        metric="accuracy",
        source=source,
        adapted=adapted,
        selected=adapted,
        measurements={**NEUTRAL, **(votes or {})},
        pair_sha256="",
        environment=ENVIRONMENT,
        **more,
    )
