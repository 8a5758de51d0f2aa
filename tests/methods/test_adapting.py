"""Prior, information maximisation, averaged weights and classifier steps, in every method that reads both domains."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.augment import Augment
from residapt.data.batches import Batches
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import ConfigError
from residapt.losses.adversarial import DomainLogits, domain_loss, flipped_loss
from residapt.losses.consistency import consistency
from residapt.losses.information import information_maximisation
from residapt.methods import DiscrepancyConfig, MethodConfig, build_method, method_names
from residapt.methods.base import AdaptingMethod
from residapt.methods.config import AverageConfig, PriorConfig
from residapt.methods.names import SOURCE_FREE
from residapt.methods.parameters import count_parameters
from residapt.rank import RankConfig, shrink
from residapt.storage import load, save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.streams import TwoStream, merge_and_unload
from residapt.streams.average import StreamAverage
from residapt.train import Callback, Method, TrainConfig, Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.metrics import MetricsFile
from residapt.transform import TransformConfig
from support.tiny_run import keep, tiny_pair, tiny_trainer

ALONE = {"source_only", "target_only", "fine_tune", "pooled"}
ADAPTING = [name for name in method_names() if name not in {*ALONE, *SOURCE_FREE}]
WITHOUT_NORM = [name for name in ADAPTING if name != "norm_affine"]
"""Those that a network without normalisation layers can have."""
PRIOR = {"kind": "estimated", "warmup": 0.0}
EVERYTHING: dict[str, Any] = {
    "prior": PRIOR,
    "information": {"weight": 0.3},
    "discrepancy": {"steps": 2},
    "average": {"decay": 0.9},
    "consistency": {"weight": 0.2},
    "augment": {"shift": 1, "rotate": 10, "scale": 0.1, "shear": 0.1, "contrast": 0.3, "invert": 0.5},
}


@pytest.fixture(autouse=True)
def _estimates_of_a_tiny_network_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriorConfig, "max_condition", 1e6)
    monkeypatch.setattr(AverageConfig, "every", 2)
    monkeypatch.setattr(PriorConfig, "every", 2)


def skewed_pair(dtype: torch.dtype = torch.float32, augment: bool = False) -> DomainPair:
    """The classes of the source have the frequencies 1/2, 1/3 and 1/6; its images keep their classes."""
    pair = tiny_pair(dtype, augment=augment)
    members = [(pair.source.labels == k).nonzero().flatten().repeat(2) for k in range(3)]
    index = torch.cat([own[:count] for own, count in zip(members, (15, 10, 5), strict=True)])
    images = pair.source.images.fetch(index, torch.Generator().manual_seed(0))
    labels = pair.source.labels[index]
    return DomainPair(Labelled(TensorImages(images.to(dtype), keep), labels), pair.target)


def first_losses(name: str, parts: dict[str, Any], progress: float = 0.5) -> tuple[Any, Trainer]:
    trainer = tiny_trainer(
        name, pair=skewed_pair(torch.float64), dtype=torch.float64, net={"norm": False, "dropout": 0.0}, parts=parts
    )
    trainer.method.train()
    batch = trainer.batches.batch(0)
    return trainer.method.losses(batch, progress), trainer


@pytest.mark.parametrize("name", ADAPTING)
def test_everything_together_in_every_method(name: str) -> None:
    trainer = tiny_trainer(name, pair=skewed_pair(), parts=EVERYTHING, steps=8)
    method = trainer.run()
    assert isinstance(method, AdaptingMethod)
    found = method.record()["prior"]
    assert sum(found["target"]) == pytest.approx(1.0, abs=1e-4)
    assert found["estimates"] + found["refused"] > 0
    assert method.streams.average is not None
    assert method.streams.average.begun
    method.eval()
    x = trainer.batches.batch(0).target
    plain = method.target_model().eval()
    torch.testing.assert_close(plain(x), method.predict(x, "target"), atol=1e-5, rtol=1e-5)


def test_the_others_do_not_read_both_domains() -> None:
    for name in ALONE - {"fine_tune", "pooled", "target_only"}:
        trainer = tiny_trainer(name, pair=skewed_pair(), parts=EVERYTHING, steps=2)
        assert not isinstance(trainer.run(), AdaptingMethod)
        assert trainer.method.record() == {}


@pytest.mark.parametrize("name", WITHOUT_NORM)
def test_weights_of_one_leave_every_loss_as_it_is(name: str) -> None:
    """Balanced weights on a balanced source: the weighted form of every loss is the plain one."""
    pair = tiny_pair(torch.float64, augment=False)
    values = []
    for kind in ("as-is", "balanced"):
        trainer = tiny_trainer(
            name,
            pair=pair,
            dtype=torch.float64,
            net={"norm": False, "dropout": 0.0},
            parts={"prior": {"kind": kind}},
        )
        losses = trainer.method.losses(trainer.batches.batch(0), 0.5)
        values.append({part: float(value.detach()) for part, value in losses.parts.items()})
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_classification_and_domain_losses_have_the_same_weights() -> None:
    losses, trainer = first_losses("dann_flip", {"prior": {"kind": "balanced"}})
    batch, method = trainer.batches.batch(0), trainer.method
    weights = (torch.tensor([1 / 3] * 3) / torch.tensor([1 / 2, 1 / 3, 1 / 6])).double()[batch.labels]
    assert len(set(weights.tolist())) > 1
    z_s, z_t = method.streams(batch.source), method.streams(batch.target, stream="target")
    each = [float(-row.detach().log_softmax(0)[y]) for row, y in zip(z_s, batch.labels, strict=True)]
    expected = sum(w * e for w, e in zip(weights.tolist(), each, strict=True)) / len(each)
    assert float(losses.parts["class"].detach()) == pytest.approx(expected, rel=1e-6)
    domains = DomainLogits(method.discrepancy.classifier(z_s), method.discrepancy.classifier(z_t))
    sides = DomainLogits(weights, torch.ones_like(weights))
    torch.testing.assert_close(losses.parts["confusion"], flipped_loss(domains, sides), rtol=1e-6, atol=0)
    torch.testing.assert_close(losses.parts["domain"], domain_loss(domains, sides), rtol=1e-6, atol=0)
    assert float(losses.watch["prior_distance"]) == pytest.approx(1 / 6)


@pytest.mark.parametrize("kind", ["as-is", "balanced", "estimated"])
def test_information_maximisation_knows_the_assumed_prior(kind: str) -> None:
    parts = {"prior": {"kind": kind, "start": "source"}, "information": {"weight": 0.3, "gamma": 4.0, "diversity": 0.4}}
    losses, trainer = first_losses("rpt", parts)
    logits = trainer.method.streams(trainer.batches.batch(0).target, stream="target")
    assumed = {"as-is": None, "balanced": torch.ones(3) / 3, "estimated": torch.tensor([1 / 2, 1 / 3, 1 / 6])}[kind]
    torch.testing.assert_close(losses.parts["information"], information_maximisation(logits, assumed, diversity=0.4))
    others = {"confusion": 2 / (1 + torch.tensor(-5.0).exp()) - 1}
    ramped = 0.3 * (2 / (1 + torch.tensor(-2.0).exp()) - 1)
    total = sum(others.get(name, 1.0) * value for name, value in losses.parts.items() if name != "information")
    torch.testing.assert_close(losses.total, total + ramped * losses.parts["information"], rtol=1e-6, atol=1e-9)


def test_a_loop_of_ones_own_is_told_to_introduce_the_data(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    method = build_method("rpt", model, MethodConfig.parse({"prior": PRIOR}), example=x)
    with pytest.raises(ConfigError, match=r"prior\.kind"):
        method.losses(Batches(pairs((6,)), size=6, seed=0).batch(0), 0.5)


@pytest.mark.parametrize("net", ["mlp", "resnet"])
def test_rank_zero_rpt_is_dann_with_the_same_parts(
    nets: Callable[..., Any], pairs: Callable[..., Any], net: str
) -> None:
    parts = {name: part for name, part in EVERYTHING.items() if name not in ("augment", "consistency")}
    parts["discrepancy"] = {"steps": 2, "hidden": (8,)}
    config = MethodConfig.parse({**parts, "transform": {"left_rank": 0, "right_rank": 0}})
    found = []
    for name in ("rpt", "dann_flip"):
        model, x = nets(net)
        pair = pairs(tuple(x.shape[1:]))
        source = Labelled(pair.source.images, torch.arange(24).clamp_max(11) % 3)
        method = build_method(name, model, config, example=x).double()
        Trainer(method, DomainPair(source, pair.target), TrainConfig(steps=10, batch_size=6)).run()
        found.append(method)
    assert found[0].record() == found[1].record()
    assert found[0].record()["prior"]["estimates"] > 0
    for name, tensor in found[1].state_dict().items():
        torch.testing.assert_close(found[0].state_dict()[name], tensor, atol=1e-12, rtol=0)


class Stopped(BaseException):
    """What kill -9 is to a process."""


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, method: Method, step: int) -> None:
        if step == self.step:
            raise Stopped


@pytest.mark.parametrize("name", ["rpt", "adda", "coral"])
def test_a_resumed_run_is_bit_equal(name: str, tmp_path: Path) -> None:
    def fresh(*listeners: Callback) -> Trainer:
        return tiny_trainer(name, listeners, pair=skewed_pair(augment=True), parts=EVERYTHING)

    def lines(file: Path) -> list[dict[str, Any]]:
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in file.open()]

    whole = fresh(MetricsFile(tmp_path / "whole.jsonl"))
    whole.run()
    saves = Checkpointer(tmp_path / "checkpoint", 5)
    with pytest.raises(Stopped):
        fresh(MetricsFile(tmp_path / "parts.jsonl"), StopAt(13), saves).run()
    second = fresh(MetricsFile(tmp_path / "parts.jsonl"), Checkpointer(tmp_path / "checkpoint", 5))
    assert restore_checkpoint(second, tmp_path / "checkpoint") == 10
    second.run()
    assert whole.method.record()["prior"]["estimates"] > 0
    theirs = second.method.state_dict()
    assert whole.method.state_dict().keys() == theirs.keys()
    for key, tensor in whole.method.state_dict().items():
        assert torch.equal(tensor, theirs[key]), key
    assert lines(tmp_path / "whole.jsonl") == lines(tmp_path / "parts.jsonl")


class Seen(Callback):
    """All tensors of both streams after every second step."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def on_step(self, method: Method, step: int) -> None:
        if step % 2 == 0:
            state = method.streams.state_dict()
            self.states.append({name: t.clone() for name, t in state.items() if not name.startswith("average.")})


