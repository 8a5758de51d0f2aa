"""``residapt tune``: search over settings by a score that needs no label of the target."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.adapt import typed_spec
from residapt.cli.app import app, console, messages
from residapt.cli.options import AddressOption, EngineOption, JobsOption, TrustOption

if TYPE_CHECKING:
    from residapt.config import Config
    from residapt.tune.store import StudyConfig, StudyFolder
    from residapt.tune.study import Study
    from residapt.tune.trials import Trial

EXAMPLE = (
    "Example: residapt tune -s photos/ -t new_site/ -o study/ --search discrepancy.weight=log:0.1..3 "
    "--search transform.left_rank=choice:8,16,32 --trials 20"
)


@app.command(epilog=EXAMPLE)
def tune(
    source: Annotated[
        Path | None, typer.Option("--source", "-s", help="Folder with one folder of images for each class.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", "-t", help="Folder of unlabelled images, at any depth.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the study.")] = None,
    search: Annotated[
        list[str] | None,
        typer.Option("--search", help="KEY=log:LOW..HIGH, KEY=range:LOW..HIGH or KEY=choice:A,B,C. Repeatable."),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Label-free score; the highest wins.", show_default="infomax")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many trials.", show_default="20")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with a study that was stopped; --trials may add to it.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Network, as for residapt adapt.")] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Weights to start from.")] = None,
    base: Annotated[
        Path | None, typer.Option("--base", help="Run or weights already trained on the source; skips that.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="How to adapt; see residapt methods.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Steps of each trial; chosen if not given.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
    engine: EngineOption = "local",
    jobs: JobsOption = None,
    address: AddressOption = None,
    trust_code: TrustOption = False,
) -> None:
    """Search over settings without target labels; every trial is a run of its own."""
    from residapt.parallel.engines import make_engine
    from residapt.tune.store import StudyConfig, StudyFolder, optuna_module
    from residapt.tune.study import tune as search_over

    optuna_module()
    workers = make_engine(engine, jobs=jobs, address=address)
    given = {
        "data.source": source,
        "data.target": target,
        "model.spec": model,
        "model.weights": weights,
        "model.base": base,
        "method": method,
        "train.steps": steps,
    }
    overrides = [*_overrides(given), *(changes or ())]
    if resume is not None:
        _refuse_with_resume(out, config, score, [*overrides, *(search or ())])
        folder = StudyFolder(resume)
        settings, configuration = _recorded(folder, trials)
    else:
        folder, configuration = StudyFolder(_required(out)), _configuration(config, overrides)
        values = {"search": tuple(search or ()), "score": score, "trials": trials}
        settings = StudyConfig.parse(
            {
                **{name: value for name, value in values.items() if value is not None},
                "config": configuration.model_dump(mode="json", exclude_unset=True),
            }
        )
    study = search_over(
        _request(folder, configuration, trust_code or (resume is None and typed_spec(model, changes or ()))),
        settings,
        resume=resume is not None,
        engine=workers,
        on_trial=lambda trial: _say(_line(trial)),
        on_retry=lambda text: messages.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True),
    )
    show_study(study)


def _refuse_with_resume(out: Path | None, config: Path | None, score: str | None, others: list[str]) -> None:
    from residapt.errors import ConfigError

    if out is not None or config is not None or score is not None or others:
        raise ConfigError(
            "--resume goes on with the study's own data, search and settings: only --trials, --jobs, --engine and "
            "--address can be given with it."
        )


def _recorded(folder: StudyFolder, trials: int | None) -> tuple[StudyConfig, Config]:
    from residapt.tune.store import given_config

    settings = folder.read()
    if trials is not None and trials != settings.trials:
        settings = settings.model_copy(update={"trials": trials})
        folder.write(settings)
    return settings, given_config(settings)


def _required(out: Path | None) -> Path:
    from residapt.errors import ConfigError

    if out is None:
        raise ConfigError("no output is given. Name a new folder for the study with -o.")
    return out


def _configuration(file: Path | None, overrides: list[str]) -> Config:
    from residapt.config import load_config

    return load_config(file, overrides)


def _request(folder: StudyFolder, config: Config, trust_code: bool) -> Any:
    from residapt.run import Request

    return Request(
        config=config,
        source=config.data.source,
        target=config.data.target,
        out=folder.path,
        console=console,
        trust_code=trust_code,
    )


def _overrides(given: dict[str, Any]) -> list[str]:
    used = {key: str(Path(v).absolute()) if isinstance(v, Path) else v for key, v in given.items() if v is not None}
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in used.items()]


def _line(trial: Trial) -> str:
    outcome = trial.outcome
    values = ", ".join(f"{key} {_value(value)}" for key, value in trial.values.items())
    how = f"score {outcome.score:.4g}" if outcome.state == "scored" else f"{outcome.state}: {outcome.reason}"
    return f"trial {trial.number} ({outcome.seconds:.0f} s): {values}: {how}"


def show_study(study: Study) -> None:
    """All trials, the best one, and what to type next."""
    from residapt.errors import TrainingError

    console.print(trial_table(study))
    for trial in study.trials:
        if trial.outcome.reason:
            _say(f"trial {trial.number} {trial.outcome.state}: {trial.outcome.reason}")
    if study.best is None:
        raise TrainingError(
            f"none of the {len(study.trials)} trials gave a network that looks no worse than the source network. "
            "Search gentler settings, for instance a lower discrepancy.weight or learning rate."
        )
    place = shlex.quote(str(study.folder.best))
    best = study.best
    _say(
        f"Best by {study.settings.score}, without target labels: trial {best.number}, {study.folder.trials / best.run}."
    )
    _say(f"Next: residapt adapt --config {place} -o run/")


def trial_table(study: Study) -> Table:
    """A row for each trial."""
    keys = list(study.trials[0].values) if study.trials else []
    table = Table("trial", title=f"Trials by {study.settings.score}")
    for key in keys:
        table.add_column(escape(key), justify="right", overflow="fold")
    table.add_column("before", justify="right")
    table.add_column("score", justify="right")
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
