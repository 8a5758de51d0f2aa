from __future__ import annotations

import pytest
import torch

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.methods import build_method, method_names
from residapt.models import LeNet
from residapt.train.optimiser import build_optimizer
from residapt_bench.digits.recipes import COMMON, OWN, recipe_for


@pytest.fixture(scope="module")
def batch() -> Batch:
    g = torch.Generator().manual_seed(0)
    return Batch(torch.rand(4, 1, 28, 28, generator=g), torch.arange(4), torch.rand(4, 1, 28, 28, generator=g))


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_published_recipe_trains_lenet(name, batch):
    recipe = recipe_for(name, "own")
    method = build_method(name, LeNet(), recipe.method, example=batch.source).train()
    optimizer = build_optimizer(method.groups(), recipe.train)
    method.losses(batch, 0.6).total.backward()
    optimizer.step()
    assert torch.isfinite(method.losses(batch, 0.6).total)
    assert len(recipe.reference) > 30


def test_published_numbers():
    adda = OWN["adda"].train
    assert (adda.optimizer, adda.beta1, adda.network.lr, adda.batch_size, adda.steps) == (
        *("adam", 0.5, 2e-4, 128),
        10_000,
    )
    assert OWN["adda"].source.weight_decay == 2.5e-5
    dann = OWN["dann"]
    assert (dann.train.optimizer, dann.train.network.lr) == ("sgd", 0.01)
    assert (dann.train.decay, dann.method.discrepancy.gamma, dann.source) == ("constant", 10.0, None)
    dsn = OWN["dsn"]
    assert (dsn.method.dsn.alpha, dsn.method.dsn.beta, dsn.method.dsn.gamma) == (0.01, 0.075, 0.25)
    assert dsn.method.dsn.start_share * dsn.train.steps == 10_000
    assert OWN["two_stream"].train.optimizer == "adadelta"


def test_dann_reads_convolutional_features(batch):
    method = build_method("dann", LeNet(), OWN["dann"].method, example=batch.source)
    assert method.discrepancy.classifier[0].in_features == 800


def test_the_common_recipe_is_the_same_for_all():
    assert {id(recipe_for(name)) for name in method_names()} == {id(COMMON)}
    assert (COMMON.train.network.lr, COMMON.train.beta1, COMMON.train.batch_size) == (2e-4, 0.5, 64)
    assert COMMON.method.discrepancy.layer is None  # the logits


def test_a_recipe_lists_only_what_it_sets():
    assert set(COMMON.method.model_dump(exclude_unset=True)) == {"discrepancy", "rank"}
    assert "log_every" not in COMMON.train.model_dump(exclude_unset=True)


def test_no_recipe_is_invented():
    with pytest.raises(ConfigError, match="'coral'"):
        recipe_for("coral", "own")
