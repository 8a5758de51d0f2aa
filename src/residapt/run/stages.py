"""The stages of a run. Each leaves its result on disk, so that a run that was stopped resumes at the right one.

1. The source network is trained, if it needs it: ``source.safetensors``.
2. The method adapts it to the target: ``checkpoint/`` on the way.
3. :mod:`residapt.run.judge` judges the result and writes it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from residapt.config import load_config, write_config
from residapt.data.labelled_target import write_label_records
from residapt.errors import TrainingError
from residapt.methods.fit import make_trainer, source_pair
from residapt.methods.rounds import Round, in_rounds
from residapt.models import load_weights
from residapt.run.along import ScoresAlong
from residapt.run.defaults import source_settings
from residapt.run.networks import accuracy_of, logits_in
from residapt.run.request import Setup
from residapt.run.resume import resumable
from residapt.run.select import best_checkpoint
from residapt.run.size import size_line
from residapt.run.time_limit import adaptation_limit, source_limit
from residapt.run.warm_start import nearest_adapter
from residapt.storage.atomic import atomic_file
from residapt.storage.checkpoint import steps_in
from residapt.storage.model_file import write_model
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import Choices, read_choices, write_choices
from residapt.streams.merge import merge_and_unload
from residapt.train import Callback, Method, Trainer
from residapt.train.callbacks import CallbackState
from residapt.train.checkpoint import restore_checkpoint
from residapt.train.early_stopping import EarlyStopping, run_with_early_stopping
from residapt.train.health import HealthMonitor
from residapt.train.metrics import MetricsFile, recorded_lines
from residapt.train.progress import ProgressBar
from residapt.train.tensorboard import TensorBoard
from residapt.train.unreadable import UnreadableNotes

CHECKS = 20
"""Most evaluations on the held-out source images while the source network is trained."""
STEPS_PER_CHECK = 30
"""Fewest steps between two of them."""
SAVES = 10
"""Checkpoints while the source network is trained."""


ENOUGH = 20
"""Held-out source images from which on a source network at chance ends the run; of fewer it is only remarked."""


class Notes(Callback):
    """Collect messages for the summary."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)

    def on_note(self, method: Method, step: int, note: str) -> None:
        """Each text once."""
        if note not in self.texts:
            self.texts.append(note)

    def state(self) -> CallbackState:
        """The texts so far."""
        return CallbackState({"texts": self.texts})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Restore the texts so far."""
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
    stage: str
    """Name of the round's folder of checkpoints."""
    along: ScoresAlong | None = None
    notes: Notes = field(default_factory=Notes)

    @property
    def method(self) -> Method:
        """As it is at the end."""
        return self.trainer.method


def begin(setup: Setup, run: RunDirectory | None) -> Setup:
    """Write the configuration and the messages about the data; a resumed run has written them already.

    Gives the setup with what was chosen when the run began.
    """
    if setup.resume and run is not None:
        if setup.engine.is_main and load_config(run.config) != setup.config:
            with atomic_file(run.config, overwrite=True) as file:
                write_config(setup.config, file)
        choices = read_choices(run.choices)
        return setup if choices is None else replace(setup, kept=choices.frozen, notes=choices.notes)
    for note in setup.notes:
        setup.say(f"note: {note}")
    if not setup.console.quiet and (size := size_line(setup)) is not None:
        setup.say(size)
    if run is None or not setup.engine.is_main:
        return setup
    if setup.labelled:
        write_label_records(setup.labelled, run.labelled)
    write_choices(Choices(frozen=setup.kept, notes=setup.notes), run.choices)
    write_config(setup.config, run.config)
    metrics = MetricsFile(run.metrics, stage="start")
    for note in setup.notes:
        metrics.write("note", step=0, text=note)
    return setup


def source_stage(setup: Setup, run: RunDirectory | None) -> nn.Module:
    """The source network: trained now, or as it was given."""
    with setup.stopwatch.part("source training"):
        return _source_stage(setup, run)


