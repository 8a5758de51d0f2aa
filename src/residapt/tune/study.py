"""``residapt tune``: search over settings by a score that needs no label of the target."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from residapt.config import load_config, write_config
from residapt.errors import ConfigError, Interrupted
from residapt.models import load_weights
from residapt.models.trust import refuse_code
from residapt.parallel.engines import WorkEngine
from residapt.parallel.local_engine import LocalEngine
from residapt.run.prepare import prepare
from residapt.run.request import Request, Setup
from residapt.run.stages import begin, source_stage
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory
from residapt.tune.search import Dimension, parse_search, shares_source, with_values
from residapt.tune.store import SCORED, StudyConfig, StudyFolder
from residapt.tune.trial import TrialJob, run_trial
from residapt.tune.trials import Trial, Trials


@dataclass(frozen=True)
class Study:
    """A search that has ended."""

    folder: StudyFolder
    settings: StudyConfig
    trials: list[Trial]
    best: Trial | None
    """None if no trial gave a network that counts."""


def tune(
    request: Request,
    settings: StudyConfig,
    *,
    resume: bool = False,
    engine: WorkEngine | None = None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    on_retry: Callable[[str], None] = lambda text: None,
) -> Study:
    """Search over ``settings.search`` in the folder ``request.out``, or go on with the search there.

    Every trial is a run of its own that starts from the same source network, unless the search is over settings that
    change it. Labels of the target are refused: what is searched by is ``settings.score`` alone.
    """
    space = _checked(request, settings)
    assert request.out is not None
    folder, engine = StudyFolder(request.out), engine or LocalEngine()
    plan = None
    if not resume:
        plan = prepare(replace(request, out=None))  # what is wrong with the input is said before anything is written
        folder.create(settings)
    try:
        with folder.locked():
            template = _template(request, folder, space, plan)
            parallel = not (isinstance(engine, LocalEngine) and engine.width == 1)
            trials = Trials(folder, space, seed=template.config.seed, parallel=parallel)
            trials.recover()
            _search(trials, template, settings, folder, engine, on_trial, on_retry)
            best = trials.best()
            if best is not None:
                _write_best(folder, best)
            return Study(folder, settings, trials.ended(), best)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped. {_hint(folder)}", step=0) from None


def _search(
    trials: Trials,
    template: Request,
    settings: StudyConfig,
    folder: StudyFolder,
    engine: WorkEngine,
    on_trial: Callable[[Trial], None],
    on_retry: Callable[[str], None],
) -> None:
    if trials.count() >= settings.trials:
        return

    def jobs() -> Iterator[TrialJob]:
        while trials.count() < settings.trials:
            chosen = trials.next()
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
            )

    with engine as workers:
        for job, outcome in workers.map(run_trial, jobs(), on_retry=on_retry):
            if outcome.state == "stopped":
                raise Interrupted(f"stopped in {job}. {_hint(folder)}", step=trials.count(), signal=outcome.signal)
            trials.end(job.number, outcome)
            on_trial(Trial(job.number, job.out.name, job.values, outcome))


def _checked(request: Request, settings: StudyConfig) -> tuple[Dimension, ...]:
    if request.out is None:
        raise ConfigError("no output is given. Name a new folder for the study with -o.")
    data = request.config.data
    if any(part is not None for part in (request.evaluate, request.target_labels, data.evaluate, data.target_labels)):
        raise ConfigError(
            "tune never uses labels of the target: leave out data.evaluate and data.target_labels, and score the "
            "result afterwards with residapt eval."
        )
    if settings.score not in SCORED:
        raise ConfigError(f"--score {settings.score!r} is none to search by. Use one of: {', '.join(SCORED)}.")
    space = parse_search(settings.search, request.config)
    choices = [value for dimension in space if dimension.key == "model.spec" for value in dimension.examples()]
    for spec in choices if request.model is None else ():
        refuse_code(spec, where="the search", trust_code=request.trust_code)
    if request.model is None:
        refuse_code(request.config.model.spec, where="the study", trust_code=request.trust_code)
    return space


def _template(request: Request, folder: StudyFolder, space: Sequence[Dimension], plan: Setup | None) -> Request:
    """The request that every trial starts from: the source network trained, the same number of steps for all."""
    run, shared = RunDirectory(folder.source), shares_source(space)
    if not run.config.is_file() or (shared and not run.source.is_file()):
        _make_source(request, run, plan, train=shared)
    chosen = load_config(run.config)
    searched = {dimension.key for dimension in space}
    values: dict[str, object] = {
        key: value
        for key, value in {
            "train.steps": chosen.train.steps,
            "model.weights": chosen.model.weights,
            "model.base": chosen.model.base,
        }.items()
        if key not in searched and value is not None
    }
    if not shared:
        return replace(request, config=with_values(request.config, values))
    if request.model is not None:
        network = copy.deepcopy(request.model)
        load_weights(network, run.source)
        return replace(request, config=with_values(request.config, values), model=network, train_source=False)
    values["model.base"] = str(run.path)
    return replace(request, config=with_values(request.config, values))


def _make_source(request: Request, run: RunDirectory, plan: Setup | None, *, train: bool) -> None:
    """Train the source network, or go on with it; its run also holds the settings that were chosen for all trials."""
    begun = run.config.is_file()
    if plan is None:
        config = load_config(run.config) if begun else request.config
        plan = prepare(replace(request, config=config, out=run.path, resume=begun))
    if not begun:
        run = RunDirectory.create(run.path)
    begin(plan, run)
    if train:
        source_stage(plan, run)


def _write_best(folder: StudyFolder, best: Trial) -> None:
    """The whole configuration of the best trial's run, for ``residapt adapt --config``."""
    with atomic_file(folder.best, overwrite=True) as file:
        write_config(load_config(RunDirectory(folder.trials / best.run).config), file)


def _hint(folder: StudyFolder) -> str:
    return f"Go on with: residapt tune --resume {shlex.quote(str(folder.path))}"