@pytest.mark.parametrize("name", ["rpt_fixed", "dann_flip", "adda", "two_stream"])
def test_the_average_is_that_of_the_weights_seen(name: str) -> None:
    record = Seen()
    parts = {"average": {"decay": 0.8}}
    method = tiny_trainer(name, [record], parts=parts, steps=20).run()
    # Step 12 is the first even one of the second half, for progress counts the steps before.
    expected = {key: tensor.double() for key, tensor in record.states[5].items()}
    for state in record.states[6:]:
        for key, tensor in state.items():
            expected[key] = 0.64 * expected[key] + 0.36 * tensor if tensor.is_floating_point() else tensor.double()
    found = method.streams.average.mean.state_dict()
    assert set(found) == set(expected)
    for key, tensor in found.items():
        torch.testing.assert_close(tensor.double(), expected[key], atol=1e-6, rtol=1e-5)


def test_a_tied_weight_is_averaged_once() -> None:
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    network[1].weight = network[0].weight
    streams = TwoStream(network, include=())
    streams.average = StreamAverage(streams)
    streams.average.update(streams, 0.5)
    first = network[0].weight.detach().clone()
    with torch.no_grad():
        network[0].weight += 1
    streams.average.update(streams, 0.75)
    torch.testing.assert_close(streams.average.mean.model[1].weight.detach(), first + 0.25)


