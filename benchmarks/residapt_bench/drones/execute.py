"""One run of a detection task and the resumable grid of them: what has a record is not run again."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residapt.evaluate.metrics import OneAgainstRest, average_precision
from residapt.evaluate.predict import Evaluation, evaluating, logits_of
from residapt.methods.fit import make_trainer, source_pair
from residapt.methods.rounds import Round
from residapt.models.specs import build_model
from residapt.models.standardise import standardised
from residapt.train import Method, Trainer
from residapt_bench.digits.tasks import Task
from residapt_bench.digits.warm_start import cached_source_network
from residapt_bench.drones.plans import DetectionPlan
from residapt_bench.drones.task import CLASSES, detection_task, load_data
from residapt_bench.names import full_name
from residapt_bench.resumable import pending, run_pending
from residapt_bench.run_record import train_and_record

Record = dict[str, Any]
SCORED = ("ap", "accuracy", "positives", "negatives")


def execute_detection(plan: DetectionPlan, *, root: Path, cache: Path) -> Record:
    """Run a plan and give its record. The last iterate counts; labels of the test are used here, at the end, only."""
    data = load_data(plan.task, root, cache, validation=plan.part == "validation")
    task = detection_task(data, plan)
    network = warm_start(plan, task, cache)
    # The warm start is the source-only network already.
    train = plan.train.model_copy(update={"steps": 0}) if plan.method == "source_only" else plan.train

    def make(turn: Round) -> Trainer:
        return make_trainer(plan.method, copy.deepcopy(network), task.pair, method=turn.settings, train=turn.train)

    method, record = train_and_record(plan, train, make, task.pair.target)
    scores = {item.name: score(method, item) for item in task.evaluations}
    return {
        **record,
        "bench": "detection",
        **{what: {name: found[what] for name, found in scores.items()} for what in SCORED},
        "labelled": 0 if task.pair.few is None else int(task.pair.few.labels.sum()),
        "data": {"official": task.official, "files": task.files},
    }


def score(method: Method, evaluation: Evaluation) -> dict[str, float]:
    """Average precision of the drones, and accuracy in per cent, which says little where negatives abound."""
    labels = evaluation.data.labels
    with evaluating(method):
        device = next(method.parameters()).device
        logits = logits_of(lambda x: method.predict(x, evaluation.stream), evaluation.data.images, device=device)
    drone = CLASSES.index("drone")
    return {
        "ap": round(average_precision(OneAgainstRest(logits).log_odds(drone), labels == drone), 5),
        "accuracy": round(100.0 * float((logits.argmax(1) == labels).double().mean()), 3),
        "positives": int((labels == drone).sum()),
        "negatives": int((labels != drone).sum()),
    }


def warm_start(plan: DetectionPlan, task: Task, cache: Path) -> nn.Module:
    """The network trained on the source, from the cache where another run of the seed has made it already."""

    def build() -> nn.Module:
        torch.manual_seed(plan.source.seed)
        network = build_model(plan.arch, num_classes=len(CLASSES), in_channels=1)
        return standardised(network) if plan.standardise else network

    text = f"{plan.source.model_dump_json()} {task.files} {plan.part if plan.task == 'uav' else ''}"
    text += " standardised" if plan.standardise else ""
    path = cache / f"{plan.task}-{plan.arch}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.safetensors"
    return cached_source_network(path, build, source_pair(task.pair.source, "classes"), plan.source.loop())


def run_detection(plans: Iterable[DetectionPlan], *, out: Path, root: Path, cache: Path, **settings: Any) -> None:
    """Run all plans that have no record; settings are those of :func:`residapt_bench.resumable.run_pending`."""
    work = partial(run_detection_plan, root=root.absolute(), cache=cache.absolute())
    run_pending(pending(plans, out), work, out=out, name=detection_name, **settings)


def run_detection_plan(plan: DetectionPlan, *, root: Path, cache: Path) -> Record:
    """One run, with one thread."""
    torch.set_num_threads(1)
    return execute_detection(plan, root=root, cache=cache)


def detection_name(plan: DetectionPlan) -> str:
    """A run, for messages."""
    note = f", {plan.note}" if plan.note else ""
    return f"{plan.task} {full_name(plan.method, plan.recipe)} {plan.labels} labels seed {plan.seed}{note}"
