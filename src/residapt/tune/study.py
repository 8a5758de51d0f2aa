"""A search over settings by a score that needs no target labels; ``residapt tune`` on the command line."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from residapt.config import Config, load_config, write_config
from residapt.data.batches import derived_seed
from residapt.errors import ConfigError, Interrupted
from residapt.evaluate.scores import SCORES
from residapt.models import load_weights
from residapt.parallel import Pool, make_engine
from residapt.run.outputs import remove_outputs, with_outputs
from residapt.run.prepare import prepare
from residapt.run.request import Request, Setup
from residapt.run.stages import begin, source_stage
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory
from residapt.trust import names_code, refuse_code
from residapt.tune.search import Dimension, parse_search, shares_source, with_values
from residapt.tune.store import StudyConfig, StudyFolder, Trial, TrialStore
from residapt.tune.trial import TrialJob, run_trial

SCORED = tuple(name for name in SCORES if name != "devn")
"""Scores to search by: those in the summary of every run."""


@dataclass(frozen=True)
class Study:
    """A finished search."""

    folder: StudyFolder
    settings: StudyConfig
    trials: list[Trial]

    @property
    def best(self) -> Trial | None:
        """The trial with the highest score, the first of several; None if no trial counts."""
        scored = [trial for trial in self.trials if trial.outcome.state == "scored"]
        return max(scored, key=lambda trial: trial.outcome.score or 0.0) if scored else None


def tune(
    request: Request,
    settings: StudyConfig,
    *,
    resume: bool = False,
    pool: Pool | None = None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    on_retry: Callable[[str], None] = lambda message: None,
) -> Study:
    """Search over ``settings.search``, with each trial a run of its own below ``request.out``.

    All trials start from the same source network, unless the search is over settings that change it. Target labels
    are refused: ``settings.score`` alone decides.

    Args:
        request: Data, network and the settings that all trials share; ``out`` is the folder of the study.
        settings: Search space, score and number of trials.
        resume: Continue the study in ``request.out``; ``settings`` may ask for more trials.
        pool: Runs several trials at a time; None runs them one by one in this process.
        on_trial: Called with each trial that has ended.
        on_retry: Called with a message when a trial is started again because its worker died.
    """
    space = _check(request, settings)
    assert request.out is not None
    folder = StudyFolder(request.out)
    plan = None
    if resume:
        _check_same_search(folder, settings)
    else:
        plan = prepare(replace(request, out=None))  # report bad input before anything is written
        shared = request.config.model_dump(mode="json", exclude_unset=True)
        folder.create(settings.model_copy(update={"config": shared}))
    try:
        with folder.locked():
            template = _template(request, folder, space, plan)
            store = TrialStore(folder.journal, space)
            store.requeue_interrupted()
            if store.count() < settings.trials:
                with pool or make_engine("local") as workers:
                    jobs = _jobs(store, template, settings, folder)
                    for job, outcome in workers.map(run_trial, jobs, on_retry=on_retry):
                        if outcome.state == "stopped":
                            text = f"stopped during {job}. {_hint(request)}"
                            raise Interrupted(text, step=store.count(), signal=outcome.signal)
                        store.end(job.number, outcome)
                        on_trial(Trial(job.number, job.out.name, job.values, outcome))
            remove_outputs(RunDirectory(folder.source).outputs)
            study = Study(folder, settings, store.ended())
            _write_best(study)
            return study
    except KeyboardInterrupt:
        raise Interrupted(f"stopped. {_hint(request)}", step=0) from None


def _check(request: Request, settings: StudyConfig) -> tuple[Dimension, ...]:
    """The search space, if the search can be run."""
    if request.out is None:
        raise ConfigError("no output folder. Name a new one for the study with -o.")
    data = request.config.data
    for name in ("evaluate", "target_labels"):
        if getattr(request, name) is not None or getattr(data, name) is not None:
            raise ConfigError(
                f"a search never uses target labels: leave out data.{name}, and score the result with residapt eval."
            )
    if settings.score not in SCORED:
        raise ConfigError(f"--score {settings.score!r}: choose one of {', '.join(SCORED)}.")
    space = parse_search(settings.search, request.config)
    if request.model is None:
        searched = [spec for dimension in space if dimension.key == "model.spec" for spec in dimension.examples()]
        for spec in (request.config.model.spec, *searched):
            refuse_code(spec, where="the study", trust_code=request.trust_code)
    return space


def _check_same_search(folder: StudyFolder, settings: StudyConfig) -> None:
    """A study that continues may only get more trials."""
    recorded = folder.read()
    for name in ("search", "score"):
        before, now = getattr(recorded, name), getattr(settings, name)
        if before != now:
            raise ConfigError(f"the study '{folder.path}' has {name} = {before!r}, got {now!r}. Start another with -o.")
    if recorded.trials != settings.trials:
        folder.write(recorded.model_copy(update={"trials": settings.trials}))


def _jobs(store: TrialStore, template: Request, settings: StudyConfig, folder: StudyFolder) -> Iterator[TrialJob]:
    """The trials that are still to run; each is suggested when there is room for it."""
    while store.count() < settings.trials:
        chosen = store.suggest(derived_seed(template.config.seed, "tune", store.count()) % 2**32)
        yield TrialJob(
            number=chosen.number,
            values=chosen.values,
            config=with_values(template.config, chosen.values, where=f"trial {chosen.number}"),
            source=template.source,
            target=template.target,
            out=folder.trials / chosen.run,
            score=settings.score,
            model=template.model,
            classes=template.classes,
            train_source=template.train_source,
            trust_code=template.trust_code,
            outputs=template.outputs,
        )


def _template(request: Request, folder: StudyFolder, space: Sequence[Dimension], plan: Setup | None) -> Request:
    """The request that all trials share: source network, number of steps, outputs of frozen stages."""
    request = replace(request, outputs=RunDirectory(folder.source).outputs)
    run, shared = RunDirectory(folder.source), shares_source(space)
    if not run.config.is_file() or (shared and not run.source.is_file()):
        _make_source(request, run, plan, train=shared)
    config = with_values(request.config, _chosen_once(load_config(run.config), space))
    if not shared:
        return replace(request, config=config)
    if request.model is None:
        return replace(request, config=with_values(config, {"model.base": str(run.path)}))
    network = copy.deepcopy(request.model)
    load_weights(network, run.source)
    return replace(request, config=config, model=network, train_source=False)


def _chosen_once(complete: Config, space: Sequence[Dimension]) -> dict[str, object]:
    """What the source run's complete configuration fixes for all trials."""
    values: dict[str, object] = {
        "train.steps": complete.train.steps,
        "model.weights": complete.model.weights,
        "model.base": complete.model.base,
    }
    searched = {dimension.key for dimension in space}
    if "model.spec" not in searched:  # whose stages have other names
        values |= {"freeze": complete.freeze, "views.count": complete.views.count}
    return {key: value for key, value in values.items() if value is not None and key not in searched}


def _make_source(request: Request, run: RunDirectory, plan: Setup | None, *, train: bool) -> None:
    """Begin the run of the source network, or continue it; train the network if all trials share it."""
    begun = run.config.is_file()
    if plan is None:
        config = load_config(run.config) if begun else request.config
        plan = prepare(replace(request, config=config, out=run.path, resume=begun))
    plan = replace(plan, outputs=request.outputs)
    if not begun:
        run = RunDirectory.create(run.path)
    plan = begin(plan, run)
    if train:
        source_stage(with_outputs(plan), run)


def _write_best(study: Study) -> None:
    """Write the complete configuration of the best trial, for ``residapt adapt --config``."""
    if study.best is not None:
        with atomic_file(study.folder.best, overwrite=True) as file:
            write_config(load_config(RunDirectory(study.folder.trials / study.best.run).config), file)


def _hint(request: Request) -> str:
    allow = " --trust-code" if request.model is None and names_code(request.config.model.spec) else ""
    return f"Continue with: residapt tune --resume {shlex.quote(str(request.out))}{allow}"
