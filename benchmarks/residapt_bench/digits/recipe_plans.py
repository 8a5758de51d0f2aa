"""Plans of a grid from a recipe, by which every method of one grid is trained, and single changed settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from residapt.config import Config, load_config
from residapt.errors import ConfigError
from residapt.methods import MethodConfig, check_method
from residapt.settings import merged
from residapt_bench.digits.plan import Plan, SourceRecipe, make_plans
from residapt_bench.digits.recipes import Recipe, recipe_for
from residapt_bench.names import split_plus

EVALUATE_EVERY, LOG_EVERY = 1000, 500


def recipe_plans(
    task: str,
    arch: str,
    methods: Iterable[str],
    seeds: Sequence[int],
    *,
    recipe: str = "common",
    steps: int | None = None,
    source_steps: int | None = None,
    changes: Sequence[str] = (),
    **others: Any,
) -> list[Plan]:
    """The plans of a grid; ``changes`` (``a.b=c``) come after the recipe, ``steps`` after both.

    ``source_steps`` shortens or lengthens the training of the warm start.
    """
    if recipe not in ("common", "own", "plus"):
        raise ConfigError(f"--recipe {recipe!r}: use 'common', 'own' or 'plus'.")
    plans = []
    for given in methods:
        name, plus = split_plus(given)
        check_method(name)
        kind = "plus" if plus else recipe
        chosen = recipe_for(name, kind)  # type: ignore[arg-type]
        config = _configuration(chosen, steps, changes)
        source = SourceRecipe.of(chosen)
        if source_steps is not None:
            source = source.model_copy(update={"steps": source_steps})
        plans += make_plans(
            task,
            arch,
            [name],
            seeds,
            train=config.train,
            settings=method_settings(config),
            source=source,
            recipe=kind,
            pixels=chosen.pixels,
            standardise=config.model.standardise,
            precision=config.precision,
            **others,
        )
    # Seeds outside, so that every method soon has its first run.
    return sorted(plans, key=lambda plan: plan.seed)


def each_setting(each: Sequence[str], changes: Sequence[str], note: str) -> list[tuple[list[str], str]]:
    """Changes and note of every setting to try; ``each`` entry holds one or more changes (``a.b=c d=e``)."""
    if not each:
        return [(list(changes), note)]
    return [([*changes, *entry.split()], f"{note} {' '.join(entry.split())}".strip()) for entry in each]


def _configuration(recipe: Recipe, steps: int | None, changes: Sequence[str]) -> Config:
    looks = {"train": {"evaluate_every": EVALUATE_EVERY, "log_every": LOG_EVERY}}
    base = {"train": recipe.train.model_dump(mode="json"), **recipe.method.model_dump(mode="json")}
    base["model"] = {"standardise": recipe.standardise}
    last = [f"train.steps={steps}"] if steps is not None else []
    return load_config(None, [*changes, *last], base=merged(base, looks))


def method_settings(config: Config) -> MethodConfig:
    """The method's part of a whole configuration."""
    return config.method_config
