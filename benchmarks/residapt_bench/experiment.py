"""One run of any benchmark: source network, adaptation, scores, record. A benchmark is an :class:`Experiment`."""

from __future__ import annotations

import copy
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Images, Labelled
from residapt.distributed import Engine
from residapt.evaluate.collect import collect, plain_streams
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.measurements import measure
from residapt.evaluate.predict import Evaluation, accuracy
from residapt.methods.fit import make_trainer
from residapt.methods.parameters import count_parameters
from residapt.methods.rounds import Round, in_rounds
from residapt.train import Callback, Method
from residapt_bench.digits.class_counts import with_truth
from residapt_bench.digits.layer_choice import stream_mmd
from residapt_bench.plan import Plan, RecordedPlan, Setup, SourceTraining
from residapt_bench.record import BeforeAfter, DataFiles, Environment, Ranks, Record, Score, Sizes
from residapt_bench.score_curve import ScoreCurve
from residapt_bench.source_networks import network_hash, source_network


@dataclass(frozen=True)
class Defaults:
    """What a benchmark sets before an experiment file changes anything."""

    arch: str
    values: Mapping[str, Any]
    """Settings as the library's configuration has them."""
    setup: Setup
    source: SourceTraining


@dataclass(frozen=True)
class TaskData:
    """A task in the form that a run reads, and the sets that are only scored."""

    pair: DomainPair
    evaluations: tuple[Evaluation, ...]
    """The first one is the reported one."""
    source_key: str
    """What the source images are, to recognise the source network that was trained on them."""
    files: DataFiles
    target_labels: Labelled | None = None
    """For the oracle, and for the true class frequencies in the record; no other method is given them."""
    compared: tuple[Labelled, Images] | None = None
    """Held-out source and unlabelled target images for the label-free scores, where there are any."""


class Experiment(Protocol):
    """A benchmark: what to load, which network to start from, how to score."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of its tasks."""
        ...

    def defaults(self, task: str, method: str, recipe: str, setup: Mapping[str, Any]) -> Defaults:
        """Settings of a method; ``setup`` are those of the benchmark that an experiment file changes."""
        ...

    def load(self, plan: Plan, root: Path, cache: Path) -> TaskData:
        """Both domains and the sets that are scored."""
        ...

    def network(self, plan: Plan, data: TaskData, root: Path) -> nn.Module:
        """The network before it is trained on the source."""
        ...

    def score(self, method: Method, evaluation: Evaluation) -> Score:
        """How good the trained method is on one set."""
        ...


def experiments() -> dict[str, Experiment]:
    """Every benchmark by the name that ``setup.kind`` has."""
    from residapt_bench.digits.experiment import DigitExperiment
    from residapt_bench.drones.experiment import DroneExperiment
    from residapt_bench.office31.experiment import OfficeExperiment

    return {"digits": DigitExperiment(), "office31": OfficeExperiment(), "drones": DroneExperiment()}


def execute(plan: Plan, *, root: Path, cache: Path, callbacks: Sequence[Callback] = ()) -> Record:
    """Execute a plan. The last iterate counts; labels of the target are used here, after training, only."""
    experiment = experiments()[plan.setup.kind]
    data = experiment.load(plan, root, cache)
    network = source_network(plan, partial(experiment.network, plan, data, root), data, cache, callbacks)
    before = (
        None
        if data.compared is None
        else _evidence(plain_streams(network, plan.settings.transform.features), data, "source")
    )
    unlabelled = None if data.compared is None else data.compared[1]
    curve = ScoreCurve([data.evaluations[0]], plan.train.evaluate_every, unlabelled)
    started = time.monotonic()
    trained, rounds = _train(plan, network, data, (*callbacks, curve))
    method, seconds = trained.method, time.monotonic() - started
    after = None if before is None else _evidence(method.streams, data, _stream(plan))
    return Record(
        key=plan.key(),
        plan=recorded(plan),
        scores={item.name: experiment.score(method, item) for item in data.evaluations},
        selection="last iterate" if method.streams.average is None else "average at the end",
        source_sha256=network_hash(network),
        ranks=BeforeAfter(before=trained.ranks, after=method.streams.ranks()),
        parameters=Sizes(before=trained.parameters, after=asdict(count_parameters(method))),
        label_free=measure(before, after) if before is not None and after is not None else {},
        predicted=class_text(after.target_logits) if after is not None else "",
        curve=tuple(curve.points),
        prior=_prior(method, data),
        rounds=tuple(rounds) if len(rounds) > 1 else (),
        stream_mmd=_stream_mmd(plan, after),
        labelled=0 if data.pair.few is None else int(data.pair.few.labels.count_nonzero()),
        seconds=round(seconds, 1),
        peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        data=data.files,
        environment=Environment.here(),
    )


@dataclass(frozen=True)
class _Trained:
    """A trained method, and its size before."""

    method: Method
    ranks: Ranks
    parameters: dict[str, int]


def _train(
    plan: Plan, network: nn.Module, data: TaskData, callbacks: Sequence[Callback]
) -> tuple[_Trained, list[dict[str, Any]]]:
    """Train to the end, several times where the class frequencies ask for it, always from the same network."""
    train = plan.train.model_copy(update={"steps": 0}) if plan.is_source_network else plan.train

    sizes: list[tuple[Ranks, dict[str, int]]] = []

    def run(turn: Round) -> Method:
        trainer = make_trainer(
            plan.method,
            copy.deepcopy(network),
            data.pair,
            method=turn.settings,
            train=turn.train,
            callbacks=callbacks,
            engine=Engine(precision=plan.precision),
            target_labels=data.target_labels if plan.method == "target_only" else None,
        )
        sizes.append((trainer.method.streams.ranks(), asdict(count_parameters(trainer.method))))
        return trainer.run()

    target = data.pair.target if data.compared is None else data.compared[1]
    method, story = in_rounds(Round(plan.settings, train), run, target)
    return _Trained(method, *sizes[-1]), story


def recorded(plan: Plan) -> RecordedPlan:
    """The plan as a record holds it."""
    return RecordedPlan.model_validate(plan.model_dump(mode="json"))


def accuracy_score(method: Method, evaluation: Evaluation) -> Score:
    """Accuracy alone, with the protocol."""
    return Score(accuracy=round(accuracy(method, evaluation), 3), protocol=evaluation.protocol)


def class_text(logits: Tensor) -> str:
    """The predicted classes as one string, a digit for each image; empty where there are more than ten classes."""
    return "".join(str(label) for label in logits.argmax(1).tolist()) if logits.shape[1] <= 10 else ""


def _stream(plan: Plan) -> str:
    return "source" if plan.method == "source_only" else "target"


def _evidence(streams: Any, data: TaskData, stream: str) -> Evidence:
    """Outputs of a network on the images of the label-free scores."""
    assert data.compared is not None
    held_out, target = data.compared
    return collect(streams, held_out, target, target_stream=stream, device=torch.device("cpu"))  # type: ignore[arg-type]


def _prior(method: Method, data: TaskData) -> dict[str, Any] | None:
    """Assumed class frequencies, beside the true ones where they are known."""
    prior = method.record().get("prior")
    if prior is None or data.target_labels is None:
        return prior
    return with_truth(prior, data.target_labels.labels)


def _stream_mmd(plan: Plan, after: Evidence | None) -> float | None:
    if plan.method != "two_stream" or after is None:
        return None
    return stream_mmd(after.source_logits, after.target_logits)