def _source_stage(setup: Setup, run: RunDirectory | None) -> nn.Module:
    network = setup.network
    if setup.train_source:
        network = _train_source(setup, run)
    if run is not None and setup.engine.is_main and not (setup.resume and run.source.exists()):
        metadata = setup.metadata.model_copy(update={"method": "source_only"})
        write_model(setup.whole(network), run.source, metadata)
    if setup.train_source or (setup.config.model.base is not None and not setup.source_free):
        with setup.checking("evaluating on held-out source images"):
            _refuse_chance(setup, network)
    return network


def _refuse_chance(setup: Setup, network: nn.Module) -> None:
    """A source network that only guesses cannot be adapted: the run ends here, unless that is allowed."""
    labels = setup.held_out.labels
    guess = float(labels.bincount().max()) / len(labels)
    chance = 100.0 * (guess + (guess * (1.0 - guess) / len(labels)) ** 0.5)
    right = accuracy_of(network.to(setup.device), setup.held_out, setup.device)
    if right > chance:
        return
    found = f"the source network is right on {right:.1f} % of {len(labels)} held-out source images, where guessing "
    found += f"gives {100 * guess:.1f} %"
    if setup.config.pretrain.allow_chance or len(labels) < ENOUGH:
        setup.warnings.append(f"{found}.")
        setup.say(f"note: {found}.")
        return
    raise TrainingError(
        f"{found}: there is nothing to adapt. Train it longer (pretrain.steps), start from pre-trained weights "
        "(--weights) or check the labels; to adapt it anyway, --set pretrain.allow_chance=true."
    )


