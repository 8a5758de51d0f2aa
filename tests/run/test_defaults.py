"""Settings that nobody gave: by the size of the data and the speed of the machine; what was given stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from residapt.config import Config
from residapt.run.clock import Pace, StepCost
from residapt.run.defaults import SHRINKAGE, Facts, by_steps, fill_in
from residapt.run.pace import (
    EVALUATED_IMAGES,
    EVALUATION_SHARE,
    FEWEST_STEPS,
    SHORT_SECONDS,
    Evaluations,
    evaluations_along,
    limit_steps,
)

DIGITS = Facts(source_images=8000, target_images=900, size=28, channels=1, pretrained=False)
OFFICE = Facts(source_images=2535, target_images=795, size=128, channels=3, pretrained=True)


def config(**values: object) -> Config:
    return Config.parse(values)


def test_small_data_take_more_rounds_and_large_data_fewer() -> None:
    counts = [fill_in(config(), Facts(n, n, 28, 1, False)) for n in (50, 5000, 1_000_000)]
    assert [c.pretrain.steps for c in counts] == [300, 938, 4000]
    assert [c.train.steps for c in counts] == [300, 1172, 2000]


def test_a_network_with_weights_is_trained_gently() -> None:
    gentle, fresh = fill_in(config(), OFFICE), fill_in(config(), DIGITS)
    assert gentle.pretrain.lr < fresh.pretrain.lr
    assert gentle.pretrain.head > fresh.pretrain.head == 1.0
    assert gentle.train.batch_size == 32


@pytest.mark.parametrize("facts", [OFFICE, DIGITS])
def test_the_default_changes_images_strongly(facts: Facts) -> None:
    method = fill_in(config(), facts).method_config
    assert (method.augment.strength, method.consistency.view) == ("mixed", "strong")
    mine = fill_in(config(augment={"strength": "weak"}, consistency={"view": "drawn"}), facts).method_config
    assert (mine.augment.strength, mine.consistency.view) == ("weak", "drawn")


def test_views_of_what_is_no_image_are_not_compared_unless_that_is_asked_for() -> None:
    series = replace(OFFICE, images=False)  # a length of 64 and three channels make no photograph
    method = fill_in(config(), series).method_config
    assert (method.augment.strength, method.consistency.weight) == ("mixed", 0.0)
    full = fill_in(config(), series)
    assert (full.data.image_size, full.train.batch_size) == (None, fill_in(config(), DIGITS).train.batch_size)
    assert fill_in(config(consistency={"view": "strong"}), series).method_config.consistency.weight == 1.0


def test_other_views_of_photographs_are_other_crops_where_the_recipe_changes_nothing() -> None:
    for recipe in ("paper", "plus"):
        assert fill_in(config(recipe=recipe), OFFICE).method_config.consistency.view == "drawn"
        assert fill_in(config(recipe=recipe), DIGITS).method_config.consistency.view == "changed"
        alone = config(recipe=recipe, data={"augment": False})
        assert fill_in(alone, OFFICE).method_config.consistency.view == "changed", "the data has no other views"
        mine = config(recipe=recipe, consistency={"view": "changed"})
        assert fill_in(mine, OFFICE).method_config.consistency.view == "changed"


def test_what_was_set_stays() -> None:
    mine = config(
        pretrain={"steps": 7, "lr": 0.5, "head": 2.0},
        train={"steps": 9, "batch_size": 5, "log_every": 3, "evaluate_every": 0, "checkpoint_every": 0},
        rank={"every": 4, "step": 0.5},
        seed=3,
    )
    full, _ = limit_steps(fill_in(mine, OFFICE), {}, Pace(StepCost(1e3), StepCost(1e3)), seconds=60.0)
    full = by_steps(full, mine)
    assert (full.pretrain.steps, full.pretrain.lr, full.pretrain.head) == (7, 0.5, 2.0)
    assert (full.train.steps, full.train.batch_size, full.train.log_every) == (9, 5, 3)
    assert (full.train.evaluate_every, full.train.checkpoint_every) == (0, 0)
    assert (full.method_config.rank.every, full.method_config.rank.step) == (4, 0.5)
    assert (full.train.seed, full.method_config.transform.seed, full.method_config.discrepancy.seed) == (3, 3, 3)


@forall(st.floats(1e-4, 1e3), st.floats(1e-4, 1e3), st.floats(0.1, 1e3), st.booleans())
def test_training_fits_into_the_time_allowed(source: float, adapt: float, minutes: float, trains: bool) -> None:
    mine = config(minutes=minutes)
    full = fill_in(mine, OFFICE)
    assert full.pretrain.steps is not None
    wanted = {"train": full.train.steps} | ({"pretrain": full.pretrain.steps} if trains else {})
    pace = Pace(StepCost(source) if trains else StepCost(), StepCost(adapt))
    limited, notes = limit_steps(full, wanted, pace, 60 * minutes)
    assert limited.pretrain.steps is not None
    used = (limited.pretrain.steps * source if trains else 0.0) + limited.train.steps * adapt
    floored = FEWEST_STEPS in (limited.pretrain.steps, limited.train.steps)
    assert used <= 60 * minutes * (1 + 1e-9) or floored
    assert limited.train.steps <= full.train.steps
    changed = [limited.train.steps < full.train.steps, trains and limited.pretrain.steps < full.pretrain.steps]
    assert len(notes) == sum(changed)


def test_looks_are_on_as_many_images_as_there_is_time_for() -> None:
    full = fill_in(config(), OFFICE)
    slow = evaluations_along(full, Pace(StepCost(0.1), StepCost(0.2), forward=4e-3), classes=10)
    quick = evaluations_along(full, Pace(StepCost(0.1), StepCost(0.2), forward=1e-6), classes=10)
    assert EVALUATED_IMAGES[0] < slow.images < EVALUATED_IMAGES[1]
    assert quick == Evaluations()
    assert (slow.evaluations, slow.checks) == (quick.evaluations, quick.checks)


@forall(st.floats(1e-6, 1e-3), st.integers(2, 20), st.integers(1, 300))
def test_a_short_run_keeps_its_evaluations(forward: float, classes: int, steps: int) -> None:
    full = fill_in(config(), OFFICE)
    short = full.with_group("train", steps=steps).with_group("pretrain", steps=steps)
    planned = evaluations_along(short, Pace(StepCost(forward), StepCost(forward), forward=forward), classes)
    assert (planned.evaluations, planned.checks) == (Evaluations().evaluations, Evaluations().checks)


@forall(st.floats(1e-5, 1.0), st.floats(0.01, 100.0), st.integers(2, 100))
def test_looks_take_their_share_of_the_time_or_are_as_few_as_can_be(forward: float, step: float, classes: int) -> None:
    full = fill_in(config(), OFFICE)
    pace = Pace(StepCost(step), StepCost(step), forward=forward)
    planned = evaluations_along(full, pace, classes)
    assert full.pretrain.steps is not None
    allowed = max(EVALUATION_SHARE * step * (full.pretrain.steps + full.train.steps), SHORT_SECONDS)
    assert planned.predictions(classes) * forward <= allowed * (1 + 1e-9) or planned == Evaluations(
        EVALUATED_IMAGES[0], 1, 2
    )
    assert planned.images == EVALUATED_IMAGES[0] or planned.evaluations == Evaluations().evaluations, (
        "first fewer images, then planned"
    )
    assert by_steps(full, config(), planned).train.evaluate_every == full.train.steps // planned.evaluations


def test_a_search_for_class_frequencies_shares_the_time() -> None:
    mine = config(minutes=10, prior={"kind": "estimated", "search": {"rounds": 4}})
    pace = Pace(adapt=StepCost(1.0))
    limited, _ = limit_steps(fill_in(mine, OFFICE), {"train": 2000}, pace, seconds=600.0)
    assert limited.train.steps == 150, "two whole trainings and four half ones"


@pytest.mark.parametrize("steps", [1, 30, 400, 2000, 10_000])
def test_ranks_are_shrunk_alike_however_long_a_run_is(steps: int) -> None:
    mine = config(train={"steps": steps})
    full = by_steps(mine, mine)
    assert full.method_config.rank.step * (steps // full.method_config.rank.every) == pytest.approx(SHRINKAGE)
    assert full.train.log_every >= 1


def test_a_complete_configuration_stays_as_it_is() -> None:
    full = by_steps(fill_in(config(), OFFICE), config())
    again = Config.parse(full.model_dump(exclude_none=True))
    assert by_steps(fill_in(again, DIGITS), again) == again
