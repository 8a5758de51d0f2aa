"""One run of a grid: warm start, adaptation, evaluation, record."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residapt.distributed import Engine
from residapt.evaluate.guard import measure
from residapt.evaluate.predict import accuracy
from residapt.methods import MethodConfig
from residapt.methods.fit import make_trainer, source_pair
from residapt.methods.rounds import Round
from residapt.models.specs import build_model
from residapt.models.standardise import standardised
from residapt.train import Callback, Trainer
from residapt.train.curve import Curve
from residapt_bench.budget import is_warm_start
from residapt_bench.digits.class_counts import with_truth
from residapt_bench.digits.layer_choice import stream_mmd
from residapt_bench.digits.looked_at import LookedAt
from residapt_bench.digits.plan import Plan
from residapt_bench.digits.tasks import Task, load_task
from residapt_bench.digits.warm_start import cached_source_network
from residapt_bench.report.agreement import class_text
from residapt_bench.run_record import train_and_record

NUM_CLASSES = 10


def execute(plan: Plan, *, root: Path, cache: Path, callbacks: Iterable[Callback] = ()) -> dict[str, Any]:
    """Run a plan and give its record. The last iterate counts; target labels are used here, at the end, only."""
    task = load_task(plan.task, plan.arch, root, plan.pixels, plan.counts)
    network = warm_start(plan, task, cache)
    looked_at = LookedAt(task, plan.settings.transform.features)
    before_evidence = looked_at.before(network)
    trained = is_warm_start(plan.method, plan.source.steps)
    train = plan.train.model_copy(update={"steps": 0}) if trained else plan.train
    curve = Curve([task.evaluations[0]], train.evaluate_every)

    def make(turn: Round) -> Trainer:
        return make_trainer(
            plan.method,
            copy.deepcopy(network),
            task.pair,
            method=turn.settings,
            train=turn.train,
            callbacks=(*callbacks, curve),
            engine=Engine(precision=plan.precision),
            target_labels=task.evaluations[1].data if plan.method == "target_only" else None,
        )

    method, record = train_and_record(plan, train, make, looked_at.target)
    after = looked_at.after(method)
    if plan.method == "two_stream":
        record["stream_mmd"] = stream_mmd(after.source_logits, after.target_logits)
    return {
        **record,
        "accuracy": {item.name: round(accuracy(method, item), 3) for item in task.evaluations},
        "protocols": {item.name: item.protocol for item in task.evaluations},
        "label_free": measure(before_evidence, after),
        "predicted": class_text(after.target_logits),
        "curve": curve.points,
        **with_truth(method.record(), task.evaluations[1].data.labels),
        "data": {"official": task.official, "files": task.files},
    }


def warm_start(plan: Plan, task: Task, cache: Path) -> nn.Module:
    """The network trained on the source, from the cache where another run has made it already."""

    def build() -> nn.Module:
        torch.manual_seed(plan.source.seed)
        network = build_model(plan.arch, num_classes=NUM_CLASSES, in_channels=_channels(task))
        if plan.standardise:
            standardised(network)
        return network

    path = cache / f"{plan.task.split('-')[0]}-{plan.arch.replace(':', '_')}-{_source_key(plan)}.safetensors"
    method = MethodConfig(augment=plan.settings.augment)
    engine = Engine(precision=plan.precision)
    return cached_source_network(path, build, source_pair(task.pair.source), plan.source.loop(), method, engine)


def _source_key(plan: Plan) -> str:
    scaled = "" if plan.pixels == "[-1, 1]" else plan.pixels
    changed = plan.settings.augment.model_dump_json() if plan.settings.augment.build() else ""
    chosen = plan.counts if plan.counts == "balanced" else ""  # the others leave the source as it is
    precision = "" if plan.precision == "float32" else plan.precision
    input_key = scaled + ("standardised" if plan.standardise else "") + changed + chosen + precision
    return hashlib.sha256((plan.source.model_dump_json() + input_key).encode()).hexdigest()[:12]


def _channels(task: Task) -> int:
    index = torch.zeros(1, dtype=torch.long)
    return int(task.pair.source.images.fetch(index, torch.Generator()).shape[1])
