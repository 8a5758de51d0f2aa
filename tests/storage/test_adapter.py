"""The adapter file: what goes in comes out, the base is recognised, and nothing broken gets through."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError
from residapt.models import InputSpec, LeNet
from residapt.rank.prune import prune_transform
from residapt.storage import AdapterMetadata, base_hashes, load, read_config, save_pretrained
from residapt.storage.base_network import named_tensors, tensor_hash
from residapt.storage.metadata import from_properties, to_properties
from residapt.streams import TwoStream

Nets = Callable[..., Any]
METADATA = AdapterMetadata(
    method="rpt",
    classes=("cat", "dog", "<b>bird</b>"),
    model="lenet",
    input=InputSpec(size=16, channels=1, mean=(0.5,), std=(0.25,), interpolation="bicubic"),
)
NETS = ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied"]


def trained(net: Any, **settings: Any) -> TwoStream:
    """A two-stream model whose transforms, and statistics where there are any, have moved."""
    streams = TwoStream(net.model, **{"left_rank": 3, "right_rank": 2, **settings}).double().train()
    for stream in ("source", "target"):
        streams(net.x + (stream == "target"), stream=stream)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in streams.transforms.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return streams.eval()


def prune(streams: TwoStream, name: str, rows: list[bool], columns: list[bool]) -> None:
    bias = torch.ones(1, dtype=torch.bool) if streams.transform(name).has_bias else None
    prune_transform(streams.transform(name), torch.tensor(rows), torch.tensor(columns), bias, None)


def both_outputs(streams: TwoStream, x: Tensor) -> tuple[Tensor, Tensor]:
    streams.eval()
    with torch.no_grad():
        return streams(x, stream="source"), streams(x, stream="target")


def assert_same_streams(first: TwoStream, second: TwoStream, x: Tensor) -> None:
    for ours, theirs in zip(both_outputs(first, x), both_outputs(second, x), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("base", ["reference", "included"])
def test_both_streams_come_back_bit_by_bit(nets: Nets, tmp_path: Path, name: str, base: Any) -> None:
    net = nets(name)
    streams = trained(net)
    save_pretrained(streams, tmp_path / "a", metadata=METADATA, base=base)
    # With the base included any network of that shape will do; a reference needs the very weights.
    body = nets(name, seed=7).model if base == "included" else copy.deepcopy(streams.model)
    assert_same_streams(load(body, tmp_path / "a"), streams, net.x)


@pytest.mark.parametrize(
    "settings",
    [
        {"form": "vector"},
        {"bias": "separate"},
        {"bias": "shared", "nonlinearity": "relu"},
        {"norm": "shared"},
        {"norm": "frozen"},
        {"exclude": ("fc",), "ranks": {"conv*": (4, 0), "stem.*": (1, 5)}},
    ],
    ids=str,
)
def test_every_setting_comes_back(nets: Nets, tmp_path: Path, settings: dict[str, Any]) -> None:
    net = nets("resnet")
    streams = trained(net, **settings)
    save_pretrained(streams, tmp_path / "a", metadata=METADATA)
    again = load(streams.model, tmp_path / "a")
    assert again.config == streams.config
    assert again.ranks() == streams.ranks()
    assert_same_streams(again, streams, net.x)


def test_pruned_shapes_come_back_and_make_the_file_small(nets: Nets, tmp_path: Path) -> None:
    net = nets("lenet")
    streams = trained(net)
    save_pretrained(streams, tmp_path / "full", metadata=METADATA)
    prune(streams, "conv1", [True, False, True], [False, True])
    prune(streams, "full3", [False] * 3, [False] * 2)
    save_pretrained(streams, tmp_path / "pruned", metadata=METADATA)
    again = load(net.model, tmp_path / "pruned")
    assert again.ranks() == streams.ranks()
    assert again.ranks()["conv1"] == (2, 1)
    assert again.ranks()["full3"] == (0, 0)
    assert_same_streams(again, streams, net.x)
    records = {layer.name: layer for layer in read_config(tmp_path / "pruned").layers}
    assert (records["conv1"].before, records["conv1"].ranks) == ((3, 2), (2, 1))
    assert records["full3"].parameters == 0
    sizes = [(tmp_path / name / "adapter_model.safetensors").stat().st_size for name in ("pruned", "full")]
    assert sizes[0] < sizes[1]


def test_statistics_of_both_streams_are_in_the_file(nets: Nets, tmp_path: Path) -> None:
    net = nets("resnet")
    streams = trained(net)
    save_pretrained(streams, tmp_path / "a", metadata=METADATA)
    # The network as it was before training: its weights are the base's, its statistics are not.
    untouched = nets("resnet").model
    assert not torch.equal(untouched.bn1.running_mean, streams.model.bn1.running_mean)
    again = load(untouched, tmp_path / "a")
    for name, buffer in streams.statistics.named().items():
        assert torch.equal(again.statistics.named()[name], buffer), name
    assert torch.equal(again.model.bn1.running_mean, streams.model.bn1.running_mean)
    assert_same_streams(again, streams, net.x)


def test_included_base_carries_only_what_has_changed(nets: Nets, tmp_path: Path) -> None:
    net = nets("lenet")
    original, base = base_hashes(net.model), copy.deepcopy(net.model)
    streams = trained(net)
    with torch.no_grad():
        net.model.conv2.weight.mul_(1.5)
    save_pretrained(streams, tmp_path / "a", metadata=METADATA, base="included", original=original)
    assert read_config(tmp_path / "a").carried == ("conv2.weight",)
    again = load(base, tmp_path / "a")
    assert_same_streams(again, streams, net.x)
    assert again.model.conv1.weight is base.conv1.weight
    other = copy.deepcopy(base)
    with torch.no_grad():
        other.full3.bias[2] += 1
    with pytest.raises(ModelError, match=r"'full3' \(full3\.bias\)"):
        load(other, tmp_path / "a")


def test_metadata_come_back(nets: Nets, tmp_path: Path) -> None:
    save_pretrained(trained(nets("mlp")), tmp_path / "a", metadata=METADATA)
    config = read_config(tmp_path / "a")
    assert {name: getattr(config, name) for name in AdapterMetadata.model_fields} == dict(METADATA)
    assert from_properties({"format": "pt", **to_properties(METADATA)}, where="x") == METADATA


def test_one_base_many_domains(nets: Nets, tmp_path: Path) -> None:
    net = nets("resnet")
    base = net.model
    before = base_hashes(base)
    expected = {}
    for domain in ("day", "night"):
        streams = trained(nets("resnet"), seed=len(domain))
        save_pretrained(streams, tmp_path / domain, metadata=METADATA)
        expected[domain] = both_outputs(streams, net.x)[1]
    loaded = {domain: load(base, tmp_path / domain) for domain in expected}
    for domain in ("day", "night", "day"):
        assert torch.equal(both_outputs(loaded[domain], net.x)[1], expected[domain])
    assert not torch.equal(expected["day"], expected["night"])
    assert base_hashes(base) == before
    for streams in loaded.values():
        assert all(a is b for a, b in zip(streams.model.parameters(), base.parameters(), strict=True))


def test_training_one_domain_leaves_the_other_alone(nets: Nets, tmp_path: Path) -> None:
    net = nets("resnet")
    save_pretrained(trained(nets("resnet")), tmp_path / "a", metadata=METADATA)
    first, second = load(net.model, tmp_path / "a"), load(net.model, tmp_path / "a")
    expected = both_outputs(second, net.x)
    first.train()
    before = first.transform("conv1").B1.detach().clone()
    first(net.x, stream="source")
    first(net.x, stream="target").square().sum().backward()
    with torch.no_grad():
        for parameter in first.transforms.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.1 * parameter.grad)
    assert not torch.equal(first.transform("conv1").B1, before)
    for ours, theirs in zip(both_outputs(second, net.x), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_ties_of_the_base_survive(nets: Nets, tmp_path: Path) -> None:
    save_pretrained(trained(nets("tied")), tmp_path / "a", metadata=METADATA, base="included")
    again = load(nets("tied", seed=3).model, tmp_path / "a")
    assert again.model.first.weight is again.model.second.weight


def test_loading_gives_evaluation_mode_and_leaves_the_base_as_it_is(nets: Nets, tmp_path: Path) -> None:
    net = nets("resnet")
    save_pretrained(trained(net), tmp_path / "a", metadata=METADATA)
    for mode in (True, False):
        again = load(net.model.train(mode), tmp_path / "a")
        assert not any(module.training for module in again.modules())
        assert net.model.training is net.model.bn1.training is mode


def _wrong_value(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        model.conv2.weight[3, 1, 2, 2].neg_()
    return model


def _extra_layer(model: nn.Module) -> nn.Module:
    model.extra = nn.Linear(2, 2).double()
    return model


def _missing_layer(model: nn.Module) -> nn.Module:
    model.full4 = nn.Identity()
    return model


def _single_precision(model: nn.Module) -> nn.Module:
    model.full3.float()
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_wrong_value, r"layer 'conv2' \(conv2.weight\) has other values"),
        (_extra_layer, r"layer 'extra' \(extra.weight\) is not in the base"),
        (_missing_layer, r"layer 'full4' \(full4.weight\) is missing"),
        (_single_precision, r"layer 'full3' \(full3.weight\) is float32 instead of float64"),
        (lambda _: LeNet(in_channels=3, image_size=16), r"layer 'conv1' \(conv1.weight\) has shape 20x3x5x5"),
    ],
)
def test_wrong_base_is_refused_by_its_first_layer(
    nets: Nets, tmp_path: Path, change: Callable[[nn.Module], nn.Module], message: str
) -> None:
    net = nets("lenet")
    save_pretrained(trained(net), tmp_path / "a", metadata=METADATA)
    with pytest.raises(ModelError, match=message):
        load(change(copy.deepcopy(net.model)), tmp_path / "a")


def test_hash_sees_values_shape_and_type_but_not_memory_format() -> None:
    x = torch.arange(48.0).view(2, 3, 2, 4)
    assert tensor_hash(x) == tensor_hash(x.contiguous(memory_format=torch.channels_last))
    assert tensor_hash(x) == tensor_hash(x.clone())
    different = [x + 1e-7 * torch.eye(4)[:2], x.view(2, 3, 4, 2), x.double(), x.view(torch.int32), x.flip(0)]
    assert len({tensor_hash(t) for t in [x, *different]}) == 6
    assert tensor_hash(torch.zeros(0, 3)) != tensor_hash(torch.zeros(3, 0))
    assert tensor_hash(torch.tensor(1)) != tensor_hash(torch.tensor([1]))


def test_named_tensors_are_the_state_dict(nets: Nets) -> None:
    model = nets("resnet").model
    assert list(named_tensors(model)) == list(model.state_dict())


@pytest.fixture
def saved(nets: Nets, tmp_path: Path) -> tuple[nn.Module, Path]:
    net = nets("resnet")
    save_pretrained(trained(net), tmp_path / "a", metadata=METADATA)
    return net.model, tmp_path / "a"


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_weights(saved: tuple[nn.Module, Path], keep: int) -> None:
    model, path = saved
    file = path / "adapter_model.safetensors"
    blob = file.read_bytes()[:keep]
    file.write_bytes(blob)
    with pytest.raises(ModelError):
        load(model, path)
    edit(path, lambda values: values.update(weights_sha256=hashlib.sha256(blob).hexdigest()))
    with pytest.raises(ModelError):
        load(model, path)


def test_a_single_wrong_bit_in_the_weights(saved: tuple[nn.Module, Path]) -> None:
    model, path = saved
    file = path / "adapter_model.safetensors"
    blob = bytearray(file.read_bytes())
    blob[-3] ^= 1
    file.write_bytes(bytes(blob))
    with pytest.raises(ModelError):
        load(model, path)


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json"])
def test_missing_files(saved: tuple[nn.Module, Path], name: str) -> None:
    model, path = saved
    (path / name).unlink()
    with pytest.raises(ModelError, match=name):
        load(model, path)


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = path / "adapter_config.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def edit_tensors(path: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    """Change the weights and their hash: what is left to catch is caught by the shapes."""
    file = path / "adapter_model.safetensors"
    tensors = safetensors.torch.load(file.read_bytes())
    change(tensors)
    blob = safetensors.torch.save(tensors)
    file.write_bytes(blob)
    edit(path, lambda values: values.update(weights_sha256=hashlib.sha256(blob).hexdigest()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(format_version=2, version="9.1"), "format version 2.*written by residapt '9.1'"),
        (lambda v: v.update(format="lora"), "not of a residapt adapter"),
        (lambda v: v.pop("format"), "not of a residapt adapter"),
        (lambda v: v.update(surprise=1), "there is no setting 'surprise'"),
        (lambda v: v.pop("classes"), "classes"),
        (lambda v: v.update(classes=["a", "a"]), "'a'"),
        (lambda v: v.update(classes=[]), "classes"),
        (lambda v: v["input"].update(std=[0.0]), "std must be positive"),
        (lambda v: v["input"].update(mean=[1, 2, 3, 4]), "mean needs one value"),
        (lambda v: v["transform"].update(left_rank=-1), "transform.left_rank"),
        (lambda v: v["transform"].update(nonlinearity="load"), "load"),
        (lambda v: v["transform"].update(include=["nothing*"]), "nothing"),
        (lambda v: v["layers"][1].update(ranks=[3, -2]), "layers.1.ranks"),
        (lambda v: v["layers"][1].update(ranks=[3, 1]), "'transform.conv1.A2' has shape"),
        (lambda v: v["layers"][1].update(shape=[6, 99]), r"layer 'conv1' is listed as \(6, 99\)"),
        (lambda v: v["layers"].pop(), "does not follow from its settings.*'fc'"),
        (lambda v: v["tensors"].pop("bn1.weight"), "layer 'bn1'"),
        (lambda v: v["tensors"]["bn1.weight"].update(sha256=None), "'source.bn1.weight' is not in"),
    ],
)
def test_bad_configurations(
    saved: tuple[nn.Module, Path], change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    model, path = saved
    edit(path, change)
    with pytest.raises(ModelError, match=message):
        load(model, path)


def test_ranks_in_the_settings_allocate_nothing(saved: tuple[nn.Module, Path]) -> None:
    model, path = saved
    edit(path, lambda v: v["transform"].update(left_rank=10**15, right_rank=10**15))
    assert load(model, path).ranks()["conv1"] == (3, 2)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_configurations_that_are_no_json(saved: tuple[nn.Module, Path], text: bytes) -> None:
    model, path = saved
    (path / "adapter_config.json").write_bytes(text)
    with pytest.raises(ModelError, match=r"adapter_config\.json"):
        load(model, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("transform.conv1.D"), "'transform.conv1.D' is not in"),
        (lambda t: t.pop("target.bn2.running_var"), "'target.bn2.running_var' is not in"),
        (lambda t: t.pop("source.bn2.running_var"), "'source.bn2.running_var' is not in"),
        (lambda t: t.update({"transform.conv1.A1": torch.zeros(6, 9)}), "'transform.conv1.A1' has shape"),
        (lambda t: t.update({"source.bn2.running_var": torch.zeros(6)}), "is float32, but should be float64"),
        (lambda t: t.update({"target.bn2.running_var": torch.zeros(5)}), "'target.bn2.running_var' has shape"),
        (lambda t: t.update({"transform.conv1.D": torch.zeros(3, 2, dtype=torch.int8)}), "floating point"),
        (lambda t: t.update({"transform.extra.D": torch.zeros(3, 2)}), "'transform.extra.D'"),
    ],
)
def test_bad_tensors(saved: tuple[nn.Module, Path], change: Callable[[dict[str, Tensor]], Any], message: str) -> None:
    model, path = saved
    edit_tensors(path, change)
    with pytest.raises(ModelError, match=message):
        load(model, path)


@pytest.fixture(scope="module")
def shared_folder(nets: Nets, tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    net = nets("mlp")
    path = tmp_path_factory.mktemp("fuzz") / "a"
    save_pretrained(trained(net), path, metadata=METADATA)
    return net.model, path


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), name=st.sampled_from(["config", "weights"]))
def test_any_changed_byte_is_refused_or_harmless(
    shared_folder: tuple[nn.Module, Path], place: int, byte: int, name: str
) -> None:
    model, path = shared_folder
    file = path / {"config": "adapter_config.json", "weights": "adapter_model.safetensors"}[name]
    good = file.read_bytes()
    bad = bytearray(good)
    bad[place % len(bad)] = byte
    file.write_bytes(bytes(bad))
    try:
        load(model, path)
    except ModelError:
        assert bytes(bad) != good
    finally:
        file.write_bytes(good)


def test_saving_again_replaces_the_adapter(nets: Nets, tmp_path: Path) -> None:
    net = nets("mlp")
    for seed in (1, 2):
        streams = trained(net, seed=seed)
        save_pretrained(streams, tmp_path / "a", metadata=METADATA, overwrite=True)
    with pytest.raises(ConfigError):
        save_pretrained(trained(net, seed=3), tmp_path / "a", metadata=METADATA)
    assert_same_streams(load(net.model, tmp_path / "a"), streams, net.x)
    assert sorted(os.listdir(tmp_path)) == ["a"]
    assert sorted(os.listdir(tmp_path / "a")) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]


def test_failed_saving_leaves_the_old_adapter(nets: Nets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = nets("mlp")
    streams = trained(net)
    save_pretrained(streams, tmp_path / "a", metadata=METADATA)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("residapt.storage.atomic.os.replace", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        save_pretrained(trained(net, seed=5), tmp_path / "a", metadata=METADATA, overwrite=True)
    assert_same_streams(load(net.model, tmp_path / "a"), streams, net.x)
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_torn_pair_of_files_is_noticed(nets: Nets, tmp_path: Path) -> None:
    net = nets("mlp")
    for name, seed in (("a", 1), ("b", 2)):
        save_pretrained(trained(net, seed=seed), tmp_path / name, metadata=METADATA)
    os.replace(tmp_path / "b" / "adapter_model.safetensors", tmp_path / "a" / "adapter_model.safetensors")
    with pytest.raises(ModelError):
        load(net.model, tmp_path / "a")


def test_a_file_in_the_way(nets: Nets, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(ConfigError):
            save_pretrained(trained(nets("mlp")), tmp_path / "a", metadata=METADATA, overwrite=overwrite)
    assert os.listdir(tmp_path) == ["a"]


def test_streams_without_transforms_have_no_adapter(nets: Nets, tmp_path: Path) -> None:
    class Whole(TwoStream):
        pass

    with pytest.raises(ModelError, match="Whole"):
        save_pretrained(Whole(nets("mlp").model), tmp_path / "a", metadata=METADATA)


def test_shared_weights_with_statistics_of_their_own(nets: Nets, tmp_path: Path) -> None:
    """Methods without transforms (DANN and the like) have an adapter too: the target's statistics."""
    net = nets("resnet")
    streams = trained(net, include=())
    save_pretrained(streams, tmp_path / "a", metadata=METADATA)
    assert_same_streams(load(net.model, tmp_path / "a"), streams, net.x)
    assert "No layer is transformed" in (tmp_path / "a" / "README.md").read_text()


def test_card_tells_what_is_needed_and_escapes_names(nets: Nets, tmp_path: Path) -> None:
    save_pretrained(trained(nets("lenet")), tmp_path / "a", metadata=METADATA)
    save_pretrained(trained(nets("lenet")), tmp_path / "b", metadata=METADATA, base="included")
    card, whole = ((tmp_path / name / "README.md").read_text() for name in "ab")
    assert "&lt;b&gt;bird&lt;/b&gt;" in card
    assert "<b>" not in card
    assert "--base" in card
    assert "--base" not in whole
    assert "| <code>conv1</code> | 20 x 25 | 3, 2 | 3, 2 |" in card
    assert "bicubic" in card


def test_merged_network_equals_the_loaded_stream(nets: Nets, tmp_path: Path) -> None:
    net = nets("resnet")
    save_pretrained(trained(net), tmp_path / "a", metadata=METADATA)
    streams = load(net.model, tmp_path / "a").eval()
    merged = streams.merge_and_unload(net.x)
    assert type(merged) is type(net.model)
    torch.testing.assert_close(merged.eval()(net.x), streams(net.x, stream="target"), rtol=0, atol=1e-12)
