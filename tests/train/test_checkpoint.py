"""Stopped anywhere and resumed, a run ends bit-equal to one that was never stopped; damage is noticed."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.distributed import Engine, Precision
from residapt.errors import ModelError, ResidaptError, TrainingError
from residapt.evaluate.predict import Evaluation
from residapt.methods import method_names
from residapt.storage import checkpoint as files
from residapt.train import Callback, Losses, Method, TrainConfig, Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint, save_checkpoint
from residapt.train.curve import Curve
from residapt.train.early_stopping import EarlyStopping, run_with_early_stopping
from residapt.train.health import HealthMonitor
from residapt.train.metrics import MetricsFile
from support.tiny_run import STEPS, tiny_pair, tiny_trainer


class Stopped(BaseException):
    """What kill -9 is to a process, this is to a test."""


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, method: Method, step: int) -> None:
        if step == self.step:
            raise Stopped


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.method.state_dict().items()}


def assert_bit_equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def lines(path: Path) -> list[dict[str, object]]:
    """The lines of a metrics file without the time they were written at."""
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read]


def run_stopped(name: str, folder: Path, stop: int, every: int = 5, **settings: object) -> Trainer:
    """Train, stop at ``stop`` without any goodbye, resume in a fresh trainer and train to the end."""

    def fresh() -> Trainer:
        listeners = [MetricsFile(folder / "metrics.jsonl"), Checkpointer(folder / "checkpoint", every)]
        return tiny_trainer(name, listeners, **settings)

    first = fresh()
    first.callbacks.items.insert(1, StopAt(stop))
    with pytest.raises(Stopped):
        first.run()
    second = fresh()
    assert restore_checkpoint(second, folder / "checkpoint") == (stop - 1) // every * every
    second.run()
    return second


@pytest.mark.parametrize("stop", [1, 5, 6, 10, 11, 16, 21, STEPS])
def test_a_resumed_run_is_bit_equal_with_its_pruned_ranks(stop: int, tmp_path: Path) -> None:
    whole = tiny_trainer("rpt", [MetricsFile(tmp_path / "whole.jsonl")])
    start = whole.method.streams.ranks()
    whole.run()
    assert whole.method.streams.ranks() != start, "the test needs ranks that fall"
    resumed = run_stopped("rpt", tmp_path, stop)
    assert_bit_equal(weights(whole), weights(resumed))
    assert lines(tmp_path / "whole.jsonl") == lines(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("name", [n for n in method_names() if n not in ("rpt", "fine_tune", "pooled", "target_only")])
def test_every_method_resumes(name: str, tmp_path: Path) -> None:
    whole = tiny_trainer(name, steps=9)
    whole.run()
    assert_bit_equal(weights(whole), weights(run_stopped(name, tmp_path, 7, every=4, steps=9)))


@pytest.mark.parametrize("kind", ["adamw", "sgd", "adadelta"])
def test_every_optimiser_resumes_after_a_prune(kind: str, tmp_path: Path) -> None:
    whole = tiny_trainer("rpt", optimizer=kind)
    whole.run()
    assert_bit_equal(weights(whole), weights(run_stopped("rpt", tmp_path, 18, optimizer=kind)))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_resumes_with_its_loss_scale(precision: Precision, tmp_path: Path) -> None:
    def engine() -> Engine:
        made = Engine("cpu", precision)
        made.scaler._growth_interval = 4  # so that the scale has moved before the checkpoint
        return made

    settings = {"steps": 12, "optimizer": "sgd"}
    whole = tiny_trainer("rpt", engine=engine(), **settings)
    whole.run()
    first = tiny_trainer("rpt", [StopAt(9), Checkpointer(tmp_path, 4)], engine=engine(), **settings)
    with pytest.raises(Stopped):
        first.run()
    resumed = tiny_trainer("rpt", engine=engine(), **settings)
    assert restore_checkpoint(resumed, tmp_path) == 8
    if precision == "fp16":
        assert resumed.engine.scaler.get_scale() != engine().scaler.get_scale()
    resumed.run()
    assert_bit_equal(weights(whole), weights(resumed))


def test_moments_follow_their_parameters_by_name(tmp_path: Path) -> None:
    trainer = tiny_trainer("rpt", steps=12)
    trainer.run()
    save_checkpoint(trainer, tmp_path)
    fresh = tiny_trainer("rpt", steps=12)
    restore_checkpoint(fresh, tmp_path)
    old, new = (dict(t.method.named_parameters()) for t in (trainer, fresh))
    for name, parameter in old.items():
        if parameter in trainer.optimizer.state:
            for key, value in trainer.optimizer.state[parameter].items():
                assert torch.equal(value, fresh.optimizer.state[new[name]][key]), (name, key)
    groups = [{id(p) for p in group["params"]} for group in fresh.optimizer.param_groups]
    trained = {id(p) for p in fresh.method.parameters() if p.requires_grad}
    assert set().union(*groups) == trained, "pruned parameters must be the ones that the optimiser holds"


def labelled(count: int = 12) -> Labelled:
    pair = tiny_pair(augment=False)
    return Labelled(
        TensorImages(pair.source.images.fetch(torch.arange(count), torch.Generator())), torch.arange(count) % 3
    )


def test_what_callbacks_have_seen_goes_on(tmp_path: Path) -> None:
    """Health notes, curves and metrics are those of one run."""

    def listeners(folder: Path) -> tuple[Curve, list[Callback]]:
        folder.mkdir(exist_ok=True)
        data = labelled()
        curve = Curve([Evaluation("held out", data)], every=4)
        health = HealthMonitor(data, data.images)
        return curve, [MetricsFile(folder / "metrics.jsonl"), health, curve, Checkpointer(folder / "checkpoint", 5)]

    settings = {"adversary": {"lr": 0.5}, "network": {"lr": 0.05}}  # wild enough for notes
    whole_curve, items = listeners(tmp_path / "whole")
    tiny_trainer("rpt", items, **settings).run()
    _, items = listeners(tmp_path / "cut")
    cut = tiny_trainer("rpt", [*items[:1], StopAt(13), *items[1:]], **settings)
    with pytest.raises(Stopped):
        cut.run()
    curve, items = listeners(tmp_path / "cut")
    resumed = tiny_trainer("rpt", items, **settings)
    restore_checkpoint(resumed, tmp_path / "cut" / "checkpoint")
    resumed.run()
    assert curve.points == whole_curve.points
    written = lines(tmp_path / "whole" / "metrics.jsonl")
    assert any(line["kind"] == "note" for line in written), "the test needs a run with notes"
    assert written == lines(tmp_path / "cut" / "metrics.jsonl")


def test_early_stopping_keeps_its_best_weights_over_a_resume(tmp_path: Path) -> None:
    def stopping() -> EarlyStopping:
        return EarlyStopping(labelled(), every=2, patience=50)

    settings = {"network": {"lr": 0.3}, "steps": 20, "decay": "constant"}  # so wild that the best is not the last
    first = tiny_trainer("source_only", **settings)
    best = run_with_early_stopping(first, stopping())
    assert best.step < 20
    cut = tiny_trainer("source_only", [StopAt(17), Checkpointer(tmp_path, 3)], **settings)
    with pytest.raises(Stopped):
        run_with_early_stopping(cut, stopping())
    resumed = tiny_trainer("source_only", [], **settings)
    assert restore_checkpoint(resumed, tmp_path) == 15
    assert run_with_early_stopping(resumed, stopping()) == best
    assert_bit_equal(weights(first), weights(resumed))


def test_dropout_is_a_function_of_the_step() -> None:
    """A callback that draws random numbers changes nothing."""

    class Draws(Callback):
        def on_step(self, method: Method, step: int) -> None:
            torch.rand(step)

    plain, disturbed = tiny_trainer("rpt", steps=4), tiny_trainer("rpt", [Draws()], steps=4)
    plain.run()
    disturbed.run()
    assert_bit_equal(weights(plain), weights(disturbed))


def saved_run(folder: Path, steps: int = 10) -> Trainer:
    trainer = tiny_trainer("rpt", [Checkpointer(folder, 5)], steps=steps)
    trainer.run()
    return trainer


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [cut_short, flip_a_bit, Path.unlink], ids=["cut", "flipped", "missing"])
@pytest.mark.parametrize("name", [files.TENSORS, files.RECORD, files.MANIFEST])
def test_a_damaged_checkpoint_is_passed_over_with_a_notice(
    name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    whole = saved_run(tmp_path)
    damage(files.folder_of(tmp_path, 10) / name)
    notes: list[str] = []

    class Listen(Callback):
        def on_note(self, method: Method, step: int, note: str) -> None:
            notes.append(note)

    resumed = tiny_trainer("rpt", [Listen(), Checkpointer(tmp_path, 5)], steps=10)
    assert restore_checkpoint(resumed, tmp_path) == 5
    resumed.run()
    assert "checkpoint of step 10 cannot be used" in notes[0]
    assert "step-00000010" in notes[0]
    assert "step 5 was used" in notes[0]
    assert_bit_equal(weights(whole), weights(resumed))
    assert restore_checkpoint(tiny_trainer("rpt", steps=10), tmp_path) == 10, "the damaged one must be replaced"


def test_no_usable_checkpoint_is_a_clear_error(tmp_path: Path) -> None:
    saved_run(tmp_path)
    for step in files.steps_in(tmp_path):
        cut_short(files.folder_of(tmp_path, step) / files.TENSORS)
    with pytest.raises(ModelError, match="step 10"):
        restore_checkpoint(tiny_trainer("rpt", steps=10), tmp_path)
    with pytest.raises(ModelError, match="holds no checkpoint"):
        restore_checkpoint(tiny_trainer("rpt"), tmp_path / "nowhere")


def test_the_two_newest_are_kept_and_leftovers_go(tmp_path: Path) -> None:
    (tmp_path / f"{files.TEMPORARY}abc").mkdir()
    files.folder_of(tmp_path, 99).mkdir()
    saved_run(tmp_path, steps=20)
    assert files.steps_in(tmp_path) == [20, 15]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000015", "step-00000020"]


@pytest.mark.parametrize("moment", range(6))
def test_a_full_disk_leaves_the_older_checkpoint_and_says_so(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write fails at its first, second, ... call that reaches the disk."""
    trainer = tiny_trainer("rpt", [Checkpointer(tmp_path, 5, command="residapt adapt --resume run")], steps=10)
    calls = 0

    def full(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += trainer.step == 10
            if trainer.step == 10 and calls > moment:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(files, "_save_tensors", full(files._save_tensors))
    monkeypatch.setattr(files, "_sync", full(files._sync))
    monkeypatch.setattr(files.os, "rename", full(files.os.rename))
    with pytest.raises(TrainingError, match=r"step 10.*No space left.*step 5.*--resume run"):
        trainer.run()
    monkeypatch.undo()
    assert files.steps_in(tmp_path) == [5, 0]
    assert not list(tmp_path.glob(f"{files.TEMPORARY}*"))
    assert restore_checkpoint(tiny_trainer("rpt", steps=10), tmp_path) == 5


def test_a_nan_ends_the_run_and_the_last_good_checkpoint_stays(tmp_path: Path) -> None:
    class Spoil(Callback):
        def on_step(self, method: Method, step: int) -> None:
            if step == 9:
                with torch.no_grad():
                    next(method.parameters()).fill_(float("nan"))

    trainer = tiny_trainer("rpt", [Spoil(), Checkpointer(tmp_path, 3)])
    with pytest.raises(TrainingError, match=r"step 9.*step 6"):
        trainer.run()
    assert restore_checkpoint(tiny_trainer("rpt"), tmp_path) == 6


def test_a_nan_loss_tells_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainConfig, "recover", 0)
    trainer = tiny_trainer("rpt", [Checkpointer(tmp_path, 2)])
    exact, calls = trainer.method.losses, itertools.count(1)

    def losses(batch: Batch, progress: float) -> Losses:
        found = exact(batch, progress)
        if next(calls) < 6:
            return found
        return replace(found, total=found.total * math.nan, parts={**found.parts, "class": found.total * math.nan})

    trainer.method.losses = losses  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=r"step \d+"):
        trainer.run()
    assert 4 in files.steps_in(tmp_path)


