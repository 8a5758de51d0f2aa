from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import ConfigError, DataError, TrainingError
from residapt.methods import DiscrepancyConfig, MethodConfig, build_method
from residapt.rank import RankChange, RankConfig, shrink
from residapt.streams import TwoStream
from residapt.train import Callback, GroupConfig, Losses, Method, StepInfo, TrainConfig, Trainer, weighted_sum
from residapt.train.schedule import ramp
from residapt.transform import TransformConfig

FAST = {"network": GroupConfig(lr=1e-2), "transform": GroupConfig(lr=1e-2), "adversary": GroupConfig(lr=1e-2)}


class Recorder(Callback):
    """Everything that a run tells."""

    def __init__(self) -> None:
        self.infos: list[StepInfo] = []
        self.changes: list[tuple[int, list[RankChange]]] = []
        self.steps: list[int] = []
        self.told: list[str] = []
        self.ends: list[int] = []

    def on_log(self, method: Method, info: StepInfo) -> None:
        self.infos.append(info)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        self.changes.append((step, changes))

    def on_step(self, method: Method, step: int) -> None:
        self.steps.append(step)

    def on_note(self, method: Method, step: int, note: str) -> None:
        self.told.append(note)

    def on_end(self, method: Method, step: int) -> None:
        self.ends.append(step)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


def small(rank: RankConfig | None = None, **settings: Any) -> MethodConfig:
    """A method with ranks of 6 and a small domain classifier."""
    transform = TransformConfig(left_rank=settings.pop("ranks", 6), right_rank=6)
    return MethodConfig(
        rank=rank or RankConfig(), transform=transform, discrepancy=DiscrepancyConfig(hidden=(8,)), **settings
    )


@pytest.fixture
def trained(nets: Callable[..., Any], pairs: Callable[..., Any]) -> Callable[..., tuple[Method, Recorder]]:
    """Train a small network by a method of that name; settings go where their names belong."""

    def run(
        name: str,
        pair: DomainPair | None = None,
        *,
        net: str = "mlp",
        steps: int = 12,
        method: MethodConfig | None = None,
        **settings: Any,
    ) -> tuple[Method, Recorder]:
        model, x = nets(net)
        made = build_method(name, model, method or small(), example=x).double()
        recorder = Recorder()
        settings = {"log_every": 1, "batch_size": 6, **FAST, **settings}
        pair = pair or pairs(tuple(x.shape[1:]))
        return Trainer(made, pair, TrainConfig(steps=steps, **settings), callbacks=[recorder]).run(), recorder

    return run


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("net", ["mlp", "resnet"])
def test_training_goes_on_and_the_loss_still_falls_after_a_prune(
    trained: Callable[..., Any], optimizer: str, net: str
) -> None:
    settings = {} if optimizer == "adam" else {"network": GroupConfig(lr=0.05)}
    rank = RankConfig(step=0.05, every=5)
    method, seen = trained("rpt", net=net, steps=60, method=small(rank), optimizer=optimizer, **settings)
    assert seen.changes, "ranks must have fallen for this test to mean anything"
    first = seen.changes[0][0]
    assert first <= 20
    losses = [info.values["class"] for info in seen.infos]
    assert sum(losses[-5:]) < 0.8 * sum(losses[first : first + 5])
    assert all(torch.isfinite(parameter).all() for parameter in method.parameters())
    sums = [sum(map(sum, info.ranks.values())) for info in seen.infos]
    assert sums == sorted(sums, reverse=True)


def test_ranks_can_fall_to_nothing_and_training_goes_on(trained: Callable[..., Any]) -> None:
    method, seen = trained("rpt", steps=15, method=small(RankConfig(step=1.0, every=5)))
    assert set(method.streams.ranks().values()) == {(0, 0)}
    assert "stream" in seen.infos[3].values
    assert "stream" not in seen.infos[-1].values
    assert seen.infos[-1].values["class"] < seen.infos[5].values["class"]


def test_only_the_bias_column_alive_still_trains(nets: Callable[..., Any]) -> None:
    """Factors without columns have empty gradients; the optimiser must take them."""
    model, x = nets("mlp")
    method = build_method("rpt", model, small(), example=x).double()
    optimizer = torch.optim.Adam(method.parameters(), fused=True)
    method.streams(x, stream="target").square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        for name in method.streams.layers:
            method.streams.transform(name).A2.zero_()
            method.streams.transform(name).D.zero_()
    shrink(method.streams, RankConfig(step=1e-5), optimizer)
    assert all(ranks[1] == 0 < ranks[0] for ranks in method.streams.ranks().values())
    before = method.streams.transform("0").bias_B2.clone()
    optimizer.zero_grad()
    method.streams(x, stream="target").square().sum().backward()
    optimizer.step()
    assert not torch.equal(method.streams.transform("0").bias_B2, before)


