"""Per-image standardisation: the formula, and that it stays with the network wherever that goes."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from residapt.deploy.load_run import described_network
from residapt.errors import DataError
from residapt.models import InputSpec, LeNet
from residapt.models.standardise import EPSILON, is_standardised, standardise, standardised
from residapt.storage import load, save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.streams import TwoStream, merge_and_unload


def images(seed: int = 0) -> Tensor:
    return torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(seed))


def test_the_formula_as_a_loop() -> None:
    x = torch.randn(3, 2, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = standardise(x)
    for image, result in zip(x, found, strict=True):
        values = image.flatten().tolist()
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        assert result.flatten().tolist() == pytest.approx([(v - mean) / (deviation + EPSILON) for v in values])


def test_brightness_contrast_and_polarity_of_an_image_do_not_matter() -> None:
    x = images()
    scale = torch.tensor([0.5, 2.0, 3.0, 1.0]).view(-1, 1, 1, 1)
    torch.testing.assert_close(standardise(x * scale + 7), standardise(x), atol=5e-3, rtol=0)
    torch.testing.assert_close(standardise(1 - x), -standardise(x))
    assert standardise(torch.full((2, 1, 4, 4), 0.3)).abs().max() < 1e-3
    with pytest.raises(DataError, match=r"\(3,\)"):
        standardise(torch.zeros(3))


def test_it_is_part_of_the_network_and_changes_no_name() -> None:
    torch.manual_seed(0)
    plain = LeNet()
    network = standardised(standardised(copy.deepcopy(plain)))
    assert is_standardised(network)
    assert not is_standardised(plain)
    assert type(network) is LeNet
    assert network.state_dict().keys() == plain.state_dict().keys()
    x = images()
    assert torch.equal(network(x), plain(standardise(x)))
    assert torch.equal(copy.deepcopy(network)(x), network(x))


def test_both_streams_the_merged_network_and_the_adapter_have_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    streams = TwoStream(standardised(LeNet()), left_rank=3, right_rank=3)
    x, y = images(), images(1)
    source, target = streams.both(x, y)
    torch.testing.assert_close(source.logits, streams(x))
    torch.testing.assert_close(target.logits, streams(y, stream="target"))
    streams.eval()
    merged = merge_and_unload(streams, y)
    assert is_standardised(merged)
    torch.testing.assert_close(merged.eval()(3 * y), streams(y, stream="target"), atol=2e-3, rtol=0)
    metadata = AdapterMetadata(
        method="rpt",
        classes=tuple("0123456789"),
        model="lenet",
        standardise=True,
        input=InputSpec(size=28, channels=1, mean=(0.5,), std=(0.5,)),
    )
    save_pretrained(streams, tmp_path / "adapter", metadata=metadata, base="included")
    bare = LeNet()
    bare.load_state_dict(streams.model.state_dict())
    loaded = load(bare, tmp_path / "adapter").eval()
    assert torch.equal(loaded(y, stream="target"), streams(y, stream="target"))
    assert not is_standardised(bare)
    assert is_standardised(described_network(metadata, "here"))
    assert not is_standardised(described_network(metadata.model_copy(update={"standardise": False}), "here"))


def test_a_sequential_network_gets_no_further_layer() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    standardised(network)
    assert len(network) == 2
    x = torch.randn(3, 1, 2, 2)
    assert torch.equal(network(x), network[1](standardise(x).flatten(1)))