def _train_source(setup: Setup, run: RunDirectory | None) -> nn.Module:
    settings = source_settings(setup.config)
    trainer = make_trainer(
        "source_only",
        setup.network,
        source_pair(setup.pair.source, setup.pair.balance, setup.pair.workers),
        method=setup.source_config,
        train=settings,
        callbacks=[*_listeners(setup, run, "source"), source_limit(setup)],
        engine=setup.engine,
    )
    if setup.resume and run is not None and run.source.exists():
        _load_trained(setup, trainer.method.streams.model, run.source)
        setup.steps["source training"] = sum(
            line["step"] for line in recorded_lines(run.metrics, "end") if line.get("stage") == "source"
        )
        return merge_and_unload(trainer.method.streams)
    every = max(STEPS_PER_CHECK, settings.steps // CHECKS)
    stopping = EarlyStopping(
        setup.held_out,
        every=every,
        patience=setup.config.pretrain.patience,
        balance=setup.pair.balance,
        during=setup.checking,
    )
    with resumable(trainer, run, "source", every=max(1, settings.steps // SAVES)):
        best = run_with_early_stopping(trainer, stopping)
    setup.steps["source training"] = trainer.step
    setup.say(f"source network: {best.accuracy:.1f} % on held-out source images after {best.step} steps")
    return merge_and_unload(trainer.method.streams)


def _load_trained(setup: Setup, network: nn.Module, file: Path) -> None:
    """What was trained of the source network, out of the file of the whole one."""
    whole = setup.whole(network)
    load_weights(whole, file)
    own = network.state_dict()
    network.load_state_dict({name: tensor for name, tensor in whole.state_dict().items() if name in own})


def adapt_trainer(setup: Setup, run: RunDirectory | None, source: nn.Module, turn: Round) -> Adapting:
    """The trainer of a round of the second stage, not yet started, with what listens to it."""
    config = setup.config
    notes = Notes((*setup.notes, *setup.warnings))
    listeners = _listeners(setup, run, "adapt")
    # The same file for the scores: its clock is in the checkpoints, so that it continues after a stop.
    metrics = next((item for item in listeners if isinstance(item, MetricsFile)), None)
    along = ScoresAlong(
        setup.held_out,
        setup.seen,
        every=config.train.evaluate_every,
        select=config.select,
        evaluation=setup.evaluation,
        metrics=metrics,
        has_source=not setup.source_free,
        images=config.health.samples,
        during=setup.checking,
    )
    health = HealthMonitor(
        setup.held_out,
        setup.watched,
        setup.classes,
        config.health,
        before=lambda x: logits_in(source(x)),
        checkpoint=None if run is None else run.checkpoint,
        during=setup.checking,
    )
    listeners = [*listeners, adaptation_limit(setup, turn), health, along, notes, *setup.callbacks]
    trainer = _round_trainer(setup, source, turn, listeners)
    return Adapting(trainer, _round_folder(turn.number), along, notes)


def _round_trainer(setup: Setup, source: nn.Module, turn: Round, callbacks: Iterable[Callback]) -> Trainer:
    return make_trainer(
        setup.config.method,
        copy.deepcopy(source),
        setup.pair,
        method=turn.settings,
        train=turn.train,
        callbacks=callbacks,
        engine=setup.engine,
        start=setup.start,
    )


def adapt_stage(setup: Setup, run: RunDirectory | None, source: nn.Module) -> Adapted:
    """Adapt a copy of the source network to the target, in as many rounds as the class frequencies ask for."""
    with setup.stopwatch.part("adaptation"):
        return _adapt_stage(setup, run, source)


def _adapt_stage(setup: Setup, run: RunDirectory | None, source: nn.Module) -> Adapted:
    source.eval()
    start, about_start = nearest_adapter(setup, source)
    for note in about_start:
        setup.say(f"note: {note}")
    setup.warnings.extend(about_start)
    setup = replace(setup, start=start)
    last: Adapting | None = None

    def adapt(turn: Round) -> Method:
        nonlocal last
        last = _adapt_once(setup, run, source, turn)
        return last.method

    method, story = in_rounds(Round(setup.method_config, setup.config.train), adapt, setup.seen)
    assert last is not None
    selected = "last"
    if last.along is not None:
        from_files = run is not None and setup.resume and setup.config.select != "last" and last.along.best is None
        if run is not None and from_files:  # the score was named when the run had finished
            method, selected = best_checkpoint(setup, method, run.checkpoint / last.stage)
        else:
            method, selected = last.along.selected(method)
    notes = last.notes.texts
    if len(story) > 1:
        moved = ", then by ".join(f"{done['moved']:.2f}" for done in story)
        notes.append(
            f"trained {len(story)} times, since the estimated class frequencies of the target moved by {moved}."
        )
    return Adapted(method, selected, notes)


def _adapt_once(setup: Setup, run: RunDirectory | None, source: nn.Module, turn: Round) -> Adapting:
    stage, following = (_round_folder(number) for number in (turn.number, turn.number + 1))
    if run is not None and steps_in(run.checkpoint / following):
        # This round had ended when the run was stopped in a later one; what it wrote is not to be written again.
        trainer = _round_trainer(setup, source, turn, ())
        restore_checkpoint(trainer, run.checkpoint / stage)
        _count(setup, trainer)
        return Adapting(trainer, stage)
    if turn.number:
        setup.say(
            f"training again from the source network ({turn.number + 1}), for the class frequencies of the target"
        )
    adapting = adapt_trainer(setup, run, source, turn)
    every, keep = setup.config.train.checkpoint_every, setup.keep_checkpoints
    with resumable(adapting.trainer, run, stage, every=every, keep=keep):
        adapting.trainer.run()
    _count(setup, adapting.trainer)
    return adapting


def _count(setup: Setup, trainer: Trainer) -> None:
    setup.steps["adaptation"] = setup.steps.get("adaptation", 0) + trainer.step


def _round_folder(number: int) -> str:
    """Where the checkpoints of a round are."""
    return "adapt" if number == 0 else f"adapt-{number + 1}"


def _listeners(setup: Setup, run: RunDirectory | None, stage: str) -> list[Callback]:
    """Progress, metrics and event files; in one process only."""
    if not setup.engine.is_main:
        return []
    titles = {"source": "training the source network", "adapt": f"adapting ({setup.config.method})"}
    listeners: list[Callback] = [ProgressBar(titles[stage], setup.console), UnreadableNotes(setup.pair)]
    if run is not None:
        listeners.append(MetricsFile(run.metrics, stage=stage))
        if setup.tensorboard:
            listeners.append(TensorBoard(run.path / "tensorboard", stage))
    return listeners
