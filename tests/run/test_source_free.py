"""Adaptation without source images: the base as it is, and a target stream that learns from target images alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import residapt
from residapt.config import load_config
from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.methods import MethodConfig, build_method
from residapt.methods.source_free import KEPT, centroids, neighbours
from residapt.models import LeNet
from residapt.run.source_free import NEED_SOURCE
from residapt.storage import AdapterMetadata, base_hashes, read_config, write_model
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.small_world import CLASSES, labelled

SMALL = ("--steps", "3", "--device", "cpu", "--force", "--set", "train.batch_size=4", "--set", "rank.weight=0")


def cloud() -> tuple[Tensor, Tensor]:
    """Two directions, with predictions that are right for most and wrong for some."""
    generator = torch.Generator().manual_seed(0)
    middles = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).repeat_interleave(20, dim=0)
    kept = middles + 0.2 * torch.randn(40, 2, generator=generator)
    shares = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).repeat_interleave(20, dim=0)
    shares[:4] = torch.tensor([0.4, 0.6])
    return kept, shares


def test_neighbours_and_centroids_correct_what_their_surroundings_contradict() -> None:
    kept, shares = cloud()
    right = torch.arange(2).repeat_interleave(20)
    assert (shares.argmax(1) != right).sum() == 4
    assert torch.equal(centroids(kept, kept, shares).argmax(1), right)
    given = torch.tensor([[9.0, 0.3], [0.1, 2.0]])
    found = neighbours(given, kept[4:], shares[4:])
    torch.testing.assert_close(found, torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    assert torch.equal(centroids(given, kept, shares), torch.eye(2))


@pytest.mark.parametrize("name", ["source_free", "shot"])
def test_source_images_are_never_read(name: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    before, x = base_hashes(network), torch.randn(16, 4)
    config = MethodConfig.parse({"consistency": {"weight": 1.0, "view": "strong"}, "train_source": False})
    method = build_method(name, network, config, example=x[:2]).train()
    method.count.fill_(KEPT)  # type: ignore[union-attr]
    totals = []
    for source in (torch.zeros(16, 4), torch.full((16, 4), float("nan"))):
        torch.manual_seed(1)
        losses = method.losses(Batch(source, torch.zeros(16, dtype=torch.long), x), 0.5)
        totals.append((float(losses.parts["information"]), float(losses.parts["consistency"])))
    assert totals[0] == totals[1]
    losses.total.backward()
    trained = [p for p in method.groups()["transform"] if p.requires_grad]
    assert any(p.grad is not None and p.grad.any() for p in trained)
    assert base_hashes(network) == before
    own = set(method.streams.target_parameters.named())
    assert own == ({"0.weight", "0.bias", "1.weight", "1.bias"} if name == "shot" else set())


def test_class_frequencies_are_given_or_flat() -> None:
    def assumed(**prior: Any) -> list[float]:
        method = build_method(
            "source_free", nn.Linear(4, 3), MethodConfig.parse({"prior": prior}), example=torch.zeros(2, 4)
        )
        return [round(share, 4) for share in method.assumed.tolist()]  # type: ignore[union-attr]

    assert assumed() == assumed(kind="balanced") == [0.3333, 0.3333, 0.3333]
    assert assumed(kind="given", start=(0.5, 0.25, 0.25)) == [0.5, 0.25, 0.25]
    with pytest.raises(ConfigError, match=r"2 frequencies.*3 classes"):
        assumed(kind="given", start=(0.5, 0.5))
    with pytest.raises(ConfigError, match="estimated"):
        assumed(kind="estimated")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base as a file, and target images; no source."""
    root = tmp_path_factory.mktemp("place")
    labelled(root / "scored", each=2)
    for path in sorted((root / "scored").rglob("*.png")):
        (root / "target").mkdir(exist_ok=True)
        (root / "target" / path.name).write_bytes(path.read_bytes())
    torch.manual_seed(0)
    form = residapt.models.input_spec("lenet")
    said = AdapterMetadata(
        method="source_only", classes=CLASSES, model="lenet", input=form, frequencies=(0.5, 0.25, 0.25)
    )
    write_model(LeNet(num_classes=3), root / "base.safetensors", said)
    return root


def run(place: Path, out: Path, *more: str) -> tuple[int, str]:
    base = ("--base", str(place / "base.safetensors"), "-t", str(place / "target"), "-o", str(out))
    return invoke("adapt", *base, *SMALL, *more)


def test_the_command(place: Path, tmp_path: Path) -> None:
    before = hashlib.sha256((place / "base.safetensors").read_bytes()).hexdigest()
    code, text = run(place, tmp_path / "run", "--evaluate", str(place / "scored"))
    assert code == 0, text
    assert hashlib.sha256((place / "base.safetensors").read_bytes()).hexdigest() == before
    config, summary = load_config(tmp_path / "run" / "config.toml"), read_summary(tmp_path / "run" / "summary.json")
    assert (config.method, config.freeze, config.data.source) == ("source_free", "base", None)
    assert config.method_config.prior.start == (0.5, 0.25, 0.25)
    assert (config.recipe, config.method_config.information.kind) == ("source-free", "diversity")
    assert (summary.source_images, summary.target_images) == (0, 6)
    assert not set(NEED_SOURCE) & set(summary.scores)
    assert summary.frequencies["source"] == [0.5, 0.25, 0.25]
    assert any("no source images" in note for note in summary.notes)
    assert read_config(tmp_path / "run" / "adapter").carried == ()
    assert (tmp_path / "run" / "report.html").is_file()
    (tmp_path / "run" / "summary.json").unlink()
    code, text = invoke("adapt", "--resume", str(tmp_path / "run"))
    assert code == 0, text
    # The run is a base as well, for the next place.
    code, text = invoke(
        "adapt", "--base", str(tmp_path / "run"), "-t", str(place / "target"), "-o", str(tmp_path / "next"), *SMALL
    )
    assert code == 0, text
    assert "starts from" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "rpt"], "method 'rpt' reads source images"),
        (["--freeze", "none"], "Leave freeze out"),
        (["--select", "dev"], "select = 'dev'"),
        (["--set", "prior.kind=estimated"], "prior.kind = 'estimated'"),
    ],
)
def test_what_needs_source_images_is_refused(place: Path, tmp_path: Path, options: list[str], words: str) -> None:
    code, text = run(place, tmp_path / "run", *options)
    assert code == 2, text
    assert words in " ".join(text.split())
    assert not (tmp_path / "run").exists()


def test_without_source_and_base_both_ways_are_named(place: Path, tmp_path: Path) -> None:
    code, text = invoke("adapt", "-t", str(place / "target"), "-o", str(tmp_path / "run"))
    assert code == 2
    assert "-s" in text
    assert "--base" in text


def test_the_library_call() -> None:
    torch.manual_seed(0)
    network, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), torch.randn(40, 4)
    settings = {"steps": 3, "verbose": False, "device": "cpu", "train": {"batch_size": 8}}
    result = residapt.adapt(network, target=x, classes=("a", "b"), **settings)
    assert result.summary.method == "source_free"
    assert result.network(x).shape == (40, 2)
    with pytest.raises(ConfigError, match="classes="):
        residapt.adapt(network, target=x, **settings)
