"""Training the rest of a network on cached outputs is training the whole with its first stages frozen."""

from __future__ import annotations

import copy

import pytest
import torch

from residapt.data.config import ViewsConfig
from residapt.data.domains import DomainPair, Images, Labelled
from residapt.data.views import stage_outputs
from residapt.methods import MethodConfig
from residapt.methods.fit import example_of, fit
from residapt.models.stages import cut_after, cut_off, join
from residapt.rank import RankConfig
from residapt.streams import TwoStream
from residapt.train import Method, TrainConfig
from residapt.transform import TransformConfig
from support.tiny_run import TinyNet, tiny_pair


def outputs_of(front: torch.nn.Module, images: Images) -> Images:
    return stage_outputs(front, images, None, identity=["x"], config=ViewsConfig(precision="float32")).train


def two_of(method: Method) -> TwoStream:
    return next(module for module in method.modules() if isinstance(module, TwoStream))


@pytest.mark.parametrize("name", ["rpt", "rpt_fixed", "dann_flip"])
def test_the_same_weights_come_out(name: str) -> None:
    torch.manual_seed(0)
    network, pair = TinyNet(), tiny_pair(augment=False)
    front, rest = cut_after(network, "norm", example_of(pair.target))
    cached = DomainPair(
        Labelled(outputs_of(front, pair.source.images), pair.source.labels), outputs_of(front, pair.target)
    )
    train = TrainConfig(steps=24, batch_size=6)
    rank = RankConfig(every=8)
    trained = []
    for model, data, freeze in ((rest, cached, ()), (join(front, rest), pair, tuple(cut_off(rest)))):
        transform = TransformConfig(left_rank=3, freeze=freeze)
        torch.manual_seed(1)
        method = fit(name, copy.deepcopy(model), data, method=MethodConfig(transform=transform, rank=rank), train=train)
        trained.append(two_of(method).eval())
    parts, whole = trained
    assert parts.ranks() == whole.ranks()
    images = example_of(pair.target)
    again = TwoStream(join(front, parts.model), whole.config).eval()
    again.transforms.load_state_dict(parts.transforms.state_dict())
    for stream in ("source", "target"):
        expected = whole(images, stream=stream)
        torch.testing.assert_close(parts(front(images), stream=stream), expected, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(again(images, stream=stream), expected, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        before = TwoStream(network, whole.config).eval()
        change = before(images, stream="target") - whole(images, stream="target")
    assert float(change.abs().max()) > 0.01
