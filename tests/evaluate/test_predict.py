from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from residapt.data.domains import Labelled
from residapt.evaluate.predict import Evaluation, accuracy, evaluating, predict_logits
from residapt.methods import build_method
from residapt.train import TrainConfig, Trainer
from residapt.train.curve import Curve


def test_accuracy_is_the_share_of_correct_predictions(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    method = build_method("rpt", model, example=x).double()
    images = pairs((6,)).source.images
    with torch.no_grad():
        predicted = method.eval().predict(images.images, "target").argmax(1)
    labels = predicted.clone()
    labels[:6] = (labels[:6] + 1) % 3
    assert accuracy(method, Evaluation("some", Labelled(images, labels))) == pytest.approx(100 * 18 / 24)


def test_streams_are_scored_apart(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    method = build_method("rpt", model, example=x).double()
    images = pairs((6,)).source.images
    labels = method.predict(images.images, "source").argmax(1)
    assert accuracy(method, Evaluation("source", Labelled(images, labels), stream="source")) == 100.0


def test_predictions_are_in_order_whatever_the_batch_size(pairs: Callable[..., Any]) -> None:
    images = pairs((6,)).source.images
    for size in (1, 5, 100):
        found = predict_logits(lambda x: x, images, batch_size=size, device=torch.device("cpu"))
        torch.testing.assert_close(found, images.images.float())


def test_evaluation_mode_is_undone(nets: Callable[..., Any]) -> None:
    model, _ = nets("dropout")
    for mode in (True, False):
        model.train(mode)
        with evaluating(model):
            assert not model.training
            assert not torch.is_grad_enabled()
        assert model.training is mode


def test_looking_does_not_change_training(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    """With dropout, batch order and rank selection on: the weights are the same bit for bit."""

    def weights(every: int) -> torch.Tensor:
        model, x = nets("dropout")
        method = build_method("rpt", model, example=x).double()
        pair = pairs((6,))
        curve = Curve([Evaluation("all", pair.source)], every)
        Trainer(method, pair, TrainConfig(steps=5, batch_size=4), callbacks=[curve]).run()
        assert [point["step"] for point in curve.points] == ([1, 2, 3, 4, 5] if every else [5])
        return nn.utils.parameters_to_vector(method.parameters())

    assert torch.equal(weights(0), weights(1))
