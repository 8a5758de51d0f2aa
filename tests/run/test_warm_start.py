"""A new domain arrives: training starts from the nearest adapter of the base, which stays as it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

import residapt
from residapt.methods.start import can_start, start_from
from residapt.models import LeNet
from residapt.storage import AdapterMetadata, base_hashes, save_pretrained, write_model
from residapt.streams import TwoStream
from support.cli import invoke
from support.small_world import labelled

CLASSES = ("cat", "dog", "owl")
METADATA = AdapterMetadata(method="rpt", classes=CLASSES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of images, a base, and adapters on it: one whose predictions are sure, one whose are not."""
    root = tmp_path_factory.mktemp("place")
    labelled(root / "source", each=6)
    labelled(root / "target")
    torch.manual_seed(0)
    base = LeNet(num_classes=3)
    write_model(base, root / "base.safetensors", METADATA)
    for name, factor in (("sure", 40.0), ("unsure", 0.02)):
        streams = TwoStream(base, left_rank=2, right_rank=3, own=("full4.*",), energy=1e-4)
        with torch.no_grad():
            own = streams.target_parameters.named()
            own["full4.weight"].mul_(factor)
            own["full4.bias"].zero_()
        save_pretrained(streams, root / "adapters" / name, metadata=METADATA, original=base_hashes(base))
    save_pretrained(TwoStream(base), root / "adapters" / "other", metadata=METADATA, original=base_hashes(base))
    return root


def adapt(place: Path, out: Path, **settings: Any) -> residapt.AdaptedRun:
    return residapt.adapt(
        "lenet",
        source=place / "source",
        target=place / "target",
        out=out,
        steps=settings.pop("steps", 0),
        freeze="base",
        force=True,
        verbose=False,
        device="cpu",
        **{"model.base": str(place / "base.safetensors"), "pretrain.allow_chance": True, "train.batch_size": 4},
        **{"transform.own": ("head",), **settings},
    )


def content(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def test_training_starts_from_the_nearest_adapter_and_says_which(place: Path, tmp_path: Path) -> None:
    before = content(place)
    run = adapt(place, tmp_path / "run", **{"model.adapters": str(place / "adapters")})
    notes = " ".join(run.summary.notes)
    assert "starts from the adapter 'sure'" in notes
    assert "'other'" in notes
    base = LeNet(num_classes=3)
    base.load_state_dict(run.source.state_dict())
    wanted = residapt.load(base, place / "adapters" / "sure")
    for name in wanted.layers:
        for ours, theirs in zip(
            run.streams.transform(name).parameters(), wanted.transform(name).parameters(), strict=True
        ):
            assert torch.equal(ours, theirs)
    assert run.streams.ranks() == wanted.ranks()
    trained = adapt(
        place, tmp_path / "more", steps=2, method="rpt_fixed", **{"model.adapters": str(place / "adapters")}
    )
    assert content(place) == before, "nothing that belongs to other domains has changed"
    assert trained.streams.ranks() == wanted.ranks()


def test_a_layer_that_was_shared_may_learn_again_and_changes_nothing_yet() -> None:
    torch.manual_seed(0)
    base, x = LeNet(num_classes=3), torch.randn(4, 1, 28, 28)
    other = TwoStream(base, left_rank=2, right_rank=2, ranks={"conv2": (0, 0)}).eval()
    streams = TwoStream(base, left_rank=4, right_rank=4, seed=5).eval()
    assert can_start(other, streams)
    start_from(streams, other)
    assert streams.ranks() == {**other.ranks(), "conv2": (4, 4)}
    torch.testing.assert_close(streams(x, stream="target"), other(x, stream="target"))
    streams(x, stream="target").square().sum().backward()
    assert streams.transform("conv2").B1.grad.abs().sum() > 0
    assert not can_start(TwoStream(base, left_rank=0, right_rank=0), streams), "nothing to start from"


def test_none_starts_anew_and_the_base_competes(place: Path, tmp_path: Path) -> None:
    run = adapt(place, tmp_path / "anew", **{"model.adapters": "none"})
    assert not any("starts from" in note for note in run.summary.notes)
    only = tmp_path / "only"
    only.mkdir()
    (only / "unsure").symlink_to(place / "adapters" / "unsure")
    run = adapt(place, tmp_path / "base", **{"model.adapters": str(only)})
    assert any("starts from the base" in note for note in run.summary.notes)


def test_the_adapter_of_the_base_run_is_known_and_a_missing_folder_is_refused(place: Path, tmp_path: Path) -> None:
    def command(base: Path, out: str, *more: str) -> tuple[int, str]:
        options = ("--base", str(base), "--freeze", "base", "--steps", "1", "-o", str(tmp_path / out), "--force")
        small = ("--set", "train.batch_size=4", "--set", "pretrain.allow_chance=true", "--device", "cpu", *more)
        small = ("--set", "rank.weight=0", *small)
        return invoke(
            "adapt", "-s", str(place / "source"), "-t", str(place / "target"), "-m", "lenet", *options, *small
        )

    code, text = command(place / "base.safetensors", "first")
    assert code == 0, text
    assert "training starts from" not in text
    code, text = command(tmp_path / "first", "second")
    assert code == 0, text
    assert "training starts from" in " ".join(text.split())
    code, text = command(tmp_path / "first", "third", "--adapters", str(tmp_path / "absent"))
    assert code == 2, text
    assert "absent" in text
    assert not (tmp_path / "third").exists()
