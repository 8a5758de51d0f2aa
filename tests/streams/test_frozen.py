from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from residapt.errors import ModelError
from residapt.methods import MethodConfig, build_method
from residapt.storage import load, save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.streams import TwoStream
from residapt.streams.norm import couples_samples

FREEZE = ("stem", "conv1", "bn?")
RANKS = {"left_rank": 2, "right_rank": 2}


def test_frozen_stages_have_no_gradient_no_transform_and_constant_statistics(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, freeze=FREEZE, **RANKS).train()
    assert set(streams.layers) == {"conv2", "down.0", "fc"}
    assert set(streams.statistics.named()) == {
        f"down.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")
    }
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    first, second = streams.both(x, x + 1.0)
    (first.logits.sum() + second.logits.square().sum()).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith(("stem", "conv1", "bn")), name
    changed = {name for name, buffer in model.named_buffers() if not torch.equal(buffer, before[name])}
    assert changed == {f"down.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")}


def test_both_streams_agree_up_to_the_end_of_the_frozen_stages(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, freeze=("stem",), **RANKS).train()
    one, other = (streams.outputs(x, stream=stream, inner=("stem", "conv1")) for stream in ("source", "target"))
    assert torch.equal(one.inner["stem"], other.inner["stem"])
    assert not torch.allclose(one.inner["conv1"], other.inner["conv1"])


def test_training_mode_comes_back_for_what_is_not_frozen(nets: Callable[..., Any]) -> None:
    model, _ = nets("resnet")
    TwoStream(model, freeze=("stem",), **RANKS).eval().train()
    assert not model.stem.training
    assert not model.stem[1].training
    assert model.bn1.training


def test_frozen_statistics_do_not_couple_samples(nets: Callable[..., Any]) -> None:
    model, _ = nets("resnet")
    assert couples_samples(model, "per-domain", ("stem",))
    assert not couples_samples(model, "per-domain", ("stem", "bn1", "bn2", "down"))


def test_a_pattern_that_matches_nothing_is_refused_with_near_names(nets: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match=r"freeze: the pattern 'conv9\*'.*conv"):
        TwoStream(nets("resnet").model, freeze=("conv9*",))


def test_freezing_everything_leaves_nothing_to_transform(nets: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match=r"freeze=\['\*'\]"):
        TwoStream(nets("resnet").model, freeze=("*",))


@pytest.mark.parametrize("name", ["dann_flip", "rpt", "adda", "two_stream", "source_only"])
def test_every_method_leaves_frozen_stages_alone(nets: Callable[..., Any], name: str) -> None:
    model, x = nets("resnet")
    config = MethodConfig.parse({"transform": {"freeze": ("stem", "conv1"), "left_rank": 2, "right_rank": 2}})
    method = build_method(name, model, config, example=x)
    start = {key: value.clone() for key, value in model.state_dict().items() if key.startswith(("stem", "conv1"))}
    trained = {id(p) for group in method.groups().values() for p in group if p.requires_grad}
    assert not trained & {id(p) for module in (model.stem, model.conv1) for p in module.parameters()}
    method.train()
    assert not model.stem[1].training
    target = method.streams.target_state()
    for key, value in start.items():
        assert torch.equal(target.get(key, model.state_dict()[key]), value)
    assert not any(key.startswith(("stem", "conv1")) for key in target)


def test_merged_and_loaded_models_have_the_frozen_stages_and_change_no_flags(
    nets: Callable[..., Any], tmp_path: Path
) -> None:
    model, x = nets("resnet")
    base = copy.deepcopy(model)
    streams = TwoStream(model, freeze=FREEZE, **RANKS).train()
    streams.both(x, x + 1.0)
    streams.eval()
    base.load_state_dict(model.state_dict())
    live = streams(x, stream="target")
    torch.testing.assert_close(streams.merge_and_unload(x).eval()(x), live)
    save_pretrained(streams, tmp_path / "a", metadata=AdapterMetadata(method="rpt", classes=("a", "b", "c")))
    torch.testing.assert_close(load(base.eval(), tmp_path / "a")(x, stream="target"), live)
    assert all(parameter.requires_grad for parameter in base.parameters())
