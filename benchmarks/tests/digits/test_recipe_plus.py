"""The recipe ``plus``: the same parts for every method, under whatever is set by hand."""

from __future__ import annotations

from residapt.methods.recipes import RECIPES
from residapt_bench.digits.recipes import COMMON, PLUS, recipe_for


def test_a_recipe_changes_what_it_names_and_nothing_else() -> None:
    settings = COMMON.method.with_parts({"discrepancy": {"end": 0.5}, "model": {"standardise": True}})
    discrepancy = COMMON.method.discrepancy.model_copy(update={"end": 0.5})
    assert discrepancy.weight != type(discrepancy)().weight, "the test needs a setting that is not the default"
    assert settings == COMMON.method.model_copy(update={"discrepancy": discrepancy})
    assert PLUS.method.discrepancy == discrepancy


def test_it_is_the_common_recipe_and_its_parts() -> None:
    assert recipe_for("rpt", "plus") is PLUS
    rates = {"network": COMMON.train.network, "transform": COMMON.train.transform}
    assert PLUS.train.model_copy(update=rates) == COMMON.train
    differing = {
        name for name in type(PLUS.method).model_fields if getattr(PLUS.method, name) != getattr(COMMON.method, name)
    }
    assert differing == set(RECIPES["plus"]) | {"augment"}
