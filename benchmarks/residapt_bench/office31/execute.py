"""One run of Office-31 and the resumable grid of them: what has a record is not run again."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from residapt.data.domains import DomainPair, Labelled
from residapt.errors import DataError
from residapt.evaluate.collect import collect, plain_streams
from residapt.evaluate.guard import measure
from residapt.evaluate.predict import Evaluation, accuracy
from residapt.methods.fit import make_trainer
from residapt.methods.rounds import Round
from residapt.streams import TwoStream
from residapt.train import Method, Trainer
from residapt.train.curve import Curve
from residapt_bench.names import full_name
from residapt_bench.office31.images import Domain, load_domain
from residapt_bench.office31.network import warm_start
from residapt_bench.office31.plans import OfficePlan
from residapt_bench.resumable import pending, run_pending
from residapt_bench.run_record import train_and_record

Record = dict[str, Any]


def execute_office(plan: OfficePlan, *, root: Path, cache: Path) -> Record:
    """Run a plan and give its record. The last iterate counts; target labels are used here, at the end, only."""
    source, target = (load_domain(name, plan.network, root, cache) for name in plan.domains)
    training = Labelled(source.training(), source.labels)
    evaluations = (
        Evaluation("target", target.scored(), protocol="transductive"),
        Evaluation("source", source.scored(), stream="source", protocol="transductive"),
    )
    network = warm_start(plan, training, root, cache, _source_key(plan, source))
    features = plan.settings.transform.features
    before_evidence = collect(
        plain_streams(network, features), source.scored(), target.scored().images, target_stream="source", device=CPU
    )
    # The warm start is the source-only network already.
    train = plan.train.model_copy(update={"steps": 0}) if plan.method == "source_only" else plan.train
    curve = Curve([evaluations[0]], train.evaluate_every)

    def make(turn: Round) -> Trainer:
        return make_trainer(
            plan.method,
            copy.deepcopy(network),
            DomainPair(training, target.training()),
            method=turn.settings,
            train=turn.train,
            callbacks=(curve,),
            target_labels=Labelled(target.training(), target.labels) if plan.method == "target_only" else None,
        )

    method, record = train_and_record(plan, train, make, target.scored().images)
    return {
        **record,
        "bench": "office31",
        "accuracy": {item.name: round(accuracy(method, item), 3) for item in evaluations},
        "protocols": {item.name: item.protocol for item in evaluations},
        "label_free": measure(before_evidence, _after(method, source, target)),
        "curve": curve.points,
        "data": {name: domain.checksum for name, domain in zip(plan.domains, (source, target), strict=True)},
    }


CPU = torch.device("cpu")


def _after(method: Method, source: Domain, target: Domain) -> Any:
    two: TwoStream = method.two
    stream = "source" if method.name == "source_only" else "target"
    return collect(two, source.scored(), target.scored().images, target_stream=stream, device=CPU)  # type: ignore[arg-type]


def _source_key(plan: OfficePlan, source: Domain) -> str:
    parts = (plan.network.model_dump_json(), plan.source.model_dump_json(), source.checksum)
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:12]


def run_office(plans: Iterable[OfficePlan], *, out: Path, root: Path, cache: Path, **settings: Any) -> None:
    """Run all plans that have no record; settings are those of :func:`residapt_bench.resumable.run_pending`."""
    work = partial(run_office_plan, root=root.absolute(), cache=cache.absolute())
    run_pending(pending(plans, out), work, out=out, name=office_name, **settings)


def run_office_plan(plan: OfficePlan, *, root: Path, cache: Path) -> Record:
    """One run, with one thread."""
    torch.set_num_threads(1)
    if not (root / "office31").is_dir():
        raise DataError(f"'{root}' has no folder 'office31' with the domains amazon, webcam and dslr; give --data.")
    return execute_office(plan, root=root, cache=cache)


def office_name(plan: OfficePlan) -> str:
    """A run, for messages."""
    note = f", {plan.note}" if plan.note else ""
    return f"office31 {plan.task} {full_name(plan.method, plan.recipe)} seed {plan.seed}{note}"
