"""Particular pairs: disjoint digits, drones, features, series, networks, folders, sheets, the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from residapt_bench.proving_ground import contact_sheet, digits, other, source_only, write_folders
from residapt_bench.proving_ground.library import ConfigError, DetectionData
from residapt_bench.proving_ground.pair import Place, ProvingPair, Rendered, Samples, random_numbers
from residapt_bench.proving_ground.photographs import first_of_each
from residapt_bench.proving_ground.registry import ALL_PAIRS, PAIRS

PLACE = Place(Path(), Path())
SPLITS = {"train": 30_000, "test": 7_000}
Small = Callable[..., ProvingPair]


def test_no_digit_is_in_the_source_and_rendered_in_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each image holds its number in its first bytes.
    numbers = np.arange(30_000, dtype=np.uint16)
    images = np.zeros((30_000, 1, 28, 28), np.uint8)
    images[:, 0, 0, :2] = numbers.view(np.uint8).reshape(-1, 2)
    held = Samples(torch.from_numpy(images), torch.arange(30_000) % 10)
    monkeypatch.setattr(digits, "read", lambda root, name, split: held)
    made = digits.rendered_digits(PLACE, 0, render=lambda x, rng: x, channels=1)
    found = [
        np.ascontiguousarray(part.images.numpy()[:, 0, 0, :2]).view(np.uint16).ravel()
        for part in (made.source, made.target)
    ]
    assert len(found[0]) == digits.SOURCE
    assert len(found[1]) == digits.TARGET
    assert not set(found[0].tolist()) & set(found[1].tolist())
    for part, which in zip((made.source, made.target), found, strict=True):
        np.testing.assert_array_equal(part.labels.numpy(), which % 10)


def test_all_images_of_a_set_are_taken_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.arange(30_000).remainder(256).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 28, 28)
    sets = {split: Samples(images[:count], torch.arange(count) % 10) for split, count in SPLITS.items()}
    monkeypatch.setattr(digits, "read", lambda root, name, split: sets[split])
    some, whole = (ALL_PAIRS[name].make(PLACE, 0) for name in ("svhn-mnist", "svhn-mnist-whole"))
    assert (len(some.source), len(some.target), len(some.scored)) == (digits.SOURCE, digits.TARGET, digits.TEST)
    for part, split in ((whole.source, "train"), (whole.target, "train"), (whole.scored, "test")):
        assert torch.equal(part.images, sets[split].images)
        assert torch.equal(part.labels, sets[split].labels)


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> DetectionData:
    """Drones and negatives as the stand-in gives them, each filled with one value."""

    def filled(count: int, value: int) -> Tensor:
        return torch.full((count, 1, 40, 40), value, dtype=torch.uint8) + torch.arange(count).view(-1, 1, 1, 1).byte()

    tests = (type("Scored", (), {"drones": filled(5, 150), "negatives": filled(50, 100)})(),)
    data = DetectionData(filled(30, 0), filled(40, 50), filled(20, 150), filled(45, 100), tests)
    monkeypatch.setattr(other, "load_standin", lambda root, cache, config: ({}, {}))
    monkeypatch.setattr(other, "detection_data", lambda tensors, counts, validation: data)
    return data


@pytest.mark.parametrize("labelled", [0, 8])
def test_half_of_the_drones_target_are_drones_and_as_many_labelled_as_stated(
    patches: DetectionData, labelled: int
) -> None:
    made = other.drones(PLACE, 0, labelled=labelled)
    assert made.target.labels.double().mean() == 0.5
    assert len(made.source) == 70
    assert int(made.scored.labels.sum()) == 5
    if labelled:
        assert made.few is not None
        drones = made.few.images[made.few.labels == 1]
        assert len(drones) == labelled
        assert len(drones.flatten(1).unique(dim=0)) == labelled
        assert int((made.few.labels == 0).sum()) == len(patches.negatives)
    else:
        assert made.few is None


def test_features_take_the_place_of_pictures_and_the_checksum_is_the_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other, "pooled_features", lambda root, images: images.float().mean((2, 3)))
    images = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
    pictures = Rendered(Samples(images, torch.arange(6) % 2), Samples(images + 1, torch.arange(6) % 2), ("a", "b"))
    made = other.features(PLACE, 0, base=lambda place, seed: pictures)
    assert torch.equal(made.source.images, images.float().mean((2, 3)))
    assert torch.equal(made.target.labels, pictures.target.labels)
    assert pictures.checksum in made.checksum


def test_waves_have_all_states_equally_often_and_sensors_lag() -> None:
    values, labels = other.waves(600, random_numbers("waves"), 1.0)
    assert np.bincount(labels).tolist() == [100] * 6
    sine = values[labels == 0]
    assert np.abs(sine).max() <= 1.3
    assert (np.abs(sine[:, 0]).max(1) > 0.6).all()


def test_a_drift_is_the_same_for_all_series_of_a_site() -> None:
    flat = np.ones((5, 3, 64))
    drifted = other._drift(flat, random_numbers("x"), (0.5, 0.9), 0.4, 0.0, 0.0)
    np.testing.assert_array_equal(drifted, np.broadcast_to(drifted[:1, :, :1], drifted.shape))
    assert len(np.unique(drifted)) == 3


@pytest.mark.parametrize("kind", ["lenet", "dtn", "uavnet", "mlp", "conv1d"])
def test_a_network_fits_its_pair_and_depends_on_the_seed_alone(kind: str, small_pair: Small) -> None:
    channels, size = {"lenet": (1, 28), "dtn": (3, 32)}.get(kind, (1, 40))
    pair = small_pair(replace(PAIRS["svhn-mnist"], network=kind), channels=channels, size=size)
    x = pair.source_images.float()
    if kind in ("mlp", "conv1d"):
        x = torch.randn(60, 12) if kind == "mlp" else torch.randn(60, 3, 64)
        pair = replace(pair, source_images=x)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, another = (pair.network(seed).eval() for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.no_grad():
        assert first(x[:2]).shape == (2, 2)
        assert torch.equal(first(x[:2]), again(x[:2]))
        assert not torch.equal(first(x[:2]), another(x[:2]))


@pytest.mark.data
def test_resnet_has_the_strides_that_its_weights_were_trained_with(root: Path, small_pair: Small) -> None:
    spec = PAIRS["amazon-webcam-resnet50"]
    network = replace(small_pair(spec, channels=3, size=64), root=root).network(0)
    strides = [(m.kernel_size, m.stride) for m in network.layer3[0].modules() if isinstance(m, nn.Conv2d)]
    assert strides[:2] == [((1, 1), (2, 2)), ((3, 3), (1, 1))]
    assert network.fc.weight.shape == (2, 2048)


@pytest.mark.parametrize("limit", [None, 10])
def test_folders_hold_the_same_pixels_by_class(pair: ProvingPair, tmp_path: Path, limit: int | None) -> None:
    write_folders(pair, tmp_path / "out", limit=limit)
    for part, (images, labels) in {"source": pair.source, "test": pair.target_test, "few": pair.few or ()}.items():
        written = sorted((tmp_path / "out" / part).rglob("*.png"))
        assert len(written) == min(len(labels), limit or 60)
        for path in written:
            number = int(path.stem)
            assert path.parent.name == pair.classes[int(labels[number])]
            np.testing.assert_array_equal(np.asarray(Image.open(path)), images[number, 0].numpy())
    target = sorted((tmp_path / "out" / "target").iterdir())
    assert len(target) == (limit or 60)
    np.testing.assert_array_equal(np.asarray(Image.open(target[0])), pair.target_images[0, 0].numpy())


def test_folders_of_colour_pictures_can_be_jpeg(small_pair: Small, tmp_path: Path) -> None:
    write_folders(small_pair(channels=3), tmp_path / "out", suffix="jpg")
    with Image.open(tmp_path / "out" / "target" / "000000.jpg") as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (28, 28))


def test_an_existing_folder_and_features_are_refused(pair: ProvingPair, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write_folders(pair, tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        write_folders(replace(pair, source_images=torch.zeros(60, 5)), tmp_path / "new")
    assert pair.name in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_sheet_has_a_row_for_source_and_target_of_each_pair(cache: Path) -> None:
    names = ["series-speed", "printed-handwritten"]
    sheet = np.asarray(contact_sheet(names, Path(), cache, columns=3))
    rows = np.split(sheet[:, 150:], 4)
    assert all(len(np.unique(row)) > 3 for row in rows)
    again = np.asarray(contact_sheet(names, Path(), cache, columns=3))
    np.testing.assert_array_equal(sheet, again)


def test_the_plain_loop_learns_the_source_and_does_not_read_the_target(
    pair: ProvingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_only, "STEPS", 15)
    figure = source_only.source_only(pair)
    assert figure == 100
    images, labels = pair.target_test
    flipped = replace(pair, target_images=torch.zeros(0), target_test=(images, 1 - labels))
    assert source_only.source_only(flipped) == 0


def test_detection_is_scored_by_average_precision(pair: ProvingPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_only, "STEPS", 15)
    spec = replace(pair.spec, metric="average_precision")
    assert source_only.source_only(replace(pair, spec=spec)) == pytest.approx(100)


@pytest.mark.data
def test_halves_of_amazon_share_no_picture(root: Path, cache: Path) -> None:
    plain = partial(PAIRS["amazon-blur"].make, render=lambda images, rng: images)
    made = plain(Place(root, cache), 0)
    both = [{image.numpy().tobytes() for image in part.images} for part in (made.source, made.target)]
    assert not both[0] & both[1]
    assert abs(len(made.source) - len(made.target)) <= 31


@pytest.mark.parametrize("repeated", [[], [3, 7]])
def test_repeated_pictures_are_left_out(repeated: list[int]) -> None:
    images = torch.arange(10).view(10, 1, 1, 1).expand(10, 3, 4, 4).to(torch.uint8).contiguous()
    for number in repeated:
        images[number] = images[0]
    assert first_of_each(images).tolist() == [k for k in range(10) if k not in repeated]
