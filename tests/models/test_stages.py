from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.errors import ModelError
from residapt.models import build_model
from residapt.models.cut_points import cut_points
from residapt.models.stages import FrozenStages, cut_after, cut_off, join
from residapt.streams import TwoStream
from support.architectures import ARCHITECTURES


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.blocks = nn.Sequential(
            nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()),
            nn.Sequential(nn.Conv2d(4, 5, 1), nn.ReLU(), nn.Conv2d(5, 6, 1)),
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Shortcut(Chain):
    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        return self.head(self.blocks(stem).mean((2, 3)) + stem.sum((1, 2, 3)).unsqueeze(1))


class Past(Chain):
    """The images themselves are read again at the end."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.mean((1, 2, 3))[:, None]


class Tokens(nn.Module):
    """Code between modules, parameters of the root, one ReLU for all layers that writes into its input."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)  # registered first, called last
        self.embed = nn.Conv2d(2, 6, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.position = nn.Parameter(torch.randn(1, 10, 6))
        self.relu = nn.ReLU(inplace=True)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        n, _, height, _ = x.shape
        assert height == 6
        x = functional.hardswish(self.embed(x), inplace=True).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.position
        for layer in self.layers:
            x = self.relu(layer(x))
        return self.last(x[:, 0])


class Twice(nn.Module):
    """The same weights before and after every place but one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.a(self.b(self.a(x)).tanh()))


def logits(result: Any) -> Tensor:
    return getattr(result, "logits", result)


@pytest.mark.parametrize("last", ["stem", "blocks.0", "blocks.1.0", "blocks"])
def test_both_parts_together_are_the_network(last: str) -> None:
    model, x = Chain().double().eval(), torch.randn(3, 2, 5, 5, dtype=torch.float64)
    front, rest = cut_after(model, last, x)
    torch.testing.assert_close(rest(front(x)), model(x))
    kept = {name for name, _ in rest.named_parameters()}
    stages = tuple(f"{stage}." for stage in cut_off(rest))
    assert kept == {name for name, _ in model.named_parameters() if not name.startswith(stages)}


def test_names_of_the_stages_before_a_cut() -> None:
    assert cut_off(cut_after(Chain(), "blocks.1.0", torch.randn(2, 2, 5, 5))[1]) == ["stem", "blocks.0", "blocks.1.0"]


@pytest.mark.skipif(torch.__version__.startswith("2.4."), reason="torch 2.4 shows fewer points, all of them right")
def test_the_order_of_calls_counts_not_that_of_registration() -> None:
    model, x = Tokens().eval(), torch.randn(4, 2, 6, 6)
    assert [point.name for point in cut_points(model, x)] == ["embed", "layers.0", "layers.1", "layers.2"]
    for point in cut_points(model, x):
        front, rest = cut_after(model, point.name, x)
        kept = front(x)
        given = kept.clone()
        torch.testing.assert_close(rest(given), model(x))
        assert torch.equal(given, kept)  # though the network writes into it


def test_parameters_used_only_before_the_cut_are_not_trained() -> None:
    x = torch.randn(4, 2, 6, 6)
    _, early = cut_after(Tokens(), "embed", x)
    _, late = cut_after(Tokens(), "layers.0", x)
    assert early.token.requires_grad
    assert early.position.requires_grad
    assert not late.token.requires_grad
    assert not late.position.requires_grad
    assert all(p.requires_grad for p in late.last.parameters())


def test_frozen_stages_stay_as_they_are_when_training_is_asked_for() -> None:
    front, _ = cut_after(Chain(), "blocks.0", torch.randn(2, 2, 5, 5))
    front.train()
    before = {name: buffer.clone() for name, buffer in front.named_buffers()}
    assert before
    assert not front(torch.randn(2, 2, 5, 5)).requires_grad
    assert all(torch.equal(buffer, before[name]) for name, buffer in front.named_buffers())


def test_the_network_that_is_cut_is_not_touched() -> None:
    model = Chain()
    model.blocks[1].eval()
    before = copy.deepcopy(model.state_dict())
    front, rest = cut_after(model, "stem", torch.randn(2, 2, 5, 5))
    for network in (model, rest):
        assert network.training
        assert network.blocks[0].training
        assert not network.blocks[1].training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    own = {id(p) for p in model.parameters()}
    assert not own & {id(p) for p in (*front.parameters(), *rest.parameters())}


def test_the_frozen_part_keeps_no_weights_of_the_rest() -> None:
    front, _ = cut_after(Chain(), "blocks.0", torch.randn(2, 2, 5, 5))
    assert {name.removeprefix("model.").split(".")[0] for name, _ in front.named_parameters()} == {"stem", "blocks"}
    assert not list(front.model.blocks[1].parameters())


@pytest.mark.parametrize(("network", "last"), [(Shortcut, "blocks.0"), (Past, "blocks.0")])
def test_a_network_with_a_shortcut_past_the_cut_is_refused(network: type[nn.Module], last: str) -> None:
    with pytest.raises(ModelError, match=f"'{last}'"):
        cut_after(network(), last, torch.zeros(2, 2, 5, 5))


def test_cut_points_are_the_places_without_shortcuts() -> None:
    x = torch.randn(2, 2, 5, 5)
    assert [point.name for point in cut_points(Shortcut().eval(), x)] == ["stem"]
    assert cut_points(Past().eval(), x) == []
    names = [point.name for point in cut_points(Chain().eval(), x)]
    assert names == ["stem", "blocks.0.0", "blocks.0.1", "blocks.0", "blocks.1.0", "blocks.1.1", "blocks"]


def test_weights_used_on_both_sides_are_not_cut() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(ModelError, match="'b'"):
        cut_after(Twice(), "b", x)
    with pytest.raises(ModelError, match="2 times"):
        cut_after(Twice(), "a", x)


def test_tied_weights_on_both_sides_are_not_cut() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    model[2].weight = model[0].weight
    with pytest.raises(ModelError, match="'1'"):
        cut_after(model, "1", torch.randn(3, 4))


def test_an_unknown_stage_is_named_with_near_ones() -> None:
    with pytest.raises(ModelError, match=r"blocks\.7.*blocks"):
        cut_after(Chain(), "blocks.7", torch.randn(2, 2, 5, 5))


def test_a_module_that_is_never_called_is_refused() -> None:
    model = Chain()
    model.unused = nn.Linear(2, 2)
    with pytest.raises(ModelError, match="unused"):
        FrozenStages(model, "unused")(torch.randn(2, 2, 5, 5))
    with pytest.raises(ModelError, match=r"unused.*0 times"):
        cut_after(model, "unused", torch.randn(2, 2, 5, 5))


def test_points_know_what_lies_before_them() -> None:
    model, x = Chain().eval(), torch.randn(8, 2, 5, 5)
    points = {name: point for point in cut_points(model, x) for name in point.names}
    whole = sum(p.numel() for p in model.parameters())
    assert points["stem"].parameters == pytest.approx(sum(p.numel() for p in model.stem.parameters()) / whole)
    assert points["blocks"] is points["blocks.1"] is points["blocks.1.2"]
    assert points["blocks"].parameters == pytest.approx(1 - 21 / whole)
    assert points["blocks.0"].shape == (4, 5, 5)
    times = [point.time for point in points.values()]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 1


class Busy(nn.Module):
    """Computes for 20 ms in the thread that calls it."""

    def forward(self, x: Tensor) -> Tensor:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return x * 1


@pytest.mark.parametrize("threads", [1, 2])
def test_times_are_those_of_an_idle_machine_whatever_the_number_of_threads(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (point,) = cut_points(nn.Sequential(Busy(), nn.Linear(3, 2)), torch.randn(4, 3))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert 4 * point.seconds_before == pytest.approx(0.02, rel=0.2)
    assert point.seconds_after < 0.1 * point.seconds_before


def test_the_whole_network_again_with_the_rest_as_it_was_trained() -> None:
    torch.manual_seed(0)
    model, x = Chain(), torch.randn(6, 2, 5, 5)
    front, rest = cut_after(model, "blocks.0", x)
    rest.head = nn.Linear(6, 4)
    optimiser = torch.optim.SGD(rest.parameters(), lr=0.1)
    rest(front(x)).square().sum().backward()
    optimiser.step()
    whole = join(front, rest).eval()
    assert list(whole.state_dict()) == list(model.state_dict())
    assert torch.equal(whole.stem.weight, model.stem.weight)
    assert not torch.equal(whole.blocks[1][0].weight, model.blocks[1][0].weight)
    torch.testing.assert_close(whole(x), rest.eval()(front(x)))
    assert type(whole) is Chain
    assert not whole._forward_pre_hooks
    assert not whole._forward_hooks
    with pytest.raises(ModelError, match="Chain"):
        join(front, model)


def test_what_is_done_to_images_before_the_first_stage_belongs_to_the_frozen_part() -> None:
    model, x = Chain().eval(), torch.randn(4, 2, 5, 5)
    model.register_forward_pre_hook(_double)
    front, rest = cut_after(model, "blocks.0", x)
    torch.testing.assert_close(rest(front(x)), model(x))
    torch.testing.assert_close(join(front, rest)(x), model(x))


def _double(_module: nn.Module, inputs: Any) -> Any:
    return (2 * inputs[0],)


def test_copies_of_the_rest_work_alone() -> None:
    model, x = Tokens().eval(), torch.randn(4, 2, 6, 6)
    front, rest = cut_after(model, "layers.0", x)
    for other in (copy.deepcopy(rest), pickle.loads(pickle.dumps(rest))):
        rest(front(x))
        torch.testing.assert_close(other(front(x)), model(x))
        torch.testing.assert_close(other(front(x[:3])), model(x[:3]))


def test_the_rest_in_two_streams_is_the_whole_network_with_its_stages_frozen() -> None:
    torch.manual_seed(0)
    model, x = Chain().double(), torch.randn(6, 2, 5, 5, dtype=torch.float64)
    front, rest = cut_after(model, "blocks.0", x)
    parts = TwoStream(rest, left_rank=2)
    whole = TwoStream(join(front, rest), left_rank=2, freeze=tuple(cut_off(rest)))
    assert list(parts.layers) == list(whole.layers)
    with torch.no_grad():
        for parameter in parts.transforms.parameters():
            parameter.add_(torch.randn_like(parameter))
    whole.transforms.load_state_dict(parts.transforms.state_dict())
    y = front(x)
    for stream in ("source", "target"):
        torch.testing.assert_close(parts(y, stream=stream), whole(x, stream=stream))


@pytest.mark.parametrize(("network", "last", "side"), [(Chain, "blocks.0", 5), (Tokens, "layers.0", 6)])
def test_both_streams_go_through_the_rest_in_one_pass(network: type[nn.Module], last: str, side: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 2, side, side, dtype=torch.float64)
    front, rest = cut_after(network().double(), last, x)
    streams = TwoStream(rest, left_rank=2).train()
    with torch.no_grad():
        for parameter in streams.transforms.parameters():
            parameter.add_(torch.randn_like(parameter))
    source, target = front(x).chunk(2)
    at_once = streams.both(source, target)
    assert streams.paired is True  # the network has taken pairs
    torch.testing.assert_close(at_once[0].logits, streams(source, stream="source"))
    torch.testing.assert_close(at_once[1].logits, streams(target, stream="target"))


def test_the_digest_is_of_what_the_frozen_part_computes() -> None:
    x = torch.randn(2, 2, 5, 5)
    torch.manual_seed(0)
    model = Chain()
    first = cut_after(model, "blocks.0", x)[0].digest()
    with torch.no_grad():
        model.head.weight.add_(1)
    assert cut_after(model, "blocks.0", x)[0].digest() == first
    assert cut_after(model, "stem", x)[0].digest() != first
    with torch.no_grad():
        model.stem.bias[0] += 1
    assert cut_after(model, "blocks.0", x)[0].digest() != first


def test_the_digest_does_not_depend_on_the_process() -> None:
    class Odd(nn.Tanh):
        def extra_repr(self) -> str:
            return object.__repr__(self)

    model = nn.Sequential(nn.Linear(3, 3), Odd(), nn.Linear(3, 2))
    assert str(copy.deepcopy(model)) != str(model)
    first, second = (cut_after(model, "1", torch.randn(2, 3))[0] for _ in range(2))
    assert str(first.model) != str(second.model)
    assert first.digest() == second.digest()


@pytest.mark.parametrize("spec", ["lenet", "ganin_lenet", "svhnet", "dtn", "uavnet"])
def test_native_networks_can_be_cut_everywhere(spec: str) -> None:
    torch.manual_seed(0)
    model = build_model(spec, num_classes=3, in_channels=1, image_size=32).eval()
    check_cuts(model, torch.randn(3, 1, 32, 32), at_least=3, tried=100)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * a.slow) for n, a in ARCHITECTURES.items()])
def test_architectures_can_be_cut(name: str) -> None:
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    size = min(architecture.size, 96)
    check_cuts(architecture.build().eval(), torch.randn(3, 3, size, size), at_least=4, tried=2)


def test_points_of_a_network_of_separate_layers() -> None:
    points = cut_points(build_model("lenet", num_classes=10), torch.randn(2, 3, 28, 28))
    assert [point.name for point in points] == ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "full3", "relu3"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wide_resnet50_2", "vgg11"])
def test_large_architectures_can_be_cut(name: str) -> None:
    torch.manual_seed(0)
    model = build_model(f"torchvision:{name}", num_classes=3, image_size=32).eval()
    check_cuts(model, torch.randn(3, 3, 32, 32), at_least=4, tried=1)


def check_cuts(model: nn.Module, x: Tensor, *, at_least: int, tried: int) -> None:
    points = cut_points(model, x)
    assert len(points) >= at_least
    chosen = (
        {round((i + 1) * len(points) / (tried + 1)) for i in range(tried)}
        if tried < len(points)
        else range(len(points))
    )
    with torch.no_grad():
        whole = logits(model(x))
        for place in chosen:
            point = points[place]
            front, rest = cut_after(model, point.name, x)
            y = front(x)
            assert y.shape[1:] == point.shape
            torch.testing.assert_close(logits(rest(y)), whole, rtol=1e-5, atol=1e-5)
            joined = join(front, rest)
            torch.testing.assert_close(logits(joined(x)), whole, rtol=1e-5, atol=1e-5)
            assert list(joined.state_dict()) == list(model.state_dict())
