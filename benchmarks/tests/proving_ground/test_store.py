"""Pairs are made once, the same way every time, and recognised by all that decides them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from residapt_bench.proving_ground import render
from residapt_bench.proving_ground.library import ConfigError, DataError
from residapt_bench.proving_ground.pair import Place, random_numbers, tensors_checksum
from residapt_bench.proving_ground.registry import ALL_PAIRS, PAIRS
from residapt_bench.proving_ground.store import cache_key, described, load, recorded_checksums, recorded_sizes

NO_DATA = [name for name, spec in PAIRS.items() if not spec.reads]
QUICK = ("mnist-usps", "mnist-coloured", "dslr-webcam", "amazon-jpeg", "mnist-usps-open")
# Drones are drawn for minutes; features take a pass of a network, and their checksum is that of the pictures.
CHECKED = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name, spec in ALL_PAIRS.items()
    if spec.reads and spec.kind not in ("drones", "features")
]


@pytest.mark.parametrize("name", NO_DATA)
def test_a_pair_without_data_is_made_as_recorded(name: str, cache: Path) -> None:
    pair = load(name, Path("nowhere"), cache)
    assert pair.checksum == recorded_checksums()[name]
    assert (len(pair.source_labels), len(pair.target_images), len(pair.target_test[1])) == recorded_sizes()[name]


@pytest.mark.data
@pytest.mark.parametrize("name", CHECKED)
def test_a_pair_is_made_as_recorded(name: str, root: Path, tmp_path: Path) -> None:
    """Decoding and resizing are Pillow's and may change with its version; then the checksums are to be renewed."""
    pair = load(name, root, tmp_path)
    assert pair.checksum == recorded_checksums()[name]
    assert (len(pair.source_labels), len(pair.target_images), len(pair.target_test[1])) == recorded_sizes()[name]
    assert set(pair.source_labels.tolist()) == set(range(len(pair.classes)))
    assert set(pair.target_test[1].tolist()) <= set(range(len(pair.classes)))
    assert (set(pair.target_test[1].tolist()) < set(range(len(pair.classes)))) == (pair.spec.variant == "partial")
    assert (pair.unknown_share > 0) == (pair.spec.variant == "open")
    trained = {image.tobytes() for image in pair.target_images.numpy()}
    if pair.transductive:
        assert {image.tobytes() for image in pair.target_test[0].numpy()} <= trained
    else:
        assert not torch.equal(pair.target_images, pair.target_test[0])


def test_a_second_load_reads_what_the_first_has_kept(tmp_path: Path) -> None:
    first = load("series-speed", Path(), tmp_path)
    (kept,) = tmp_path.iterdir()
    stamp = kept.stat().st_mtime_ns
    second = load("series-speed", Path(), tmp_path)
    assert kept.stat().st_mtime_ns == stamp
    assert first.checksum == second.checksum
    assert torch.equal(first.target_images, second.target_images)
    assert torch.equal(first.target_test[1], second.target_test[1])


def test_the_seed_changes_the_samples_and_their_checksum(cache: Path) -> None:
    first, second = (load("series-speed", Path(), cache, seed) for seed in (0, 1))
    assert first.checksum != second.checksum
    assert first.source_images.shape == second.source_images.shape
    assert not torch.equal(first.target_images, second.target_images)


def test_one_thread_or_several_make_the_same_pixels() -> None:
    place, threads = Place(Path(), Path()), torch.get_num_threads()
    try:
        sums = []
        for count in (1, 3):
            torch.set_num_threads(count)
            sums.append(PAIRS["printed-handwritten"].make(place, 0).checksum)
    finally:
        torch.set_num_threads(threads)
    assert sums[0] == sums[1]


def test_every_setting_is_in_the_key() -> None:
    spec = replace(PAIRS["series-speed"])
    keys = {cache_key(spec, Path(), seed) for seed in (0, 1)}
    for settings in ({"speed": 1.5}, {"noise": 0.2}):
        changed = replace(spec, make=partial(spec.make.func, **{**spec.make.keywords, **settings}))
        keys.add(cache_key(changed, Path(), 0))
    assert len(keys) == 4


def test_the_order_of_settings_is_not_in_the_key() -> None:
    one = partial(render.painting, radius=3, levels=4, vivid=1.0)
    other = partial(render.painting, vivid=1.0, levels=4, radius=3)
    assert json.dumps(described(one)) == json.dumps(described(other))
    assert json.dumps(described(one)) != json.dumps(described(partial(one, radius=4)))


def test_files_under_a_data_folder_are_in_the_key(tmp_path: Path) -> None:
    spec = replace(PAIRS["series-speed"], reads=("set",))
    with pytest.raises(DataError) as caught:
        cache_key(spec, tmp_path, 0)
    assert str(tmp_path / "set") in str(caught.value)
    (tmp_path / "set").mkdir()
    before = cache_key(spec, tmp_path, 0)
    (tmp_path / "set" / "one").write_text("1")
    assert cache_key(spec, tmp_path, 0) != before


def test_an_unknown_pair_is_refused_with_the_nearest(cache: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("mnist-cluter", Path(), cache)
    assert "mnist-cluter" in str(caught.value)
    assert "mnist-clutter" in str(caught.value)


def test_the_checksum_sees_values_labels_types_and_shapes() -> None:
    images, labels = torch.arange(24).view(2, 3, 4).to(torch.uint8), torch.tensor([0, 1])
    plain = {"images": images, "labels": labels}
    changed = images.clone()
    changed[1, 2, 3] += 1
    others = (
        {"images": changed, "labels": labels},
        {"images": images.view(2, 4, 3), "labels": labels},
        {"images": images, "labels": labels.flip(0)},
        {"images": images.to(torch.int8), "labels": labels},
        {"pictures": images, "labels": labels},
    )
    sums = {tensors_checksum(tensors) for tensors in (plain, *others)}
    assert len(sums) == 6
    assert tensors_checksum(dict(reversed(plain.items()))) == tensors_checksum(plain)


def test_random_numbers_depend_on_each_word_alone() -> None:
    drawn = {random_numbers(*words).random() for words in (("a", 1), ("a", 2), ("b", 1), ("a",), ("a1",))}
    assert len(drawn) == 5
    assert random_numbers("a", 1).random() == random_numbers("a", 1).random()
