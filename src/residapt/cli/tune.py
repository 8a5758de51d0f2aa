"""``residapt tune``: search over settings by a score that needs no target labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.adapt import typed_spec
from residapt.cli.app import app, console, messages
from residapt.cli.options import AddressOption, EngineOption, JobsOption, QuietOption, TrustOption
from residapt.cli.progress import progress_console

if TYPE_CHECKING:
    from residapt.parallel import Pool
    from residapt.tune.store import StudyConfig, StudyFolder, Trial
    from residapt.tune.study import Study

EXAMPLE = (
    "Example: residapt tune -s photos/ -t new_site/ -o study/ --search discrepancy.weight=log:0.1..3 "
    "--search transform.left_rank=choice:8,16,32 --trials 20"
)


@app.command(epilog=EXAMPLE)
def tune(
    source: Annotated[
        Path | None, typer.Option("--source", "-s", help="Labelled images: a folder with a folder for each class.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", "-t", help="Folder of unlabelled target images, at any depth.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the study.")] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            help="Setting to search over: KEY=log:LOW..HIGH, KEY=range:LOW..HIGH or KEY=choice:A,B,C. Repeatable.",
        ),
    ] = None,
    score: Annotated[str | None, typer.Option(help="Label-free score to maximise.", show_default="infomax")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Number of trials.", show_default="20")] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", help="Continue the study in this folder; a higher --trials adds trials to it."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Network, as for residapt adapt.")] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Pretrained weights (.safetensors, .pth).")] = None,
    base: Annotated[
        Path | None, typer.Option("--base", help="Run or weights of a network already trained on the source.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="Adaptation method; see residapt methods.")] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Adaptation steps of each trial.", show_default="from the data")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with settings for all trials.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Setting for all trials: key=value. Repeatable.")
    ] = None,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    trust_code: TrustOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search over settings without target labels. Each trial is a run of its own."""
    given = {
        "data.source": source,
        "data.target": target,
        "model.spec": model,
        "model.weights": weights,
        "model.base": base,
        "method": method,
        "train.steps": steps,
    }
    options = {key: _plain(value) for key, value in given.items() if value is not None}
    _check_options(out, resume, [config, score, *options, *(changes or ()), *(search or ())])
    from residapt.parallel import make_engine

    pool = make_engine(engine, jobs=jobs, address=address)
    from residapt.tune.store import StudyFolder, require_optuna

    settings = (
        _new_settings(search, score, trials, config, options, changes)
        if resume is None
        else _recorded_settings(StudyFolder(resume), trials)
    )
    require_optuna()
    typed = resume is None and typed_spec(model, changes or ())
    show_study(_run(settings, resume or out, resume is not None, pool, trust_code or typed, quiet))


def _check_options(out: Path | None, resume: Path | None, others: list[Any]) -> None:
    """``--out`` for a new study; nothing that would make another study beside ``--resume``."""
    from residapt.errors import ConfigError

    if resume is None and out is None:
        raise ConfigError("no output folder. Name a new one for the study with -o.")
    if resume is not None and (out is not None or any(other is not None for other in others)):
        raise ConfigError(
            f"--resume {resume} continues that study with its own data, search space and settings: beside it give "
            "only --trials, --engine, --jobs, --address and --trust-code."
        )


def _new_settings(
    search: list[str] | None,
    score: str | None,
    trials: int | None,
    file: Path | None,
    options: dict[str, Any],
    changes: list[str] | None,
) -> StudyConfig:
    """The settings of a new study: the file's, then the options', then those of ``--set``."""
    from residapt.config import from_dotted, load_config, read_toml
    from residapt.run.checks import check_settings
    from residapt.settings import merged
    from residapt.tune.search import parse_search
    from residapt.tune.store import StudyConfig

    base = merged({} if file is None else read_toml(file), from_dotted(options))
    config = load_config(None, changes or (), base)
    parse_search(search or (), config)
    check_settings(config)
    values = {"search": tuple(search or ()), "score": score, "trials": trials}
    given = {name: value for name, value in values.items() if value is not None}
    return StudyConfig.parse({**given, "config": config.model_dump(mode="json", exclude_unset=True)})


def _recorded_settings(folder: StudyFolder, trials: int | None) -> StudyConfig:
    settings = folder.read()
    return settings if trials is None else settings.model_copy(update={"trials": trials})


def _run(settings: StudyConfig, out: Path | None, resume: bool, pool: Pool, trust_code: bool, quiet: bool) -> Study:
    from residapt.config import Config
    from residapt.run import Request
    from residapt.tune.study import tune as search_over

    progress = progress_console(quiet=quiet, as_json=False)
    config = Config.parse(settings.config, where="study.toml" if resume else "configuration")
    request = Request(
        config=config,
        source=config.data.source,
        target=config.data.target,
        out=out,
        console=progress,
        trust_code=trust_code,
    )
    return search_over(
        request,
        settings,
        resume=resume,
        pool=pool,
        on_trial=lambda trial: progress.print(_line(trial), markup=False, highlight=False, soft_wrap=True),
        on_retry=lambda message: messages.print(message, style="yellow", markup=False, highlight=False, soft_wrap=True),
    )


def _plain(value: Any) -> Any:
    return str(value.absolute()) if isinstance(value, Path) else value


def _line(trial: Trial) -> str:
    outcome = trial.outcome
    values = ", ".join(f"{key} {_value(value)}" for key, value in trial.values.items())
    result = f"score {outcome.score:.4g}" if outcome.state == "scored" else f"{outcome.state}: {outcome.reason}"
    return f"trial {trial.number} ({outcome.seconds:.0f} s): {values}: {result}"


def show_study(study: Study) -> None:
    """Print all trials, the best one, and the command to run next."""
    from residapt.errors import TrainingError

    console.print(trial_table(study))
    for trial in study.trials:
        if trial.outcome.reason:
            _say(f"trial {trial.number} {trial.outcome.state}: {trial.outcome.reason}")
    if study.best is None:
        raise TrainingError(
            f"all {len(study.trials)} trials failed, or gave a network that looks worse than the source network. "
            "Search smaller values, for instance of discrepancy.weight or of the learning rate."
        )
    run = study.folder.trials / study.best.run
    _say(f"Best by {study.settings.score}, without target labels: trial {study.best.number}, {run}.")
    _say(f"Next: residapt adapt --config {shlex.quote(str(study.folder.best))} -o run/")


def trial_table(study: Study) -> Table:
    """A row for each trial, with the scores of the source and the adapted network."""
    keys = list(study.trials[0].values) if study.trials else []
    table = Table("trial", title=f"Trials, by {study.settings.score} (higher is better)")
    for key in keys:
        table.add_column(escape(key), justify="right", overflow="fold")
    table.add_column("source", justify="right")
    table.add_column("adapted", justify="right")
    table.add_column("", no_wrap=True)
    for trial in study.trials:
        outcome, best = trial.outcome, study.best is not None and trial.number == study.best.number
        note = "best" if best else "" if outcome.state == "scored" else outcome.state
        numbers = ["-" if value is None else f"{value + 0.0:.4g}" for value in (outcome.before, outcome.score)]
        cells = [str(trial.number), *(_value(trial.values[key]) for key in keys), *numbers, note]
        table.add_row(*(escape(cell) for cell in cells), style="bold" if best else "")
    return table


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