def test_another_method_or_network_is_refused(tmp_path: Path) -> None:
    saved_run(tmp_path)
    with pytest.raises(ModelError, match=r"'rpt'.*'dann_flip'"):
        restore_checkpoint(tiny_trainer("dann_flip"), tmp_path)
    other = tiny_trainer("rpt")
    other.method.streams.model.full = nn.Linear(36, 9)
    with pytest.raises(ModelError, match=r"full\.weight.*\(7, 36\).*\(9, 36\)"):
        restore_checkpoint(other, tmp_path)
    with pytest.raises(ModelError, match=r"float32.*float64"):
        restore_checkpoint(tiny_trainer("rpt", dtype=torch.float64), tmp_path)


def test_ranks_larger_than_the_layer_starts_with_are_refused(tmp_path: Path) -> None:
    trainer = tiny_trainer("rpt", steps=0)
    save_checkpoint(trainer, tmp_path)
    record, tensors = files.read_folder(files.folder_of(tmp_path, 0))
    tensors["method:streams.transforms.conv.D"] = torch.zeros(7, 6)
    files.write_checkpoint_folder(files.folder_of(tmp_path, 1), record.model_copy(update={"step": 1}), tensors)
    with pytest.raises(ModelError, match=r"'conv'.*\[7, 6\].*\[6, 6\]"):
        restore_checkpoint(tiny_trainer("rpt"), tmp_path)


