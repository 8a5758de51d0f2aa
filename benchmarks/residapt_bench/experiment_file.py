"""Experiments as TOML files: what to run, as sets of runs, and the plans that they stand for.

::

    title = "SVHN to MNIST"

    [common]                       # settings of all sets of runs below
    tasks = ["svhn-mnist"]

    [[runs]]
    methods = ["source_only", "dann_flip", "rpt"]
    recipes = ["common", "plus"]
    seeds = [0, 1, 2, 3, 4]
    set = { rank.every = 50 }
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field, model_validator

from residapt.config import Config, from_dotted, load_config, parse_override, read_toml
from residapt.errors import ConfigError
from residapt.methods import check_method
from residapt.settings import Seed, Settings, merged
from residapt_bench.digits.network_choice import By, NetworkChoice, choose_network
from residapt_bench.digits.random_settings import random_settings
from residapt_bench.experiment import Defaults, Experiment, experiments
from residapt_bench.plan import DroneSetup, Plan, RecipeName
from residapt_bench.record import Record, read_records


class RunSet(Settings):
    """Runs of several methods and seeds with the same settings."""

    tasks: tuple[str, ...] = Field(min_length=1)
    """Pairs of domains."""
    methods: tuple[str, ...] = Field(min_length=1)
    """Names of methods."""
    recipes: tuple[RecipeName, ...] = Field(("common",), min_length=1)
    """Recipes; each method is run with each of them."""
    seeds: tuple[Seed, ...] = Field((0,), min_length=1)
    """Seeds; runs of one seed are paired."""
    arch: str | None = None
    """Network; None takes the benchmark's."""
    varied: Literal["all", "order"] = "all"
    """What a seed changes: everything, or the order of samples only."""
    note: str = ""
    """Name of this variant of the settings in tables."""
    tries: int = Field(1, ge=1)
    """Configurations tried, without target labels, before this one was chosen."""
    setup: dict[str, Any] = {}
    """Settings of the benchmark itself, for instance ``labels = 50``."""
    source: dict[str, Any] = {}
    """Changed settings of the training of the source network."""
    set: dict[str, Any] = {}
    """Changed settings, as in a configuration of ``residapt adapt``."""
    each: tuple[str, ...] = ()
    """Variants, each with one or more settings (``a.b=1 c=2``), which become its note."""
    sweep: dict[str, tuple[Any, ...]] = {}
    """A setting and its values, each a run of its own."""
    random: int = Field(0, ge=0)
    """Number of variants with settings drawn at random, the same ones for every method of a seed."""
    chosen_from: str | None = None
    """Experiment from whose records each method takes its best settings: by the validation part, or by InfoMax."""
    network_from: str | None = None
    """Experiment of short runs from whose records the one source network of all orders is chosen."""
    network_by: By = "rule"
    """Whether it is chosen by the rule, or by the labels of the pair itself, as an oracle."""

    @model_validator(mode="after")
    def _one_network(self) -> RunSet:
        if self.network_from is not None and self.varied != "order":
            raise ValueError('network_from starts all runs from one network: set varied = "order"')
        return self

    def variants(self, seed: int) -> Iterator[Variant]:
        """The settings to run with one seed; without variants, those of the set itself."""
        texts = [*self.each, *random_settings(seed, self.random)]
        for text in texts:
            changes = [parse_override(part) for part in text.split()]
            yield Variant(_merged_all(changes), f"{self.note} {' '.join(text.split())}".strip())
        for key, values in self.sweep.items():
            for value in values:
                yield Variant(from_dotted({key: value}), _sweep_note(key, value), swept=key)
        if not texts and not self.sweep:
            yield Variant({}, self.note)


MethodRecipe = tuple[str, str]
"""A method and the recipe that it is run with."""


class Variant(NamedTuple):
    """One set of changed settings, and what tables call it."""

    changes: Mapping[str, Any]
    note: str
    swept: str = ""


