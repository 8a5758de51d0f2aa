"""The optimisers compute what torch's compute, and training imports neither torch's compiler nor scikit-learn."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from residapt.train import eager

KINDS = [
    (eager.Adam, torch.optim.Adam, {"lr": 1e-2, "betas": (0.5, 0.999), "fused": True}),
    (eager.AdamW, torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "fused": True}),
    (eager.SGD, torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9}),
    (eager.Adadelta, torch.optim.Adadelta, {"lr": 1.0}),
]


def trained(kind: Any, settings: dict[str, Any], *, reloaded: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    network, images = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), torch.randn(16, 4)
    optimizer = kind(network.parameters(), **settings)
    for step in range(6):
        if reloaded and step == 3:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = kind(network.parameters(), **settings)
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        network(images).square().mean().backward()
        optimizer.step()
    return list(network.parameters())


@pytest.mark.parametrize(("kind", "original", "settings"), KINDS)
@pytest.mark.parametrize("reloaded", [False, True])
def test_steps_are_those_of_torch(kind: Any, original: Any, settings: dict[str, Any], reloaded: bool) -> None:
    expected = trained(original, settings)
    assert all(torch.equal(a, b) for a, b in zip(trained(kind, settings, reloaded=reloaded), expected, strict=True))


@pytest.mark.parametrize(("kind", "original", "settings"), KINDS)
def test_they_are_torchs_optimisers_for_everyone_else(kind: Any, original: Any, settings: dict[str, Any]) -> None:
    made = kind([nn.Parameter(torch.zeros(2))], **settings)
    assert isinstance(made, original)
    assert pickle.loads(pickle.dumps(made)).state_dict() == made.state_dict()
    heard = []
    made.register_step_post_hook(lambda *_: heard.append(1))
    made.step()
    assert heard == [1]
    assert torch.is_grad_enabled()


def test_training_does_without_what_takes_long_to_import() -> None:
    code = """
import sys, torch, residapt
class Stop(residapt.Callback):
    def on_step(self, method, step):
        found = {"torch._dynamo", "sklearn", "scipy", "pandas", "torchvision"} & set(sys.modules)
        sys.exit(f"imported: {sorted(found)}" if found - before else 0)
before = set(sys.modules)
x, y = torch.rand(40, 1, 28, 28), torch.arange(40) % 2
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 2))
residapt.adapt(network, source=(x, y), target=x, steps=9, train_source_first=False, callbacks=[Stop()], verbose=False)
sys.exit("no step")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]
