"""The stages of a run. Each leaves its result on disk, so that a run that was stopped can go on at the right one.

1. The source network is trained, if it needs it: ``source.safetensors``.
2. The method adapts it to the target: ``checkpoint/`` on the way.
3. :mod:`residapt.run.judge` judges the result and writes it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import nn

from residapt.config import Config, load_config, write_config
from residapt.data.labelled_target import write_records
from residapt.methods.fit import make_trainer, source_pair
from residapt.methods.rounds import Round, in_rounds
from residapt.models import load_weights
from residapt.run.along import ScoresAlong
from residapt.run.networks import logits_in
from residapt.run.pace import source_settings
from residapt.run.request import Plan
from residapt.run.resume import resumable
from residapt.storage.atomic import atomic_file
from residapt.storage.checkpoint import steps_in
from residapt.storage.model_file import write_model
from residapt.storage.run_directory import RunDirectory
from residapt.streams.merge import merge_and_unload
from residapt.train import Callback, Method, Trainer
from residapt.train.callbacks import CallbackState
from residapt.train.checkpoint import restore_checkpoint
from residapt.train.early_stopping import EarlyStopping, run_with_early_stopping
from residapt.train.health import HealthMonitor
from residapt.train.metrics import MetricsFile
from residapt.train.progress import ProgressBar
from residapt.train.tensorboard import TensorBoard

SAVES = 10
"""Checkpoints while the source network is trained."""


class Notes(Callback):
    """Collect what people should know."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """Each text once."""
        if notice not in self.texts:
            self.texts.append(notice)

    def state(self) -> CallbackState:
        """The texts so far."""
        return CallbackState({"texts": self.texts})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Go on with the texts so far."""
        self.texts = list(state.values["texts"])


@dataclass(frozen=True, eq=False)
class Adapted:
    """What the second stage gives."""

    method: Method
    selected: str
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Adapting:
    """A training of the second stage, with what listens to it; a round that had ended before has no listeners."""

    trainer: Trainer
    along: ScoresAlong | None = None
    notes: Notes = field(default_factory=Notes)

    @property
    def method(self) -> Method:
        """As it is at the end."""
        return self.trainer.method


def begin(plan: Plan, run: RunDirectory | None) -> None:
    """Write the configuration, and tell what was found out about the data; a run that goes on has told it."""
    if plan.resume and run is not None:
        if plan.engine.is_main and load_config(run.config) != plan.config:
            with atomic_file(run.config, overwrite=True) as file:
                write_config(plan.config, file)
        return
    for note in plan.notes:
        plan.say(f"note: {note}")
    if run is None or not plan.engine.is_main:
        return
    if plan.labelled:
        write_records(plan.labelled, run.labelled)
    write_config(plan.config, run.config)
    metrics = MetricsFile(run.metrics, stage="start")
    for note in plan.notes:
        metrics.write("notice", step=0, text=note)


def source_stage(plan: Plan, run: RunDirectory | None) -> nn.Module:
    """The source network: trained now, or as it was given."""
    started = time.monotonic()
    network = plan.network
    if plan.train_source:
        network = _train_source(plan, run)
    if run is not None and plan.engine.is_main and not (plan.resume and run.source.exists()):
        metadata = plan.metadata.model_copy(update={"method": "source_only"})
        write_model(network, run.source, metadata)
    plan.seconds["source"] = time.monotonic() - started
    return network


