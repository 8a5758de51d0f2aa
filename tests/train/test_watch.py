"""Numbers that are read together, some steps later: training is the same as if they were read at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from residapt.config import Config
from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import TrainingError
from residapt.methods import build_method
from residapt.models import LeNet
from residapt.train import Callback, Losses, Method, TrainConfig, Trainer
from residapt.train.callbacks import RecoveryInfo
from residapt.train.recovery import EVERY
from residapt.train.state import method_tensors, optimizer_state
from residapt.train.watch import TOGETHER
from support.tiny_run import tiny_trainer

PARTS = {"prior": {"kind": "estimated"}, "average": {"decay": 0.9, "start": 0.0}}


class Told(Callback):
    """What was told of steps."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, float]] = []
        self.back: list[tuple[int, int, bool]] = []
        self.ranks: list[int] = []

    def on_log(self, method: Method, info: Any) -> None:
        self.logged.append((info.step, info.values["total"]))

    def on_recovery(self, method: Method, step: int, info: RecoveryInfo) -> None:
        self.back.append((step, info.back_to, info.stopped))

    def on_ranks(self, method: Method, step: int, changes: Any) -> None:
        self.ranks.append(step)


def run(together: int, at: tuple[int, ...], value: float, **train: Any) -> tuple[dict[str, Tensor], Told, Trainer]:
    told = Told()
    made = tiny_trainer("rpt", [told], parts=PARTS, **{"steps": 2 * EVERY, "log_every": 35, "clip": None, **train})
    made.watch.every = together
    real = made.method.losses

    def losses(batch: Batch, progress: float) -> Losses:
        found = real(batch, progress)
        if made.step + 1 not in at:
            return found
        return Losses(found.total * value, {**found.parts, "class": found.parts["class"] * value}, found.watch)

    made.method.losses = losses  # type: ignore[method-assign]
    made.run()
    moments, _ = optimizer_state(made.method, made.optimizer)
    tensors = {**method_tensors(made.method), **{f"moment {name}": tensor for name, tensor in moments.items()}}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}, told, made


@pytest.mark.parametrize(("at", "value"), [((), 1.0), ((7,), 1e9), ((3, 4, EVERY + 41), math.nan)])
def test_reading_later_ends_in_the_same_weights(at: tuple[int, ...], value: float) -> None:
    at_once, told, first = run(1, at, value)
    later, also, second = run(TOGETHER, at, value)
    assert at_once.keys() == later.keys()
    assert all(torch.equal(tensor, later[name]) for name, tensor in at_once.items())
    assert (told.logged, told.back, told.ranks) == (also.logged, also.back, also.ranks)
    assert first.recovery.detector.state() == second.recovery.detector.state()
    assert len(told.back) == len(at)


def test_an_error_names_the_step_that_had_it() -> None:
    for together in (1, TOGETHER):
        with pytest.raises(TrainingError, match="step 6 of"):
            run(together, (3, 4, 5, 6), math.nan)


def test_weights_stay_good_while_nobody_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a step on them cannot fail because of them."""
    monkeypatch.setattr(TrainConfig, "recover", 0)
    told = Told()
    made = tiny_trainer("rpt", [told], steps=9, log_every=9)
    made.watch.every = TOGETHER
    made.method.streams.model.full.weight.register_hook(lambda gradient: gradient * math.nan)
    with pytest.raises(TrainingError, match=r"gradients is nan at step 1 of 9"):
        made.run()
    assert all(bool(torch.isfinite(parameter).all()) for parameter in made.method.parameters())


def test_a_step_that_fails_because_of_what_nobody_has_seen_is_a_divergence() -> None:
    told = Told()
    made = tiny_trainer("rpt", [told], steps=20, log_every=20)
    made.watch.every = TOGETHER
    real = made.method.losses

    def losses(batch: Batch, progress: float) -> Losses:
        if made.step == 4 and not told.back:
            raise ValueError("a matrix with NaN")
        found = real(batch, progress)
        return Losses(found.total * math.nan, found.parts) if made.step == 2 and not told.back else found

    made.method.losses = losses  # type: ignore[method-assign]
    made.run()
    assert told.back == [(3, 0, False)]
    assert made.step == 20


class Waits(TorchDispatchMode):
    """Counts the calls that make a program wait for an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += _waits(func, args)
        return func(*args, **(kwargs or {}))


def _waits(func: Any, args: Any) -> bool:
    name = func.overloadpacket._qualified_op_name
    if name == "aten::index":  # with a mask, the size of the result has to be known
        return any(index is not None and index.dtype == torch.bool for index in args[1])
    return name in {
        "aten::_local_scalar_dense",
        "aten::nonzero",
        "aten::masked_select",
        "aten::_unique2",
        "aten::equal",
        "aten::bincount",
        "aten::repeat_interleave",
        "aten::linalg_lstsq",
        "aten::_linalg_svd",
        "aten::_linalg_eigh",
    }


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Further ways to read a tensor, which dispatch does not see."""
    found: list[str] = []
    for name in ("tolist", "numpy", "cpu"):
        real = getattr(Tensor, name)

        def reading(self: Tensor, *arguments: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
            found.append(_name)
            return _real(self, *arguments, **named)

        monkeypatch.setattr(Tensor, name, reading)
    return found


@pytest.mark.parametrize("recipe", ["paper", "plus", "default"])
@pytest.mark.parametrize("method", ["rpt", "dann_flip", "cdan"])
def test_a_normal_step_waits_for_nothing(method: str, recipe: str, read: list[str]) -> None:
    images, labels = torch.rand(64, 1, 28, 28), torch.arange(64) % 10
    pair = DomainPair(Labelled(TensorImages(images), labels), TensorImages(images + 0.1))
    settings: dict[str, Any] = {"method": method, "recipe": recipe, "rank": {"every": 12}}
    if recipe == "default" and method != "rpt":
        settings["discrepancy"] = {"kind": {"dann_flip": "flip"}.get(method, method)}
    settings["prior"] = {"warmup": 0.0} if recipe == "plus" else {}
    settings["train"] = {"steps": 24, "batch_size": 8, "log_every": 12, "clip": 1.0}
    config = Config.parse({name: value for name, value in settings.items() if value}, where="test")
    trainer = Trainer(build_method(method, LeNet(), config.method_config, example=images[:2]), pair, config.train)
    trainer.watch.every = TOGETHER
    batches = [trainer.batches.batch(step, view=True) for step in range(24)]  # reading data is no part of it
    trainer.prefetcher.take = lambda step: batches[step]  # type: ignore[method-assign]
    waits = []
    while trainer.step < 24:
        read.clear()
        with Waits() as counted:
            trainer._one_step()
        waits.append(counted.count + len(read))
    # Step 0 copies the state for recovery; every tenth step reads, the twelfth logs and selects ranks.
    normal = [count for step, count in enumerate(waits, 1) if step > 2 and step % TOGETHER and step % 12]
    assert normal == [0] * len(normal)
    assert waits[TOGETHER - 1] > 0, "otherwise nothing is counted"