class ExperimentFile(Settings):
    """One experiment: what to run for one table."""

    title: str
    """What the experiment shows."""
    runs: tuple[RunSet, ...] = Field(min_length=1)
    """Sets of runs."""

    def only(self, names: Sequence[str] = (), seeds: Sequence[int] = ()) -> ExperimentFile:
        """The same with some of its methods or recipes, and some of its seeds."""
        recipes = [name for name in names if name in get_args(RecipeName)]
        methods = [name for name in names if name not in recipes]
        chosen = [
            runs.model_copy(
                update={
                    "methods": _some(runs.methods, methods),
                    "recipes": _some(runs.recipes, recipes),
                    "seeds": tuple(seed for seed in runs.seeds if not seeds or seed in seeds),
                }
            )
            for runs in self.runs
        ]
        kept = tuple(runs for runs in chosen if runs.methods and runs.recipes and runs.seeds)
        if not kept:
            known = sorted({name for runs in self.runs for name in runs.methods})
            raise ConfigError(
                f"nothing is left to run of {', '.join(names) or 'all methods'} and seeds "
                f"{', '.join(map(str, seeds)) or 'all'}. Methods of this experiment: {', '.join(known)}."
            )
        return self.model_copy(update={"runs": kept})

    def plans(self, changes: Mapping[str, Any] | None = None, results: Path = Path()) -> list[Plan]:
        """Every run, once; ``changes`` come after all other settings. Seeds are outside, so comparisons come early."""
        found: dict[str, Plan] = {}
        for runs in self.runs:
            chosen, networks = _chosen(runs, results), _networks(runs, results)
            for plan in _plans(runs, changes or {}, chosen, networks):
                found.setdefault(plan.key(), plan)
        return sorted(found.values(), key=lambda plan: plan.seed)

    def without_choices(self) -> ExperimentFile:
        """The same runs with what other experiments' records decide left open, to count and to check them."""
        runs = tuple(each.model_copy(update={"chosen_from": None, "network_from": None}) for each in self.runs)
        return self.model_copy(update={"runs": runs})


def read_experiment(path: Path) -> ExperimentFile:
    """Read a TOML file; ``[common]`` is merged under every ``[[runs]]``."""
    content = read_toml(path)
    common, runs = content.pop("common", {}), content.get("runs", [])
    if isinstance(runs, list) and isinstance(common, Mapping):
        content["runs"] = [merged(common, each) if isinstance(each, Mapping) else each for each in runs]
    return ExperimentFile.parse(content, where=str(path))


def experiment_of(task: str) -> Experiment:
    """The benchmark that a task belongs to."""
    known = experiments().values()
    for experiment in known:
        if task in experiment.tasks:
            return experiment
    names = ", ".join(name for experiment in known for name in experiment.tasks)
    raise ConfigError(f"there is no task '{task}'; tasks: {names}.")


def best_settings(records: Sequence[Record]) -> dict[MethodRecipe, Choice]:
    """For each method with its recipe the settings with the highest mean of what may choose, over the seeds.

    That is the precision on the validation part where a task has one, and InfoMax where it has none.
    """
    found: dict[MethodRecipe, dict[str, list[Record]]] = {}
    for record in records:
        if not isinstance(record.plan.setup, DroneSetup) or record.plan.setup.part == "validation":
            found.setdefault((record.plan.method, record.plan.recipe), {}).setdefault(record.plan.note, []).append(
                record
            )
    if not found:
        raise ConfigError("the records have no runs on the validation part; run those first.")
    return {name: _best(variants) for name, variants in found.items()}


class Choice(NamedTuple):
    """The settings that a method takes."""

    values: Mapping[str, Any]
    tries: int
    """Configurations tried."""


def _best(variants: Mapping[str, Sequence[Record]]) -> Choice:
    means = {note: statistics.fmean(_merit(run) for run in runs) for note, runs in variants.items()}
    plan = variants[max(means, key=lambda note: means[note])][0].plan
    return Choice(merged({"train": plan.train}, plan.settings), len(variants))