def _train_source(plan: Plan, run: RunDirectory | None) -> nn.Module:
    settings = source_settings(plan.config)
    trainer = make_trainer(
        "source_only",
        plan.network,
        source_pair(plan.pair.source, plan.pair.balance),
        method=plan.config,
        train=settings,
        callbacks=_listeners(plan, run, "source"),
        engine=plan.engine,
    )
    if plan.resume and run is not None and run.source.exists():
        load_weights(trainer.method.two.model, run.source)
        return merge_and_unload(trainer.method.two)
    every = max(1, settings.steps // plan.config.source.checks)
    patience = plan.config.source.patience
    stopping = EarlyStopping(plan.held_out, every=every, patience=patience, balance=plan.pair.balance)
    with resumable(trainer, run, "source", every=max(1, settings.steps // SAVES)):
        best = run_with_early_stopping(trainer, stopping)
    plan.say(f"source network: {best.accuracy:.1f} % on held-out source images after {best.step} steps")
    return merge_and_unload(trainer.method.two)


def adapt_trainer(plan: Plan, run: RunDirectory | None, source: nn.Module, turn: Round[Config]) -> Adapting:
    """The trainer of a round of the second stage, not yet started, with what listens to it."""
    config = plan.config
    notes = Notes(plan.notes)
    listeners = _listeners(plan, run, "adapt")
    # The same file for the scores: its clock is in the checkpoints, so that it goes on after a stop.
    metrics = next((item for item in listeners if isinstance(item, MetricsFile)), None)
    along = ScoresAlong(
        plan.held_out,
        plan.seen,
        every=config.train.evaluate_every,
        select=config.select,
        evaluation=plan.evaluation,
        metrics=metrics,
    )
    health = HealthMonitor(
        plan.held_out,
        plan.watched,
        plan.classes,
        config.health,
        before=lambda x: logits_in(source(x)),
        checkpoint=None if run is None else run.checkpoint,
    )
    return Adapting(_round_trainer(plan, source, turn, [*listeners, health, along, notes]), along, notes)


def _round_trainer(plan: Plan, source: nn.Module, turn: Round[Config], callbacks: Iterable[Callback]) -> Trainer:
    return make_trainer(
        plan.config.method,
        copy.deepcopy(source),
        plan.pair,
        method=turn.settings,
        train=turn.train,
        callbacks=callbacks,
        engine=plan.engine,
    )


def adapt_stage(plan: Plan, run: RunDirectory | None, source: nn.Module) -> Adapted:
    """Adapt a copy of the source network to the target, in as many rounds as the class frequencies ask for."""
    started = time.monotonic()
    source.eval()
    first = Round(plan.config, plan.config.train)
    last, story = in_rounds(first, lambda turn: _adapt_once(plan, run, source, turn), plan.seen)
    method, selected = last.along.chosen(last.method) if last.along else (last.method, "last")
    notes = last.notes.texts
    if len(story) > 1:
        moved = ", then by ".join(f"{done['moved']:.2f}" for done in story)
        notes.append(
            f"trained {len(story)} times, since the estimated class frequencies of the target moved by {moved}."
        )
    plan.seconds["adaptation"] = time.monotonic() - started
    return Adapted(method, selected, notes)


def _adapt_once(plan: Plan, run: RunDirectory | None, source: nn.Module, turn: Round[Config]) -> Adapting:
    stage, following = (_round_folder(number) for number in (turn.number, turn.number + 1))
    if run is not None and steps_in(run.checkpoint / following):
        # This round had ended when the run was stopped in a later one; what it wrote is not to be written again.
        trainer = _round_trainer(plan, source, turn, ())
        restore_checkpoint(trainer, run.checkpoint / stage)
        return Adapting(trainer)
    if turn.number:
        plan.say(f"training again from the source network ({turn.number + 1}), for the class frequencies of the target")
    adapting = adapt_trainer(plan, run, source, turn)
    with resumable(adapting.trainer, run, stage, every=plan.config.train.checkpoint_every):
        adapting.trainer.run()
    return adapting


def _round_folder(number: int) -> str:
    """Where the checkpoints of a round are."""
    return "adapt" if number == 0 else f"adapt-{number + 1}"


def _listeners(plan: Plan, run: RunDirectory | None, stage: str) -> list[Callback]:
    """Progress, metrics and event files; in one process only."""
    if not plan.engine.is_main:
        return []
    titles = {"source": "training the source network", "adapt": f"adapting ({plan.config.method})"}
    listeners: list[Callback] = [ProgressBar(titles[stage], plan.console)]
    if run is not None:
        listeners.append(MetricsFile(run.metrics, stage=stage))
        if plan.tensorboard:
            listeners.append(TensorBoard(run.path / "tensorboard", stage))
    return listeners
