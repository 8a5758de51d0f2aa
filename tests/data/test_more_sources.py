"""Lists, tar files, Hugging Face data sets, streams and worker processes give the images that folders give."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from residapt.data.decode import decode_image
from residapt.data.decoded import CacheConfig
from residapt.data.domains import Images, Labelled, TensorImages
from residapt.data.prefetch import workers_for
from residapt.data.sources import OpenImages, OpenLabelled, Reading, open_evaluation, open_source, open_target
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec
from support.small_world import CLASSES, labelled
from support.tiny_run import tiny_pair

FORM = InputSpec(size=8, channels=1, mean=(0.5,), std=(0.25,))


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(FORM, augment=False, cache=CacheConfig(folder=tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return labelled(tmp_path / "photos", each=3)


def images_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))


def everything(images: Images) -> Tensor:
    return images.fetch(torch.arange(len(images)), torch.Generator().manual_seed(0))


def expected(folder: Path) -> Tensor:
    pixels = torch.stack([decode_image(path, size=8, channels=1) for path in images_of(folder)])
    return (pixels.float() / 255 - 0.5) / 0.25


def numbers(folder: Path) -> list[int]:
    return [CLASSES.index(path.parent.name) for path in images_of(folder)]


def check(opened: OpenLabelled, target: OpenImages, folder: Path) -> None:
    assert opened.classes == CLASSES
    assert opened.labels.tolist() == numbers(folder)
    assert torch.allclose(everything(opened.images.plain), expected(folder))
    assert torch.allclose(everything(target.plain), expected(folder))


def write_list(folder: Path, suffix: str, *, inside: bool = True) -> Path:
    file = (folder if inside else folder.parent) / f"list.{suffix}"
    paths = [str(path.relative_to(file.parent)) for path in images_of(folder)]
    classes = [path.parent.name for path in images_of(folder)]
    if suffix == "csv":
        lines = [f"{path},{name}" for path, name in zip(paths, classes, strict=True)]
        file.write_text("\n".join(["path,class", *lines]) + "\n")
    else:
        write_table(file, {"more": [7] * len(paths), "path": paths, "label": classes})
    return file


def write_table(file: Path, columns: dict[str, Any]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), file)
    return file


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_list_of_images_is_read_as_the_folder_is(photos: Path, reading: Reading, suffix: str, inside: bool) -> None:
    file = write_list(photos, suffix, inside=inside)
    source, target = open_source(file, reading), open_target(str(file), reading)
    check(source, target, photos)
    assert target.files == tuple(images_of(photos))
    assert open_evaluation(file, reading, CLASSES).labels.tolist() == numbers(photos)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"file": ["a.png"], "kind": ["cat"]}, "class or label"),
        ({"file": ["a.png"]}, "class or label"),
        ({"path": [], "class": []}, "no image"),
        ({"path": ["a.png"], "class": [None]}, "row 1: the class is empty"),
        ({"path": [""], "class": ["cat"]}, "path is empty"),
        ({"path": ["nowhere.png"], "class": ["cat"]}, r"row 1: .*nowhere\.png"),
        ({"image": [b"content"], "label": [1]}, "load_dataset"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    tmp_path: Path, reading: Reading, columns: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        open_source(write_table(tmp_path / "list.parquet", columns), reading)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no image"), ("path\n", "no image"), ("class,path\ncat\n", "row 2"), ("x.png\n", r"x\.png")],
)
def test_a_target_list_that_cannot_be_used_is_refused(tmp_path: Path, reading: Reading, text: str, words: str) -> None:
    file = tmp_path / "list.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=words):
        open_target(file, reading)


def test_a_target_list_needs_no_classes(photos: Path, reading: Reading) -> None:
    file = photos / "target.csv"
    paths = [str(path) for path in images_of(photos)]
    for lines in (["path", *paths], paths, ["class,file", *(f"?,{path}" for path in paths)]):
        file.write_text("\n".join(lines))
        assert torch.allclose(everything(open_target(file, reading).plain), expected(photos))


def test_classes_that_are_numbers_are_in_their_order(photos: Path, reading: Reading) -> None:
    paths = [str(path) for path in images_of(photos)]
    opened = open_source(write_table(photos / "list.parquet", {"path": paths, "label": [10, 9, 2] * 3}), reading)
    assert opened.classes == ("2", "9", "10")
    assert opened.labels.tolist() == [2, 1, 0] * 3


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_shards(photos: Path, folder: Path, kind: str, count: int = 2) -> Path:
    folder.mkdir()
    paths = images_of(photos)
    each = -(-len(paths) // count)
    for shard in range(count):
        with tarfile.open(folder / f"data-{shard:03d}.tar", "w") as archive:
            for number, path in list(enumerate(paths))[shard * each : (shard + 1) * each]:
                name, beside = path.parent.name, f"{number:05d}"
                if kind == "cls":
                    add(archive, f"{beside}.cls", name.encode())
                if kind == "json":
                    add(archive, f"{beside}.json", json.dumps({"label": name}).encode())
                add(archive, f"{name}/{beside}.png" if kind == "folder" else f"{beside}.png", path.read_bytes())
    return folder


@pytest.mark.parametrize("kind", ["cls", "json", "folder"])
def test_tar_files_are_read_as_the_folder_is(photos: Path, tmp_path: Path, reading: Reading, kind: str) -> None:
    shards = write_shards(photos, tmp_path / "shards", kind)
    for place in (shards, shards / "data-{000..001}.tar", shards / "data-*.tar"):
        check(open_source(place, reading), open_target(str(place), reading), photos)
    assert len(open_target(shards / "data-001.tar", reading)) == 4
    assert open_target(shards, reading).name(5) == "data-001.tar/0" if kind == "folder" else True


def test_images_of_tar_files_are_decoded_once_also_when_a_file_is_added(
    photos: Path, tmp_path: Path, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = write_shards(photos, tmp_path / "shards", "cls")
    second = (shards / "data-001.tar").rename(tmp_path / "later.tar")
    everything(open_target(shards, reading).plain)
    second.rename(shards / "data-001.tar")
    decoded: list[Any] = []

    def counting(*arguments: Any, **named: Any) -> Tensor:
        decoded.append(arguments)
        return decode_image(*arguments, **named)

    monkeypatch.setattr("residapt.data.decode.decode_image", counting)
    assert torch.allclose(everything(open_target(shards, reading).plain), expected(photos))
    assert len(decoded) == 4


def test_tar_files_that_cannot_be_used_are_refused(photos: Path, tmp_path: Path, reading: Reading) -> None:
    shards = write_shards(photos, tmp_path / "shards", "plain")
    assert len(open_target(shards, reading)) == 9
    with pytest.raises(DataError, match="has no class"):
        open_source(shards, reading)
    (shards / "data-000.tar").write_bytes(b"no tar file" * 100)
    with pytest.raises(DataError, match=r"data-000\.tar"):
        open_target(shards, reading)
    with pytest.raises(DataError, match="cannot be read"):
        open_target(tmp_path / "missing.tar", reading)
    with tarfile.open(tmp_path / "empty.tar", "w") as archive:
        add(archive, "a.txt", b"no image")
    with pytest.raises(DataError, match="no images"):
        open_target(tmp_path / "empty.tar", reading)


def test_a_broken_image_in_a_tar_file_is_named_and_left_out(photos: Path, tmp_path: Path, reading: Reading) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number, path in enumerate(images_of(photos)):
            add(archive, f"{path.parent.name}/{number}.png", b"broken" if number == 4 else path.read_bytes())
    opened = open_source(tmp_path / "a.tar", reading)
    assert len(opened.images) == 8
    assert "a.tar" in opened.images.notes[0]


def hub(folder: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))})
    rows = {"image": [str(path) for path in images_of(folder)], "label": numbers(folder)}
    return datasets.Dataset.from_dict(rows, features=features)


def test_hub_data_sets_are_decoded_once_by_any_thread(
    photos: Path, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = hub(photos)
    source, target = open_source(rows, reading), open_target(rows, reading)
    check(source, target, photos)
    assert workers_for(tiny_pair(), accelerator=False) == 0
    pair = type(tiny_pair())(Labelled(source.images.train, source.labels), target.train)
    assert workers_for(pair, accelerator=False) > 0
    monkeypatch.setattr("residapt.data.hub_rows.decode_image", None)  # nothing is decoded again
    check(open_source(hub(photos), reading), open_target(hub(photos), reading), photos)


def test_hub_data_sets_with_a_transform_of_their_own_keep_it(photos: Path, reading: Reading) -> None:
    rows = hub(photos).with_transform(lambda batch: {"image": [torch.ones(1, 8, 8) for _ in batch["image"]]})
    assert everything(open_target(rows, reading).plain).unique().tolist() == [1.0]


def test_hub_streams(photos: Path, reading: Reading) -> None:
    stream = hub(photos).to_iterable_dataset()
    check(open_source(stream, reading), open_target(stream, reading), photos)


class Opened:
    """A stream of images that counts how often it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def __iter__(self) -> Iterator[tuple[Image.Image, int]]:
        self.count += 1
        for path, number in zip(images_of(self.folder), numbers(self.folder), strict=True):
            yield Image.open(path), number


