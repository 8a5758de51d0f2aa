"""The probe for paired passes: what it catches, what it leaves behind, and that a resumed run does not repeat it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.methods import MethodConfig, build_method
from residapt.storage.checkpoint import folder_of, read_folder
from residapt.streams import TwoStream
from residapt.streams.fast.pair import Pair, cannot_pair
from residapt.train import TrainConfig, Trainer
from residapt.train.checkpoint import restore_checkpoint, save_checkpoint

RANKS = {"left_rank": 3, "right_rank": 2}


class Net(nn.Module):
    """Batch norm and dropout before something that a subclass does with the features."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 40), nn.BatchNorm1d(40), nn.Dropout(0.5))
        self.head = nn.Linear(40, 3)
        self.calls = 0

    def odd(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(self.odd(self.body(x)))


class ToList(Net):
    def odd(self, x: Tensor) -> Tensor:
        return x * (1.0 + len(x.detach().tolist()))


class Raises(Net):
    """Raises on pairs only, as foreign code does."""

    kind: Callable[[], BaseException]

    def odd(self, x: Tensor) -> Tensor:
        if isinstance(x, Pair):
            raise type(self).kind()
        return x


def raising(make: Callable[[], BaseException]) -> Raises:
    torch.manual_seed(0)
    return type("Raising", (Raises,), {"kind": staticmethod(make)})().double()


def batches() -> tuple[Tensor, Tensor]:
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return x, x.flip(0) - 1.0


FOREIGN = [
    TypeError("unexpected type"),
    ValueError("bad value"),
    AttributeError("no such attribute"),
    KeyError("Pair"),
    AssertionError("not a tensor"),
    RuntimeError("shape '[5, 3]' is invalid"),
    NotImplementedError("no kernel"),
]
REAL = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    MemoryError(),
    ZeroDivisionError("the network's own"),
    OSError(5, "Input/output error"),
    KeyboardInterrupt(),
    SystemExit(3),
]


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
def test_errors_of_code_that_does_not_know_pairs_lead_to_two_calls(error: Exception) -> None:
    streams = TwoStream(raising(lambda: error), **RANKS)
    streams.both(*batches())
    assert streams.paired is False


@pytest.mark.parametrize("error", REAL, ids=lambda error: type(error).__name__)
def test_every_other_error_of_the_first_pass_is_raised(error: BaseException) -> None:
    model = raising(lambda: error)
    with pytest.raises(type(error)) as caught:
        TwoStream(model, **RANKS).both(*batches())
    assert caught.value is error
    assert model.calls == 1, "there is no second attempt"
    assert not (isinstance(error, Exception) and cannot_pair(error))


@pytest.mark.parametrize("error", [*FOREIGN, *REAL], ids=lambda error: type(error).__name__)
def test_an_error_of_a_later_step_is_raised(error: BaseException) -> None:
    """Once pairs have gone through, the same code meets them again: what it raises now has another cause."""
    failing: list[BaseException] = []

    class Later(Net):
        def odd(self, x: Tensor) -> Tensor:
            if failing:
                raise failing[0]
            return x

    streams = TwoStream(Later().double(), **RANKS)
    streams.both(*batches())
    assert streams.paired is True
    failing.append(error)
    with pytest.raises(type(error)):
        streams.both(*batches())
    assert streams.paired is True


@pytest.mark.parametrize("kind", [ToList, Raises])
def test_after_a_failed_probe_everything_is_as_in_a_run_of_two_calls(kind: type[Net]) -> None:
    """Bit for bit: outputs, gradients, buffers, attributes and the random state."""
    torch.manual_seed(0)
    model = raising(lambda: TypeError("no pairs")) if kind is Raises else kind().double()
    probed, plain = TwoStream(copy.deepcopy(model), **RANKS), TwoStream(copy.deepcopy(model), **RANKS)
    plain.paired = False
    found = []
    for streams in (probed, plain):
        torch.manual_seed(7)
        residuals = streams.residuals()
        source, target = streams.both(*batches(), residuals=residuals)
        energy = streams.energy(residuals)
        assert energy is not None
        (source.logits.square().sum() + target.logits.sin().sum() + energy).backward()
        gradients = [p.grad for p in streams.parameters() if p.grad is not None]
        found.append(
            [source.logits, target.logits, *gradients, *streams.buffers(), torch.get_rng_state(), torch.rand(3)]
        )
        assert streams.model.calls == 2
    assert probed.paired is False
    assert len(found[0]) == len(found[1])
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*found, strict=True))


def test_a_failed_probe_is_told_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    streams = TwoStream(raising(lambda: TypeError("no pairs here")), **RANKS)
    with caplog.at_level(logging.WARNING, logger="residapt"):
        for _ in range(3):
            streams.both(*batches())
    (record,) = caplog.records
    assert "Raising" in record.getMessage()
    assert "no pairs here" in record.getMessage()


def test_a_branch_that_parts_the_streams_later_leads_to_two_calls_from_then_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Branches(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x * 2 if bool((x > 50).any()) else x)

    torch.manual_seed(0)
    streams = TwoStream(Branches(nn.Linear(6, 3)).double(), **RANKS)
    source, target = batches()
    streams.both(source, target)
    assert streams.paired is True
    far = target + 100.0
    for _ in range(2):
        first, second = streams.both(source, far)
        assert streams.paired is False
        torch.testing.assert_close(first.logits, streams.outputs(source, stream="source").logits)
        torch.testing.assert_close(second.logits, streams.outputs(far, stream="target").logits)
    assert len(caplog.records) == 1


def test_steps_after_the_first_copy_no_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = TwoStream(Net().double(), **RANKS)
    streams.both(*batches())
    monkeypatch.setattr("residapt.streams.two_stream.Before", None)
    streams.both(*batches())
    assert streams.paired is True


@pytest.mark.parametrize(("kind", "expected"), [(Net, True), (ToList, False)])
def test_a_resumed_run_keeps_the_choice_and_ends_in_the_same_weights(
    kind: type[Net], expected: bool, pairs: Callable[..., Any], tmp_path: Path
) -> None:
    def trainer() -> Trainer:
        torch.manual_seed(0)
        method = build_method("rpt", kind().double(), MethodConfig(), example=batches()[0]).double()
        return Trainer(method, pairs((6,)), TrainConfig(steps=6, batch_size=4))

    whole = trainer()
    whole.run()
    stopped = trainer()
    for _ in range(3):
        stopped._one_step()
    save_checkpoint(stopped, tmp_path)
    assert read_folder(folder_of(tmp_path, 3))[0].paired is expected
    resumed = trainer()
    assert resumed.method.streams.paired is None
    restore_checkpoint(resumed, tmp_path)
    assert resumed.method.streams.paired is expected
    resumed.run()
    theirs = whole.method.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in resumed.method.state_dict().items())