def test_changed_settings_are_told(tmp_path: Path) -> None:
    saved_run(tmp_path)
    trainer = tiny_trainer("rpt", steps=12)
    restore_checkpoint(trainer, tmp_path)
    assert trainer.notes == ["resuming with changed settings: train.steps = 12 (was 10)."]


def test_a_vanished_file_and_a_failed_allocation_tell_how_to_go_on(tmp_path: Path) -> None:
    pair = tiny_pair()

    class Failing(TensorImages):
        error: Exception

        def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
            if generator.initial_seed() == failing_seed:
                raise self.error
            return super().fetch(index, generator)

    probe = tiny_trainer("rpt")
    seen: list[int] = []
    probe.batches.pair = DomainPair(pair.source, Spy(pair.target, seen))
    for step in range(8):
        probe.batches.batch(step)
    failing_seed = seen[7]
    messages = {
        FileNotFoundError(errno.ENOENT, "No such file or directory", "photos/7.jpg"): r"'photos/7.jpg'.*after step 7",
        MemoryError(): r"not enough memory.*after step 7.*train\.batch_size",
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"): "not enough memory",
    }
    for number, (error, expected) in enumerate(messages.items()):
        target = Failing(pair.target.images, pair.target.transform)  # type: ignore[attr-defined]
        target.error = error
        place = tmp_path / str(number)
        trainer = tiny_trainer("rpt", [Checkpointer(place, 5)], pair=DomainPair(pair.source, target))
        with pytest.raises(ResidaptError, match=rf"{expected}.*step 5"):
            trainer.run()
        assert restore_checkpoint(tiny_trainer("rpt"), place) == 5


