from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from residapt.data import row_file
from residapt.data.batches import Batches
from residapt.data.config import ViewsConfig
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.data.preprocess import Normalise
from residapt.data.row_file import RowFile, UnusableFileError, only_one, write_rows
from residapt.data.views import (
    BLOCK,
    CachedViews,
    StageOutputs,
    digest_of_files,
    digest_of_images,
    stage_outputs,
)
from residapt.errors import ConfigError, DataError, ModelError

GENERATOR = torch.Generator()
COUNT = 2 * BLOCK + 3


def stages(x: Tensor) -> Tensor:
    """Two numbers for each channel."""
    return torch.stack([x.mean((2, 3)), x.std((2, 3))], dim=2)


def pixels(count: int = COUNT, side: int = 6) -> Tensor:
    return torch.randint(256, (count, 3, side, side), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + torch.rand(len(x), 1, 1, 1, generator=generator)


def sets(images: Tensor) -> tuple[TensorImages, TensorImages]:
    plain = Normalise((0.5,), (0.5,))
    return TensorImages(images, plain), TensorImages(images, Normalise((0.5,), (0.5,), noisy))


def made(folder: Path | None = None, **options: Any) -> StageOutputs:
    plain, augmented = sets(pixels())
    values: dict[str, Any] = {"identity": ["stages", "images"], "config": ViewsConfig(count=4), "folder": folder}
    return stage_outputs(options.pop("stages", stages), plain, augmented, **(values | options))


def refuse(_x: Tensor) -> Tensor:
    raise AssertionError("computed again")


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.rows")
    return path


def test_the_plain_outputs_are_those_of_the_stages() -> None:
    outputs = made(config=ViewsConfig(count=2, precision="float32"))
    index = torch.tensor([5, COUNT - 1, 0, 5])
    expected = stages(sets(pixels())[0].fetch(index, GENERATOR))
    assert torch.equal(outputs.plain.fetch(index, GENERATOR), expected)
    assert outputs.shape == (3, 2)
    assert len(outputs.plain) == len(outputs.train) == COUNT


def test_half_precision_is_the_nearest_number() -> None:
    index = torch.arange(COUNT)
    exact = made(config=ViewsConfig(count=2, precision="float32")).plain.fetch(index, GENERATOR)
    half = made().plain.fetch(index, GENERATOR)
    assert half.dtype == torch.float32
    assert torch.equal(half, exact.half().float())


def test_each_view_is_the_stages_of_other_random_changes() -> None:
    outputs = made(config=ViewsConfig(count=4, precision="float32"))
    means = sets(pixels())[0].fetch(torch.arange(COUNT), GENERATOR).mean((2, 3))
    added = torch.stack([outputs.train.rows.read(torch.arange(COUNT) * 5 + 1 + v)[..., 0] - means for v in range(4)])
    shift = added[..., :1]
    torch.testing.assert_close(added, shift.expand_as(added), atol=1e-5, rtol=0)  # the same noise in all channels
    assert float(shift.min()) >= 0
    assert float(shift.max()) <= 1
    assert len(shift.flatten().round(decimals=5).unique()) > 0.95 * shift.numel()  # no two views are alike


def test_a_batch_is_a_function_of_its_generator() -> None:
    outputs = made()
    index = torch.arange(COUNT)
    first, again, other = (outputs.train.fetch(index, torch.Generator().manual_seed(s)) for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    pair = DomainPair(Labelled(outputs.train, torch.zeros(COUNT, dtype=torch.long)), outputs.train)
    one, streams = Batches(pair, size=8, seed=0), Batches(pair, size=8, seed=0)
    one.batch(3)
    assert torch.equal(one.batch(7).target, streams.batch(7).target)


def test_all_views_are_drawn_equally_often() -> None:
    outputs = made()
    table = torch.stack([outputs.train.rows.read(torch.tensor([1 + v])).float()[0] for v in range(4)])
    drawn = outputs.train.fetch(torch.zeros(4000, dtype=torch.long), torch.Generator().manual_seed(0))
    counts = (drawn[:, None] == table[None]).flatten(2).all(2).sum(0)
    assert int(counts.sum()) == 4000
    assert float((counts - 1000).abs().max()) < 5 * (4000 * 0.25 * 0.75) ** 0.5


def test_without_random_changes_there_is_one_output_for_each_image() -> None:
    images = torch.randn(COUNT, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    outputs = stage_outputs(stages, TensorImages(images), None, identity=["x"])
    index = torch.tensor([4, 1])
    assert torch.equal(outputs.train.fetch(index, GENERATOR), outputs.plain.fetch(index, GENERATOR))
    assert torch.equal(outputs.train.fetch(index, GENERATOR), stages(images[index]).half().float())
    assert len(outputs.train) == COUNT


def test_found_again_by_the_next_run(tmp_path: Path) -> None:
    first = made(tmp_path)
    again = made(tmp_path, stages=refuse)
    assert (first.found, again.found) == (False, True)
    index = torch.arange(COUNT)
    fetched = [o.train.fetch(index, torch.Generator().manual_seed(0)) for o in (first, again)]
    assert torch.equal(*fetched)
    assert again.train.rows.manifest["views"] == 4


@pytest.mark.parametrize(
    "change",
    [
        {"identity": ["other stages", "images"]},
        {"identity": ["stages", "other images"]},
        {"config": ViewsConfig(count=3)},
        {"config": ViewsConfig(count=4, precision="float32")},
        {"seed": 1},
    ],
    ids=str,
)
def test_computed_anew_when_anything_changes(tmp_path: Path, change: dict[str, Any]) -> None:
    made(tmp_path)
    assert not made(tmp_path, **change).found
    assert len(list(tmp_path.glob("*.rows"))) == 2


def test_a_file_of_another_key_is_not_read(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(UnusableFileError, match="wanted abc"):
        RowFile(file_of(tmp_path), "abc")


@pytest.mark.parametrize("place", ["magic", "header", "end", "empty", "half", "longer"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, place: str) -> None:
    index = torch.arange(COUNT)
    good = made(tmp_path).plain.fetch(index, GENERATOR)
    path = file_of(tmp_path)
    content = bytearray(path.read_bytes())
    flip = {"magic": 3, "header": 60, "end": len(content) - 9}
    if place in flip:
        content[flip[place]] ^= 1
    content = {"empty": content[:0], "half": content[: len(content) // 2], "longer": content + b"x"}.get(place, content)
    path.write_bytes(content)
    outputs = made(tmp_path)
    assert not outputs.found
    assert torch.equal(outputs.plain.fetch(index, GENERATOR), good)
    assert made(tmp_path, stages=refuse).found


def test_a_changed_number_is_never_read(tmp_path: Path) -> None:
    outputs = made(tmp_path)
    row_bytes = outputs.plain.rows.row_bytes
    with file_of(tmp_path).open("r+b") as file:
        file.seek(row_file.HEADER + 5 * row_bytes + 2)  # the plain row of image 1
        file.write(b"\xff")
    outputs.plain.fetch(torch.tensor([0, 2]), GENERATOR)
    with pytest.raises(DataError, match=f"row 5 of {5 * COUNT}"):
        outputs.plain.fetch(torch.tensor([0, 1]), GENERATOR)


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error_and_no_crash(tmp_path: Path) -> None:
    outputs = made(tmp_path)
    os.truncate(file_of(tmp_path), row_file.HEADER + 7)
    with pytest.raises(DataError, match=r"\.rows"):
        outputs.plain.fetch(torch.tensor([3]), GENERATOR)


def test_images_out_of_range_are_refused() -> None:
    outputs = made()
    for wrong in (COUNT, -1):
        with pytest.raises(IndexError):
            outputs.plain.fetch(torch.tensor([wrong]), GENERATOR)


def test_an_error_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    calls = []

    def fail(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) > 7:
            raise RuntimeError("stop")
        return stages(x)

    with pytest.raises(RuntimeError, match="stop"):
        made(tmp_path, stages=fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert not made(tmp_path).found


WRITER = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads(1)
from data.test_views import made, stages
def slow(x):
    print("computing", flush=True)
    time.sleep({pause})
    return stages(x)
outputs = made(Path({folder!r}), stages=slow)
print("found" if outputs.found else "made", flush=True)
"""


def writer(folder: Path, pause: float) -> subprocess.Popen[str]:
    code = WRITER.format(paths=[str(Path(__file__).parent.parent), *sys.path], folder=str(folder), pause=pause)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_killed_in_the_middle_nothing_wrong_is_read(tmp_path: Path) -> None:
    process = writer(tmp_path, 0.2)
    assert process.stdout is not None
    for _ in range(8):  # of 15
        assert process.stdout.readline() == "computing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not list(tmp_path.glob("*.rows"))
    assert list(tmp_path.glob(".*.partial"))
    begin = time.monotonic()
    assert not made(tmp_path).found  # the lock has ended with its process
    assert time.monotonic() - begin < 5
    assert not list(tmp_path.glob(".*.partial"))
    assert made(tmp_path, stages=refuse).found


def test_of_two_processes_one_computes_and_the_other_waits(tmp_path: Path) -> None:
    process = writer(tmp_path, 0.1)
    assert process.stdout is not None
    assert process.stdout.readline() == "computing\n"
    waited = []
    outputs = made(tmp_path, stages=refuse, on_wait=lambda: waited.append(1))
    assert outputs.found
    assert waited == [1]
    assert process.communicate()[0].splitlines()[-1] == "made"


def test_threads_of_one_process_wait_as_well(tmp_path: Path) -> None:
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(made(tmp_path).found)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, True, True]


def test_a_full_disk_is_found_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_file.shutil, "disk_usage", lambda _path: SimpleNamespace(free=3000))
    calls: list[int] = []
    with pytest.raises(ConfigError, match="0 MB"):
        made(tmp_path, progress=lambda done, _count, _left: calls.append(done))
    assert calls == []
    assert not list(tmp_path.glob("*.rows"))


def test_a_disk_that_becomes_full_is_a_clear_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (row_file.HEADER + 500, hard))
        with pytest.raises(ConfigError, match=r"\.rows"):
            made(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(tmp_path.glob("*.rows"))
    assert not list(tmp_path.glob(".*.partial"))


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file"):
        made(tmp_path / "file" / "views")


def test_values_too_large_for_half_precision_are_refused() -> None:
    with pytest.raises(ModelError, match="float32"):
        made(stages=lambda x: stages(x) * 1e6)
    large = made(stages=lambda x: stages(x) * 1e6, config=ViewsConfig(count=1, precision="float32"))
    assert float(large.plain.fetch(torch.tensor([0]), GENERATOR).abs().max()) > 65504
    with pytest.raises(DataError, match="0 to 15"):
        made(stages=lambda x: stages(x) / 0)


def test_progress_tells_images_and_seconds_left() -> None:
    told: list[tuple[int, int, float]] = []
    made(progress=lambda *values: told.append(values))
    assert [(done, count) for done, count, _ in told] == [(BLOCK, COUNT), (2 * BLOCK, COUNT), (COUNT, COUNT)]
    assert told[0][2] > 0
    assert told[-1][2] == 0


MEMORY = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads(1)
from data.test_views import pixels, sets, stage_outputs
def peak():  # ru_maxrss would begin with the peak of the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

wide = lambda x: x.flatten(1).repeat(1, 16)  # 192 x 4 x 4 values, as EfficientNet-Lite0 has at 128 pixels
plain, augmented = sets(pixels(4000, 8))
wide(plain.fetch(torch.arange(16), torch.Generator()))
before = peak()
outputs = stage_outputs(wide, plain, augmented, identity=["x"], folder=Path({folder!r}))
for index in torch.arange(4000).split(64):
    outputs.plain.fetch(index, torch.Generator())
    outputs.train.fetch(index, torch.Generator())
print(outputs.plain.rows.path.stat().st_size / 2**20, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    code = MEMORY.format(paths=[str(Path(__file__).parent.parent), *sys.path], folder=str(tmp_path))
    size, rise = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert size > 200
    assert 0 < rise < 30


def test_views_of_other_processes_and_after_a_fork(tmp_path: Path) -> None:
    outputs = made(tmp_path)
    index = torch.arange(COUNT)
    copied: CachedViews = pickle.loads(pickle.dumps(outputs.train))
    first, second = (v.fetch(index, torch.Generator().manual_seed(0)) for v in (outputs.train, copied))
    assert torch.equal(first, second)


def test_a_temporary_file_ends_with_the_outputs() -> None:
    outputs = made()
    path = outputs.plain.rows.path
    assert path.exists()
    del outputs
    assert not path.exists()


def test_digests_follow_what_they_are_of(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("a.png", "b.png"))
    first.write_bytes(b"x")
    second.write_bytes(b"y")
    whole = digest_of_files([first, second], tmp_path)
    assert whole == digest_of_files([first, second], tmp_path)
    assert whole != digest_of_files([first], tmp_path)
    os.utime(second, (1, 1))
    assert whole != digest_of_files([first, second], tmp_path)
    images = pixels()
    digest = digest_of_images(TensorImages(images))
    images[-1, 0, 0, 0] ^= 1
    assert digest_of_images(TensorImages(images)) != digest
    assert digest_of_images(TensorImages(images.float())) != digest_of_images(TensorImages(images))


def test_the_announced_number_of_rows_has_to_come(tmp_path: Path) -> None:
    path = tmp_path / "x.rows"
    with only_one(path), pytest.raises(DataError, match=r"3 rows.*2"):
        write_rows(path, [torch.zeros(2, 4)], rows=3, key="k")
    assert not path.exists()