def test_a_stream_is_read_once_and_kept_on_disk_without_a_name(photos: Path, reading: Reading) -> None:
    stream = Opened(photos)
    opened = open_source(stream, reading)
    assert stream.count == 1
    assert torch.allclose(everything(opened.images.plain), expected(photos))
    assert opened.images.raw
    assert list(reading.cache.folder.iterdir()) == []
    with pytest.raises(DataError, match=r"data\.cache_gb"):
        open_target(Opened(photos), Reading(FORM, cache=CacheConfig(200, reading.cache.folder)))


def test_a_stream_whose_folder_cannot_be_written_to_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="RESIDAPT_CACHE"):
        open_target(Opened(photos), Reading(FORM, cache=CacheConfig(1e9, tmp_path / "file" / "cache")))


def test_tensors_are_used_where_they_are(reading: Reading) -> None:
    pixels, floats = torch.zeros(6, 1, 8, 8, dtype=torch.uint8), torch.zeros(6, 1, 8, 8)
    labels = torch.arange(6) % 2
    for given in (pixels, floats):
        for data in ((given, labels), TensorDataset(given, labels), DataLoader(TensorDataset(given, labels))):
            images = open_source(data, reading).images.train
            assert isinstance(images, TensorImages)
            assert images.images.data_ptr() == given.data_ptr()


class Jitter(Dataset[Any]):
    """Rows with a random transform of their own."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((1, 8, 8), float(index)) + torch.rand(1, 8, 8), index % 3


def test_worker_processes_of_a_loader_give_the_same_random_rows(reading: Reading) -> None:
    alone, ahead = (open_target(DataLoader(Jitter(), num_workers=count), reading).train for count in (0, 2))
    for seed in (1, 2):
        index = torch.tensor([3, 19, 3, 0])
        first, second = (one.fetch(index, torch.Generator().manual_seed(seed)) for one in (alone, ahead))
        assert torch.equal(first, second)
        assert not torch.equal(first[0], first[2]), "each row draws for itself"
    assert (alone.threads, ahead.threads) == (False, True)  # type: ignore[attr-defined]