def test_ranks_fall_in_the_average_as_they_do_in_the_transforms() -> None:
    """B1 and B2 are selected, never fitted, so that a column that is left shows which one it was."""
    torch.manual_seed(0)
    streams = TwoStream(nn.Linear(5, 6).double(), left_rank=4, right_rank=4)
    with torch.no_grad():
        streams.transform("model").D += torch.randn(4, 4).double()
    streams.average = StreamAverage(streams)
    earlier = {key: streams.transform("model").get_parameter(key).detach().clone() for key in ("B1", "B2")}
    streams.average.update(streams, 0.5)
    with torch.no_grad():
        for parameter in streams.parameters():
            parameter.add_(torch.randn_like(parameter) * parameter.requires_grad)
    present = {key: streams.transform("model").get_parameter(key).detach().clone() for key in ("B1", "B2")}
    while streams.ranks() == {"model": (4, 4)}:
        assert streams.transform("model").alive
        shrink(streams, RankConfig(step=0.05))
    streams.average.update(streams, 0.75)
    assert streams.average.mean.ranks() == streams.ranks()
    for key, wide in present.items():
        kept = [
            int((wide == column[:, None]).all(dim=0).nonzero())
            for column in streams.transform("model").get_parameter(key).T
        ]
        mean = streams.average.mean.transform("model").get_parameter(key)
        torch.testing.assert_close(mean, (0.75 * earlier[key] + 0.25 * wide)[:, kept])


