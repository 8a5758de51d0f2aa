"""``residapt predict BASE --adapters DIR --domain-from folder``: each image by the network of its folder's domain."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from residapt.deploy import load_domains, load_run, predict_folder
from residapt.errors import ConfigError, ModelError
from residapt.storage import base_hashes, save_pretrained
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream
from support.cli import invoke
from support.small_run import METADATA


@pytest.fixture
def adapters(run: RunDirectory, tmp_path: Path) -> Path:
    """One adapter as a folder, and one in a run."""
    base = load_run(run.source).model
    streams = TwoStream(base, left_rank=4, right_rank=4, energy=30.0, seed=3)
    folder = tmp_path / "adapters"
    save_pretrained(streams, folder / "gate", metadata=METADATA, original=base_hashes(base))
    shutil.copytree(run.path, folder / "roof")
    (folder / "notes").mkdir()
    return folder


@pytest.fixture
def images(tmp_path: Path, draw: Callable[..., Path]) -> Path:
    for number in range(9):
        draw(tmp_path / "images" / ("gate", "roof", "source")[number % 3] / "day" / f"{number}.png", number)
    return tmp_path / "images"


def test_every_image_by_its_own_network(run: RunDirectory, adapters: Path, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    arguments = ("predict", str(run.path), str(images), "--adapters", str(adapters), "--domain-from", "folder")
    code, text = invoke(*arguments, "-o", str(out), "--batch-size", "4", "--device", "cpu")
    assert code == 0, text
    rows = {row["path"]: row for row in csv.DictReader(out.open())}
    assert len(rows) == 9
    alone = {"gate": adapters / "gate", "roof": run.adapter, "source": run.source}
    for name, path in alone.items():
        deployed = load_run(path, base=run.source)
        for row in predict_folder(deployed, images / name):
            found = rows[f"{name}/{row.path}"]
            assert found["class"] == row.label
            assert float(found["probability"]) == pytest.approx(row.probability, abs=1e-5)
    networks = load_domains(run.path, adapters).adapters
    x = torch.randn(4, 1, 28, 28)
    assert not torch.equal(networks(x, stream="gate"), networks(x, stream="roof"))


def test_a_folder_without_an_adapter_is_named(run: RunDirectory, adapters: Path, images: Path, draw: Callable) -> None:
    deployed = load_domains(run.source, adapters)
    draw(images / "cellar" / "1.png", 1)
    with pytest.raises(ConfigError, match=r"'cellar/1\.png'.*'cellar'.*gate, roof"):
        list(predict_folder(deployed, images))
    shutil.rmtree(images / "cellar")
    draw(images / "1.png", 1)
    with pytest.raises(ConfigError, match="no folder"):
        list(predict_folder(deployed, images))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--adapters", "adapters"], "--domain-from"),
        (["--domain-from", "folder"], "--adapters"),
        (["--adapters", "adapters", "--domain-from", "name"], "'name'"),
        (["--adapters", "adapters", "--domain-from", "folder", "--base", "b"], "--base"),
        (["--adapters", "absent", "--domain-from", "folder"], "'absent'"),
        (["--adapters", "images", "--domain-from", "folder"], "adapter_config.json"),
    ],
)
def test_mistakes(
    run: RunDirectory, adapters: Path, images: Path, options: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(adapters.parent)
    code, text = invoke("predict", str(run.path), str(images), *options)
    assert code == 2, text
    assert words in text


def test_adapters_for_other_classes_are_refused(run: RunDirectory, adapters: Path) -> None:
    base = load_run(run.source).model
    other = METADATA.model_copy(update={"classes": ("x", "y", "z")})
    save_pretrained(TwoStream(base, left_rank=1, right_rank=1), adapters / "other", metadata=other)
    with pytest.raises(ModelError, match=r"'other'.*x, y, z"):
        load_domains(run.source, adapters)