def test_fixed_ranks_stay(trained: Callable[..., Any]) -> None:
    method, seen = trained("rpt_fixed", method=small(RankConfig(step=1.0, every=1)))
    assert set(method.streams.ranks().values()) == {(6, 6)}
    assert seen.changes == []
    assert seen.told == []


def test_a_run_whose_ranks_did_not_fall_says_so_and_names_the_setting(trained: Callable[..., Any]) -> None:
    _, seen = trained("rpt", method=small(RankConfig(step=1e-6, every=2)))
    (note,) = seen.told
    for words in ("no rank has fallen", "1e-06", "every 2 steps", "rank.step", "3e-06"):
        assert words in note


def test_no_notice_where_there_were_no_ranks(trained: Callable[..., Any]) -> None:
    _, seen = trained("rpt", method=small(ranks=0))
    assert seen.told == []


@pytest.mark.parametrize("name", ["rpt", "dann", "source_only"])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trained: Callable[..., Any], name: str) -> None:
    one, streams, other = (trained(name, net="dropout", seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(weights(one), weights(streams))
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.parametrize("name", ["rpt", "dann", "dann_flip", "source_only"])
def test_target_labels_cannot_influence_training(
    trained: Callable[..., Any], pairs: Callable[..., Any], name: str
) -> None:
    """Bit-identical weights whether the target comes with its labels, with permuted ones, or with none."""
    pair = pairs((6,))
    results = []
    for labels in (torch.arange(24) % 3, torch.arange(24).flip(0) % 2, None):
        target: Any = pair.target if labels is None else Labelled(pair.target, labels)
        method, _ = trained(name, DomainPair(pair.source, target))
        results.append(weights(method))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_target_images_do_influence_training(trained: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    """The counterpart: the test above would also pass if the target were not read at all."""
    pair = pairs((6,))
    moved = TensorImages(pair.target.images + 1.0, pair.target.transform)
    one, streams = (trained("rpt", DomainPair(pair.source, target))[0] for target in (pair.target, moved))
    assert not torch.equal(weights(one), weights(streams))


def test_few_labelled_target_images_are_used(trained: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    pair = pairs((6,), few=5)
    _, seen = trained("rpt", pair)
    assert "target_class" in seen.infos[0].values
    permuted = DomainPair(pair.source, pair.target, Labelled(pair.few.images, pair.few.labels.flip(0)))
    one, streams = (trained("rpt", which)[0] for which in (pair, permuted))
    assert not torch.equal(weights(one), weights(streams))


def test_what_is_logged(trained: Callable[..., Any]) -> None:
    _, seen = trained("rpt", steps=5, log_every=2)
    assert [info.step for info in seen.infos] == [2, 4, 5]
    assert seen.steps == [1, 2, 3, 4, 5]
    assert seen.ends == [5]
    values = seen.infos[0].values
    assert {"class", "confusion", "domain", "stream", "total", "domain_accuracy", "energy"} <= set(values)
    assert seen.infos[0].ranks == {"0": (6, 6), "2": (6, 6)}


def test_the_total_is_the_weighted_sum_of_the_parts(trained: Callable[..., Any]) -> None:
    _, seen = trained("rpt", steps=4, method=small(stream_weight=0.5))
    for number, info in enumerate(seen.infos):
        v = info.values
        expected = v["class"] + v["domain"] + ramp(number / 4) * v["confusion"] + 0.5 * v["stream"]
        assert v["total"] == pytest.approx(expected)


def test_weighted_sum_shows_but_does_not_minimise_what_has_weight_zero() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    losses = weighted_sum({"a": x * 1.0, "b": x * 10.0, "c": x * 100.0}, {"b": 0.0, "c": 0.5})
    losses.total.backward()
    assert x.grad is not None
    assert x.grad.item() == 51.0
    assert losses.parts["b"].item() == 20.0


def test_a_group_with_learning_rate_zero_stays(trained: Callable[..., Any], nets: Callable[..., Any]) -> None:
    method, _ = trained("rpt_fixed", network=GroupConfig(lr=0.0))
    assert torch.equal(weights(method.streams.model), weights(nets("mlp").model))
    method, _ = trained("rpt_fixed", method=small(train_source=False))
    assert torch.equal(weights(method.streams.model), weights(nets("mlp").model))


def test_gradients_are_clipped(trained: Callable[..., Any], nets: Callable[..., Any]) -> None:
    start = weights(nets("mlp").model)
    method, _ = trained("source_only", steps=1, optimizer="sgd", network=GroupConfig(lr=1.0), clip=1e-3)
    assert float((weights(method.streams.model) - start).norm()) == pytest.approx(1e-3, rel=1e-4)


def test_channels_last_changes_the_layout_and_nothing_else(
    trained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = trained("rpt", net="resnet")[0]
    monkeypatch.setattr(TrainConfig, "channels_last", False)
    torch.testing.assert_close(weights(last), weights(trained("rpt", net="resnet")[0]))


def test_networks_with_convolutions_of_two_and_three_dimensions(pairs: Callable[..., Any]) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.three, self.streams, self.head = nn.Conv3d(1, 2, 2), nn.Conv2d(2, 2, 2), nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.streams(self.three(x).mean(2)).mean((2, 3)))

    pair = pairs((1, 3, 3, 3))
    method = build_method("rpt", Mixed().double(), example=torch.zeros(2, 1, 3, 3, 3).double()).double()
    Trainer(method, pair, TrainConfig(steps=1, batch_size=4)).run()


@pytest.mark.parametrize("bad", [3, -1, 7])
@pytest.mark.parametrize("where", ["source", "labelled target"])
def test_labels_out_of_range_end_before_the_first_step(
    trained: Callable[..., Any], pairs: Callable[..., Any], bad: int, where: str
) -> None:
    pair = pairs((6,), few=3)
    data = pair.source if where == "source" else pair.few
    labels = data.labels.clone()
    labels[1] = bad
    wrong = Labelled(data.images, labels)
    pair = DomainPair(wrong, pair.target) if where == "source" else DomainPair(pair.source, pair.target, wrong)
    with pytest.raises(DataError) as caught:
        trained("rpt", pair)
    for words in (f"{where}:", f"label {bad}", "image 1", "3 outputs", "0 to 2"):
        assert words in str(caught.value)


class Broken(Method):
    """Its loss is not a number from the third step on."""

    name = "broken"

    def __init__(self, streams: Any) -> None:
        super().__init__()
        self.streams, self.calls = streams, 0

    def losses(self, batch: Batch, progress: float) -> Losses:
        self.calls += 1
        value = self.streams(batch.source).square().mean()
        return weighted_sum({"good": value, "bad": value * (float("nan") if self.calls > 2 else 1.0)}, {})


def test_a_loss_that_is_not_finite_is_named(
    nets: Callable[..., Any], pairs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainConfig, "recover", 0)
    method = Broken(TwoStream(nets("mlp").model))
    trainer = Trainer(method, pairs((6,)), TrainConfig(steps=9, batch_size=4))
    with pytest.raises(TrainingError) as caught:
        trainer.run()
    for words in ("'bad' is nan", "step 3 of 9", "train.network.lr = 0.0002", "train.clip"):
        assert words in str(caught.value)


def test_a_loss_that_explodes_is_named(trained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainConfig, "recover", 0)
    with pytest.raises(TrainingError, match=r"'\w+'.*(nan|inf).*step \d+ of 40"):
        trained("source_only", steps=40, optimizer="sgd", network=GroupConfig(lr=1e308))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": -1}, "steps = -1"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"optimizer": "lion"}, "optimizer = 'lion'"),
        ({"network": {"lr": -1.0}}, "network.lr = -1.0"),
        ({"network": {"lr": float("nan")}}, "network.lr = nan"),
        ({"netwerk": {}}, "no setting 'netwerk'. Did you mean 'network'"),
        ({"network": {"rate": 1}}, "no setting 'network.rate'"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match="train: ") as caught:
        TrainConfig.parse(settings, where="train")
    assert words in str(caught.value)


def test_no_steps_leave_the_network_alone(trained: Callable[..., Any], nets: Callable[..., Any]) -> None:
    method, seen = trained("rpt", steps=0)
    assert torch.equal(weights(method.streams.model), weights(nets("mlp").model))
    assert seen.infos == []