def test_predictions_are_by_the_average_and_training_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AverageConfig, "every", 1)
    plain = tiny_trainer("rpt", steps=12)
    plain.run()
    trainer = tiny_trainer("rpt", parts={"average": {"decay": 0.9, "start": 0.0}}, steps=12)
    streams = trainer.run().streams
    for name, tensor in plain.method.state_dict().items():
        assert torch.equal(trainer.method.state_dict()[name], tensor), name
    x = trainer.batches.batch(0).target
    streams.eval()
    plain.method.eval()
    with torch.no_grad():
        averaged = streams(x, stream="target")
        for stream in ("source", "target"):
            assert torch.equal(streams(x, stream=stream), streams.average.mean(x, stream=stream))
            assert not torch.allclose(streams(x, stream=stream), plain.method.predict(x, stream), atol=1e-4)
        torch.testing.assert_close(merge_and_unload(streams, x).eval()(x), averaged)
    streams.train()
    torch.manual_seed(0)
    live = streams(x, stream="target")
    plain.method.train()
    torch.manual_seed(0)
    assert torch.equal(live, plain.method.predict(x, "target"))


def test_averaged_weights_have_an_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ranks that fell along the way, and on the averaged source network, which it carries."""
    monkeypatch.setattr(AverageConfig, "every", 1)
    parts = {"average": {"decay": 0.8}}
    trainer = tiny_trainer("rpt", parts=parts, steps=20, rank=RankConfig(every=4, step=6e-2))
    method = trainer.run()
    streams = method.streams.eval()
    assert streams.ranks() != method.started_with, "the test needs ranks that fall"
    metadata = AdapterMetadata(method="rpt", classes=("a", "b", "c"))
    save_pretrained(streams, tmp_path / "adapter", metadata=metadata, base="included")
    x = trainer.batches.batch(0).target
    loaded = load(copy.deepcopy(streams.model), tmp_path / "adapter").eval()
    with torch.no_grad():
        for stream in ("source", "target"):
            torch.testing.assert_close(loaded(x, stream=stream), streams(x, stream=stream))


def test_averages_are_not_trained_and_not_counted() -> None:
    plain, averaged = (tiny_trainer("rpt", parts=parts, steps=2) for parts in ({}, {"average": {"decay": 0.9}}))
    assert count_parameters(averaged.method) == count_parameters(plain.method)
    sizes = [sum(p.numel() for group in t.optimizer.param_groups for p in group["params"]) for t in (plain, averaged)]
    assert sizes[0] == sizes[1]


def test_the_classifier_makes_its_further_steps_alone() -> None:
    """One step of the network with k of the classifier, written out by hand with plain Adam."""
    settings = MethodConfig(
        discrepancy=DiscrepancyConfig(hidden=(8,), steps=3, gamma=0.0),
        transform=TransformConfig(left_rank=2, right_rank=2),
        rank=RankConfig(weight=0.0),
    )
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    pair = skewed_pair(torch.float64)
    example = pair.source.images.fetch(torch.arange(2), torch.Generator())
    method = build_method("rpt", network, settings, example=example)
    hand = copy.deepcopy(method)
    trainer = Trainer(method, pair, TrainConfig(steps=1, batch_size=8, beta1=0.9))
    batch = trainer.batches.batch(0)
    trainer.run()

    adam = torch.optim.Adam(hand.parameters(), lr=2e-4)
    with torch.no_grad():
        logits = hand.streams.both(batch.source, batch.target)
    hand.losses(batch, 0.0).total.backward()
    adam.step()
    for _ in range(2):
        adam.zero_grad()
        z_s, z_t = (hand.discrepancy.classifier(outputs.logits) for outputs in logits)
        domain_loss(DomainLogits(z_s, z_t)).backward()
        assert all(p.grad is None for p in hand.streams.parameters())
        adam.step()
    for (name, mine), theirs in zip(hand.named_parameters(), method.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=0, msg=name)
    assert method.discrepancy._kept is None


def test_a_refused_estimate_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(Callback):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def on_note(self, method: Method, step: int, note: str) -> None:
            self.texts.append(note)

    heard = Heard()
    monkeypatch.setattr(PriorConfig, "max_condition", 1.0)
    parts = {"prior": PRIOR}
    trainer = tiny_trainer("dann_flip", [heard], pair=skewed_pair(), parts=parts, steps=20)
    trainer.run()
    refused = trainer.method.record()["prior"]["refused"]
    assert refused > 1
    assert sum("was rejected and the last one kept" in text for text in heard.texts) == 1
    assert f"{refused} of {refused} estimates of the target's class frequencies were rejected." in heard.texts
    assert trainer.method.record()["prior"]["target"] == [0.33333] * 3


@pytest.mark.parametrize("kind", ["kl", "fixmatch"])
def test_changed_target_images_are_compared_with_the_images_as_they_are(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"weight": 0.5, "kind": kind, "threshold": 0.4}
    monkeypatch.setattr("residapt.methods.base.VIEW", Augment(invert=1.0, value_range=None))
    losses, trainer = first_losses("rpt", {"consistency": settings})
    x = trainer.batches.batch(0).target
    turned = x.amin((1, 2, 3), keepdim=True) + x.amax((1, 2, 3), keepdim=True) - x
    logits, other = (trainer.method.streams(view, stream="target").detach() for view in (x, turned))
    expected = float(consistency(logits, other, kind, 0.4))
    assert expected > 0
    assert float(losses.parts["consistency"].detach()) == pytest.approx(expected, rel=1e-6)


def test_a_view_that_the_data_draws_is_compared_with_the_image() -> None:
    parts = {"consistency": {"weight": 0.5, "view": "drawn", "start": 0.5}}
    trainer = tiny_trainer("rpt", net={"norm": False, "dropout": 0.0}, parts=parts, steps=4)
    method = trainer.method.train()
    assert [method.wants_view(p) for p in (0.0, 0.49, 0.5, 1.0)] == [False, False, True, True]
    with pytest.raises(ConfigError, match=r"consistency\.view"):
        method.losses(trainer.batches.batch(0), 0.5)
    batch = trainer.batches.batch(0, view=True)
    logits, other = (method.streams(view, stream="target").detach() for view in (batch.target, batch.view))
    expected = float(consistency(logits, other))
    assert expected > 0
    assert float(method.losses(batch, 0.5).parts["consistency"].detach()) == pytest.approx(expected, rel=1e-5)


def test_training_draws_a_second_view_only_where_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"consistency": {"weight": 0.5, "view": "drawn", "start": 0.5}}
    trainer = tiny_trainer("dann_flip", parts=parts, steps=4)
    drawn, draw = [], Batches.batch
    monkeypatch.setattr(
        Batches, "batch", lambda self, step, **options: drawn.append(options["view"]) or draw(self, step, **options)
    )
    trainer.run()
    assert drawn == [False, False, True, True]


def test_consistency_counts_from_its_start_on_and_its_ramp_begins_there() -> None:
    parts = {"consistency": {"weight": 0.5, "start": 0.5}}
    assert "consistency" not in first_losses("rpt", parts, progress=0.49)[0].parts
    for progress in (0.5, 0.75):
        with_it = first_losses("rpt", parts, progress)[0]
        without = first_losses("rpt", {}, progress)[0]
        weight = 0.5 * (2 / (1 + math.exp(-10 * (progress - 0.5) / 0.5)) - 1)
        added = with_it.total - without.total
        torch.testing.assert_close(added, weight * with_it.parts["consistency"], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("name", WITHOUT_NORM)
def test_after_its_end_the_discrepancy_no_longer_counts(name: str) -> None:
    parts = {"discrepancy": {"end": 0.5}}
    for progress, counts in ((0.49, True), (0.5, False), (1.0, False)):
        losses = first_losses(name, parts, progress)[0]
        free = first_losses(name, {"discrepancy": {"weight": 0.0}}, progress)[0]
        assert float(losses.parts["confusion"].detach()) != 0
        assert (abs(float(losses.total.detach() - free.total.detach())) > 1e-9) is counts
    assert DiscrepancyConfig(weight=0.7, gamma=0.0).weight_at(1.0) == 0.7, "by default it counts to the last step"


def test_source_images_are_changed_and_target_images_are_not() -> None:
    parts = {"augment": {"invert": 1.0}}
    losses, trainer = first_losses("dann_flip", parts)
    batch = trainer.batches.batch(0)
    ends = batch.source.amin((1, 2, 3), keepdim=True) + batch.source.amax((1, 2, 3), keepdim=True)
    logits = trainer.method.streams(ends - batch.source)
    torch.testing.assert_close(losses.parts["class"], functional.cross_entropy(logits, batch.labels))
    plain, _ = first_losses("dann_flip", {})
    assert float(plain.parts["class"].detach()) != pytest.approx(float(losses.parts["class"].detach()))
    assert torch.equal(batch.target, trainer.batches.batch(0).target)
