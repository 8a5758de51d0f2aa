"""Readers against files written here, in the published formats."""

from __future__ import annotations

import bz2
import gzip
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from residapt.errors import ConfigError, DataError
from residapt_bench.digits import readers as digits
from residapt_bench.digits.readers import read_mnist, read_svhn, read_usps

RNG = np.random.default_rng(0)


def write_mnist(folder: Path, *, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    images, labels = RNG.integers(0, 256, (6, 28, 28), np.uint8), np.arange(6, dtype=np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for name, head, values in (
        ("train-images-idx3-ubyte", [2051, 6, 28, 28], images),
        ("train-labels-idx1-ubyte", [2049, 6], labels),
    ):
        raw = np.array(head, ">i4").tobytes() + values.tobytes()
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)
    return images, labels


@pytest.mark.parametrize("folder", ["", "MNIST/raw", "mnist/MNIST/raw"])
@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_back(tmp_path: Path, folder: str, packed: bool) -> None:
    images, labels = write_mnist(tmp_path / folder, packed=packed)
    data = read_mnist(tmp_path, "train")
    assert np.array_equal(data.images[:, 0].numpy(), images)
    assert data.labels.tolist() == labels.tolist()
    assert not data.official
    assert len(data.checksum) == 65


@pytest.mark.parametrize("folder", ["", "svhn"])
def test_svhn_is_read_back_with_ten_as_zero(tmp_path: Path, folder: str) -> None:
    images = RNG.integers(0, 256, (32, 32, 3, 4), np.uint8)
    (tmp_path / folder).mkdir(exist_ok=True)
    savemat(tmp_path / folder / "test_32x32.mat", {"X": images, "y": np.array([[10], [1], [9], [10]], np.uint8)})
    data = read_svhn(tmp_path, "test")
    assert data.labels.tolist() == [0, 1, 9, 0]
    assert data.images.shape == (4, 3, 32, 32)
    for n, c, y, x in [(0, 0, 0, 0), (1, 2, 3, 4), (3, 1, 31, 7)]:
        assert data.images[n, c, y, x] == images[y, x, c, n]


@pytest.mark.parametrize("packed", [False, True])
def test_usps_is_read_back(tmp_path: Path, packed: bool) -> None:
    images = RNG.integers(0, 256, (3, 256))
    rows = [
        f"{label} " + " ".join(f"{i + 1}:{v / 127.5 - 1:.4f}" for i, v in enumerate(row))
        for label, row in zip((1, 10, 4), images, strict=True)
    ]
    raw = ("\n".join(rows) + " \n").encode()
    (tmp_path / ("usps.t" + ".bz2" * packed)).write_bytes(bz2.compress(raw) if packed else raw)
    data = read_usps(tmp_path, "test")
    assert data.labels.tolist() == [0, 9, 3]
    assert np.array_equal(data.images.view(3, 256).numpy(), images)


def test_usps_values_left_out_are_zero(tmp_path: Path) -> None:
    (tmp_path / "usps").write_text("2 1:1 256:-1\n1\n")
    data = read_usps(tmp_path, "train")
    assert data.images[0].flatten()[[0, 1, 255]].tolist() == [255, 128, 0]
    assert data.images[1].unique().tolist() == [128]


@pytest.mark.parametrize("text", ["1 1:0.5 2:x\n", "1 257:0.5\n", "1 1:0.5 3\n", "1 0:0.5\n", "12 1:0.5\n"])
def test_damaged_usps_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "usps").write_text(text)
    with pytest.raises(DataError, match="usps"):
        read_usps(tmp_path, "train")


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    write_mnist(tmp_path, packed=False)
    images = tmp_path / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-5])
    with pytest.raises(DataError, match="train-images"):
        read_mnist(tmp_path, "train")
    images.write_bytes((tmp_path / "train-labels-idx1-ubyte").read_bytes() * 9)
    with pytest.raises(DataError, match=r"2049.*2051"):
        read_mnist(tmp_path, "train")
    (tmp_path / "train_32x32.mat").write_bytes(b"no such format")
    with pytest.raises(DataError, match="train_32x32"):
        read_svhn(tmp_path, "train")
    (tmp_path / "usps.bz2").write_bytes(b"no such format")
    with pytest.raises(DataError, match="usps"):
        read_usps(tmp_path, "train")


def test_missing_files_say_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train_32x32") as caught:
        read_svhn(tmp_path, "train")
    assert str(tmp_path / "svhn") in str(caught.value)
    with pytest.raises(ConfigError, match="'valid'"):
        read_mnist(tmp_path, "valid")


def test_official_means_the_published_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usps").write_text("2 1:1\n")
    checksum = read_usps(tmp_path, "train").checksum
    monkeypatch.setitem(digits._OFFICIAL, "usps", checksum)
    assert read_usps(tmp_path, "train").official
    (tmp_path / "usps").write_text("2 1:0.9\n")
    assert not read_usps(tmp_path, "train").official


def test_checksums_are_those_that_torchvision_knows() -> None:
    from torchvision.datasets import MNIST, SVHN, USPS

    known = dict(MNIST.resources)
    for family in (SVHN, USPS):
        known |= {name: md5 for _, name, md5 in family.split_list.values()}
    for name, md5 in known.items():
        assert digits._OFFICIAL[name] == md5


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")
def test_the_real_sets() -> None:
    root = os.environ["RESIDAPT_DATA"]
    sizes = {
        (read_mnist, "train"): 60_000,
        (read_mnist, "test"): 10_000,
        (read_svhn, "test"): 26_032,
        (read_usps, "train"): 7_291,
        (read_usps, "test"): 2_007,
    }
    start = time.process_time()
    for (read, split), size in sizes.items():
        data = read(root, split)
        assert len(data) == size
        assert set(data.labels.unique().tolist()) == set(range(10))
    assert time.process_time() - start < 20
    test = read_mnist(root, "test")
    assert test.official
    ones = test.images[test.labels == 1].float().mean(dim=0)
    assert ones[0, 14, 14] > 3 * ones.mean()  # ink in the middle: images and labels belong together
    assert torch.equal(read_svhn(root, "test").labels[:3], torch.tensor([5, 2, 1]))
