"""Networks that torch compiles for training."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from residapt.errors import ConfigError
from residapt.streams.fast.compiled import CompiledNetwork
from residapt.train import Trainer
from support.tiny_run import tiny_trainer


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Calls of compiled networks, which torch traces and then runs as they are: that is quick."""
    found: list[int] = []
    real, call = CompiledNetwork.__init__, CompiledNetwork.__call__

    def init(self: CompiledNetwork, network: nn.Module) -> None:
        real(self, network, backend="eager")

    def counted(self: CompiledNetwork, *args: Any, **kwargs: Any) -> Any:
        found.append(1)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(CompiledNetwork, "__init__", init)
    monkeypatch.setattr(CompiledNetwork, "__call__", counted)
    return found


def trained(method: str, **train: Any) -> tuple[Trainer, dict[str, torch.Tensor]]:
    trainer = tiny_trainer(method, steps=6, **train)
    trainer.run()
    return trainer, trainer.method.streams.model.state_dict()


@pytest.mark.parametrize("method", ["source_only", "dann_flip"])
def test_training_is_the_same(method: str, calls: list[int]) -> None:
    _, expected = trained(method)
    assert not calls
    trainer, found = trained(method, compile=True)
    assert len(calls) >= 6
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
    kept = copy.deepcopy(trainer.method)
    assert kept.streams.compiled is None
    count = len(calls)
    kept.predict(torch.zeros(2, 1, 8, 8), "target")
    trainer.method.eval()
    trainer.method.predict(torch.zeros(2, 1, 8, 8), "target")
    assert len(calls) == count


@pytest.mark.parametrize(
    ("method", "parts"),
    [("rpt", {}), ("norm_affine", {}), ("two_stream", {}), ("dann_flip", {"transform": {"features": "full"}})],
)
def test_what_cannot_be_compiled_is_refused(method: str, parts: dict[str, Any], calls: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"^compile: .* Set train\.compile to false"):
        trained(method, parts=parts, compile=True)


def broken(*_: Any) -> Any:
    raise RuntimeError("no compiler found\nand more")


def test_a_machine_without_a_compiler_says_so() -> None:
    compiled = CompiledNetwork(nn.Linear(2, 3), backend=broken)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"torch cannot compile Linear here: .*no compiler found.*compile to false"):
        compiled(torch.zeros(4, 2))


def test_a_python_that_torch_cannot_compile_for_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("torch.compile is not supported on Python 4")

    monkeypatch.setattr(torch, "compile", refuse)
    with pytest.raises(ConfigError, match=r"cannot compile Linear here: torch.compile is not supported on Python 4"):
        CompiledNetwork(nn.Linear(2, 3))