class Spy:
    """Images that write down the seeds they are asked with."""

    def __init__(self, images: TensorImages, seen: list[int]) -> None:
        self.images, self.seen = images, seen

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        self.seen.append(generator.initial_seed())
        return self.images.fetch(index, generator)


def test_a_mistake_in_a_program_keeps_its_traceback(tmp_path: Path) -> None:
    class Wrong(Callback):
        def on_step(self, method: Method, step: int) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tiny_trainer("rpt", [Wrong()]).run()


def _sign(folder: Path) -> None:
    """Make the manifest fit, as somebody with bad intentions would."""
    listed = {}
    for name in (files.TENSORS, files.RECORD):
        content = (folder / name).read_bytes()
        listed[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / files.MANIFEST).write_text(json.dumps({"files": listed}))


@pytest.mark.parametrize("signed", [False, True])
def test_mutated_checkpoints_give_a_clean_error_or_load(signed: bool, tmp_path: Path) -> None:
    """Never a crash, never another kind of error; with a manifest that does not fit, never a load."""
    save_checkpoint(saved_run(tmp_path / "made"), tmp_path / "one")
    folder = files.folder_of(tmp_path / "one", 10)
    good = {name: (folder / name).read_bytes() for name in (files.TENSORS, files.RECORD, files.MANIFEST)}
    dice = random.Random(5)
    trainer = tiny_trainer("rpt")
    loaded = 0
    for _ in range(150):
        for name, content in good.items():
            (folder / name).write_bytes(content)
        name = dice.choice([files.TENSORS, files.RECORD] if signed else list(good))
        (folder / name).write_bytes(_mutated(good[name], dice))
        if signed:
            _sign(folder)
        try:
            restore_checkpoint(trainer, tmp_path / "one")
            loaded += 1
        except ModelError:
            trainer = tiny_trainer("rpt")
    assert signed or loaded == 0


def _mutated(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    place = dice.randrange(min(len(changed), 4000))
    kind = dice.randrange(4)
    if kind == 0:
        changed[place] ^= 1 << dice.randrange(8)
    elif kind == 1:
        del changed[place:]
    elif kind == 2:
        del changed[place : place + dice.randrange(1, 9)]
    else:
        changed[place:place] = dice.randbytes(dice.randrange(1, 9))
    return bytes(changed)


def test_batches_are_those_of_the_step(tmp_path: Path) -> None:
    """A resumed trainer reads on where the first one would have."""
    seen: dict[str, list[Batch]] = {"whole": [], "resumed": []}

    def watch(trainer: Trainer, name: str) -> Trainer:
        real = trainer.batches.batch

        def batch(step: int, **options: Any) -> Batch:
            seen[name].append(real(step, **options))
            return seen[name][-1]

        trainer.batches.batch = batch  # type: ignore[method-assign]
        return trainer

    watch(tiny_trainer("rpt", [Checkpointer(tmp_path, 4)], steps=8), "whole").run()
    files.remove_folder(files.folder_of(tmp_path, 8))
    resumed = watch(tiny_trainer("rpt", steps=8), "resumed")
    restore_checkpoint(resumed, tmp_path)
    resumed.run()
    assert len(seen["resumed"]) == 4
    for old, new in zip(seen["whole"][4:], seen["resumed"], strict=True):
        assert torch.equal(old.source, new.source)
        assert torch.equal(old.target, new.target)