def _merit(run: Record) -> float:
    """What settings may be chosen by."""
    return run.precision("validation") if isinstance(run.plan.setup, DroneSetup) else run.label_free["infomax"][1]


def _chosen(runs: RunSet, results: Path) -> dict[MethodRecipe, Choice]:
    if runs.chosen_from is None:
        return {}
    return best_settings(_records(results, runs.chosen_from, "settings"))


def _networks(runs: RunSet, results: Path) -> dict[str, NetworkChoice]:
    """The one source network of each task, where all runs start from one."""
    if runs.network_from is None:
        return {}
    records = _records(results, runs.network_from, "a network")
    return {task: choose_network(records, task, runs.network_by) for task in runs.tasks}


def _records(results: Path, name: str, what: str) -> list[Record]:
    file = results / f"{name}.jsonl"
    if not file.is_file():
        raise ConfigError(f"there are no records '{file}' to choose {what} from; run that experiment first.")
    return read_records([file])


def _plans(
    runs: RunSet,
    changes: Mapping[str, Any],
    chosen: Mapping[MethodRecipe, Choice],
    networks: Mapping[str, NetworkChoice],
) -> Iterator[Plan]:
    for seed in runs.seeds:
        for variant in runs.variants(seed):
            for task, name in product(runs.tasks, product(runs.methods, runs.recipes)):
                choice = chosen.get(name, Choice({}, runs.tries))
                settings = _merged_all([choice.values, runs.set, variant.changes, changes])
                plan = _plan(runs, task, *name, settings)
                own = {"note": variant.note, "swept": variant.swept, "tries": max(choice.tries, runs.tries)}
                plan = plan.model_copy(update=own)
                if task in networks:
                    plan = plan.with_network(networks[task].seed, networks[task].sha256)
                yield plan.with_seed(seed)


def _plan(runs: RunSet, task: str, method: str, recipe: RecipeName, changes: Mapping[str, Any]) -> Plan:
    """One plan without seed and note."""
    check_method(method)
    defaults = experiment_of(task).defaults(task, method, recipe, runs.setup)
    config = _configuration(defaults, method, changes)
    return Plan(
        task=task,
        arch=runs.arch or defaults.arch,
        method=method,
        seed=0,
        varied=runs.varied,
        recipe=recipe,
        setup=defaults.setup,
        standardise=config.model.standardise,
        precision=config.precision,
        source=type(defaults.source).parse(merged(defaults.source.model_dump(), runs.source), where="source"),
        train=config.train,
        settings=config.method_config,
    )


def _configuration(defaults: Defaults, method: str, changes: Mapping[str, Any]) -> Config:
    values = merged({"recipe": "paper", **defaults.values, "method": method}, changes)
    transform = dict(values.get("transform", {}))
    frozen = transform.pop("freeze", ())  # which settings taken from a plan have here, and a configuration above
    if frozen:
        values.setdefault("freeze", list(frozen))
    if not values.pop("train_source", True):  # so do the settings of a frozen base
        values.setdefault("freeze", "base")
    values = {**values, "transform": transform}
    for group in ("train", "transform", "discrepancy"):  # a plan sets its seed afterwards
        values[group] = {name: value for name, value in values.get(group, {}).items() if name != "seed"}
    return load_config(None, base=values)


def _some(of: tuple[str, ...], wanted: Sequence[str]) -> tuple[str, ...]:
    """Those that are wanted; all of them where nothing is said."""
    return tuple(name for name in of if not wanted or name in wanted)


def _merged_all(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        found = merged(found, part)
    return found


def _sweep_note(key: str, value: Any) -> str:
    """A number belongs to a curve over all of them; a list of names is a variant of its own."""
    if isinstance(value, (list, tuple)):
        return f"{key.rpartition('.')[2]} {'+'.join(map(str, value)) or 'none'}"
    return f"sweep {key}"
