"""The recipe ``plus``: the same parts for every method, under whatever is set by hand."""

from __future__ import annotations

from residapt_bench.digits.execute import _source_key
from residapt_bench.digits.recipe_plans import recipe_plans

from residapt.methods.recipes import RECIPES
from residapt_bench.digits.recipes import COMMON, DIGIT_CHANGES, PLUS, recipe_for
from residapt_bench.names import full_name, named, split_plus


def test_a_plus_behind_a_method_is_the_recipe() -> None:
    assert split_plus("rpt+") == ("rpt", True)
    assert split_plus("dann_flip") == ("dann_flip", False)
    assert (full_name("rpt", "plus"), full_name("rpt", "common")) == ("rpt+", "rpt")
    assert (named("dann_flip+"), named("rpt")) == ({"method": "dann_flip", "recipe": "plus"}, {"method": "rpt"})


def test_a_recipe_changes_what_it_names_and_nothing_else() -> None:
    settings = COMMON.method.with_parts({"discrepancy": {"end": 0.5}, "model": {"standardise": True}})
    discrepancy = COMMON.method.discrepancy.model_copy(update={"end": 0.5})
    assert discrepancy.weight != type(discrepancy)().weight, "the test needs a setting that is not the default"
    assert settings == COMMON.method.model_copy(update={"discrepancy": discrepancy})
    assert PLUS.method.discrepancy == discrepancy


def test_plans_of_a_grid_may_mix_recipes() -> None:
    plans = recipe_plans("svhn-mnist", "lenet", ["rpt", "rpt+", "dann_flip+"], [0], changes=["prior.every=7"])
    assert [(p.method, p.recipe, p.standardise) for p in plans] == [
        ("rpt", "common", False),
        ("rpt", "plus", True),
        ("dann_flip", "plus", True),
    ]
    assert {p.settings.prior.every for p in plans} == {7}
    assert plans[1].settings == plans[2].settings
    assert recipe_plans("svhn-mnist", "lenet", ["rpt"], [0], recipe="plus")[0].recipe == "plus"
    assert len({p.key() for p in plans}) == 3
    # The warm start is another network where its input is; runs of both recipes share nothing by mistake.
    assert len({_source_key(p) for p in plans}) == 2
    changed = recipe_plans("svhn-mnist", "lenet", ["rpt+"], [0], changes=["augment.invert=0"])[0]
    assert _source_key(changed) not in {_source_key(p) for p in plans}
    same = ["model.standardise=false", *(f"augment.{name}=0" for name in type(DIGIT_CHANGES).model_fields)]
    off = recipe_plans("svhn-mnist", "lenet", ["rpt+"], [0], changes=same)[0]
    assert _source_key(off) == _source_key(plans[0])


def test_it_is_the_common_recipe_and_its_parts() -> None:
    assert recipe_for("rpt", "plus") is PLUS
    rates = {"network": COMMON.train.network, "transform": COMMON.train.transform}
    assert PLUS.train.model_copy(update=rates) == COMMON.train
    differing = {
        name for name in type(PLUS.method).model_fields if getattr(PLUS.method, name) != getattr(COMMON.method, name)
    }
    assert differing == set(RECIPES["plus"]) | {"augment"}


def test_a_warm_start_can_be_shortened_and_is_then_another_run() -> None:
    usual, short = (recipe_plans("svhn-mnist", "lenet", ["rpt"], [0], source_steps=steps)[0] for steps in (None, 500))
    assert (usual.source.steps, short.source.steps) == (4000, 500)
    assert short.model_copy(update={"source": usual.source}) == usual
    assert short.key() != usual.key()


def test_two_pairs_with_one_source_share_its_network() -> None:
    plans = [recipe_plans(task, "lenet", ["rpt+"], [3])[0] for task in ("svhn-mnist", "svhn-usps")]
    assert _source_key(plans[0]) == _source_key(plans[1])
    assert plans[0].key() != plans[1].key()
