"""Target labels have one door, and it opens for the oracle only."""

from __future__ import annotations

import pytest
import torch

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import ConfigError
from residapt.methods import MethodConfig, build_method, is_oracle, training_pair
from residapt.methods.fit import make_trainer
from residapt.train import TrainConfig
from support.methods import FOR_ANY_NETWORK


@pytest.fixture
def pair(make_mlp_batch):
    batch = make_mlp_batch()
    return DomainPair(Labelled(TensorImages(batch.source.float()), batch.labels), TensorImages(batch.target.float()))


@pytest.fixture
def labelled(make_mlp_batch):
    batch = make_mlp_batch()
    return Labelled(TensorImages(batch.target.float()), (batch.labels + 1) % 3)


def build(name, make_mlp, make_mlp_batch):
    return build_method(name, make_mlp().float(), example=make_mlp_batch().source.float())


def test_only_target_only_is_an_oracle(make_mlp, make_mlp_batch):
    oracles = {name for name in FOR_ANY_NETWORK if is_oracle(build(name, make_mlp, make_mlp_batch))}
    assert oracles == {"target_only"}


NEEDY = ("fine_tune", "pooled")


@pytest.mark.parametrize("name", [name for name in FOR_ANY_NETWORK if name not in ("target_only", *NEEDY)])
def test_no_other_method_sees_target_labels(make_mlp, make_mlp_batch, pair, labelled, name):
    assert training_pair(build(name, make_mlp, make_mlp_batch), pair, labelled) is pair


def test_the_oracle_trains_on_the_labelled_target(make_mlp, make_mlp_batch, pair, labelled):
    method = build("target_only", make_mlp, make_mlp_batch)
    found = training_pair(method, pair, labelled)
    assert found.source is labelled
    assert found.target is labelled.images
    few = DomainPair(pair.source, pair.target, labelled)
    assert training_pair(method, few).source is labelled
    with pytest.raises(ConfigError, match="'target_only'"):
        training_pair(method, pair)


@pytest.mark.parametrize("name", NEEDY)
def test_who_needs_labels_says_so_before_training(make_mlp, make_mlp_batch, pair, labelled, name):
    method = build(name, make_mlp, make_mlp_batch)
    with pytest.raises(ConfigError, match=f"'{name}'.*--target-labels"):
        training_pair(method, pair)
    with pytest.raises(ConfigError, match="--target-labels"):
        # Labels for scoring are no labels for training.
        training_pair(method, pair, labelled)
    with pytest.raises(ConfigError, match="--target-labels"):
        method.losses(make_mlp_batch(), 0.0)
    few = DomainPair(pair.source, pair.target, labelled)
    assert training_pair(method, few) is few


def test_fine_tuning_looks_at_the_few_images_only(make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build_method("fine_tune", make_mlp(), example=batch.source)
    losses = method.losses(batch, 0.3)
    expected = torch.nn.functional.cross_entropy(method.streams.model(batch.few), batch.few_labels)
    assert float(losses.total) == pytest.approx(float(expected), rel=1e-12)


def test_a_trainer_for_the_oracle_fits_the_target_labels(make_mlp, make_mlp_batch, pair, labelled):
    train = TrainConfig(steps=150, batch_size=6, network={"lr": 0.05})
    trainer = make_trainer(
        "target_only", make_mlp().float(), pair, method=MethodConfig(), train=train, target_labels=labelled
    )
    method = trainer.run()
    images = labelled.images.fetch(torch.arange(6), torch.Generator())
    assert (method.predict(images).argmax(1) == labelled.labels).all()
