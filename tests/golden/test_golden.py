"""Loss curves of every method, stored as files: a refactoring that changes results is seen.

``RESIDAPT_GOLDEN=write pytest tests/golden`` writes them anew. Do that only when results are meant to change (or for
a new method), and say why in the commit. Network and data are formulas, so that they are the same everywhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.methods import DiscrepancyConfig, MethodConfig, build_method, method_names
from residapt.rank import RankConfig
from residapt.train import Callback, GroupConfig, Method, StepInfo, TrainConfig, Trainer
from residapt.transform import TransformConfig

CURVES = Path(__file__).parent / "curves"
STEPS = 12


def wave(*shape: int, pace: float) -> Tensor:
    """Numbers that look random and are the same on every machine."""
    count = torch.Size(shape).numel()
    return torch.sin(pace * torch.arange(1, count + 1, dtype=torch.float64) ** 1.3).reshape(shape)


def network() -> nn.Module:
    """A convolution with batch norm and two linear layers."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(36, 5),
        nn.Tanh(),
        nn.Linear(5, 3),
    ).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(0.0).copy_(0.3 * wave(*parameter.shape, pace=1.0 + 0.37 * number) + (number == 1))
    return model


def pair() -> DomainPair:
    labels = torch.arange(18) % 3
    centres = wave(3, 2, 5, 5, pace=0.7)

    def images(count: int, pace: float, shift: float) -> TensorImages:
        noise = 0.5 * wave(count, 2, 5, 5, pace=pace)
        return TensorImages(centres[labels[:count]] + noise + shift, lambda x, _: x)

    return DomainPair(
        Labelled(images(18, 1.1, 0.0), labels), images(15, 1.3, 0.4), Labelled(images(6, 1.7, 0.4), labels[:6])
    )


class Record(Callback):
    """Losses and ranks after every step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.ranks: dict[str, list[int]] = {}

    def on_log(self, method: Method, info: StepInfo) -> None:
        self.steps.append(dict(info.values))
        self.ranks = {name: list(pair) for name, pair in info.ranks.items()}


def curve(name: str) -> dict[str, Any]:
    config = MethodConfig(
        transform=TransformConfig(left_rank=5, right_rank=4),
        discrepancy=DiscrepancyConfig(hidden=(6,)),
        rank=RankConfig(step=0.06, every=3),
    )
    rates = GroupConfig(lr=5e-3)
    train = TrainConfig(steps=STEPS, batch_size=6, log_every=1, network=rates, transform=rates, adversary=rates)
    data = pair()
    method = build_method(
        name, network(), config, example=data.target.fetch(torch.arange(2), torch.Generator())
    ).double()
    record = Record()
    Trainer(method, data, train, callbacks=[record]).run()
    return {"steps": record.steps, "ranks": record.ranks}


@pytest.mark.parametrize("name", method_names())
def test_the_curve_is_as_stored(name: str) -> None:
    found, path = curve(name), CURVES / f"{name}.json"
    if os.environ.get("RESIDAPT_GOLDEN") == "write":
        CURVES.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not path.exists():
        pytest.fail(f"there is no curve of '{name}' yet: run RESIDAPT_GOLDEN=write pytest tests/golden -k '{name}'")
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert found["ranks"] == stored["ranks"]
    assert len(found["steps"]) == len(stored["steps"]) == STEPS
    for number, (mine, theirs) in enumerate(zip(found["steps"], stored["steps"], strict=True), start=1):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9), f"step {number}"


def test_the_curves_are_worth_comparing() -> None:
    """Losses move, and rank selection does something, but not everything, within the few steps."""
    found = curve("rpt")
    totals = [step["total"] for step in found["steps"]]
    assert len(set(totals)) == STEPS
    ranks = [tuple(pair) for pair in found["ranks"].values()]
    assert any(pair != (5, 4) for pair in ranks)
    assert any(pair != (0, 0) for pair in ranks)


def test_no_curve_is_left_without_its_method() -> None:
    assert {path.stem for path in CURVES.glob("*.json")} <= set(method_names())
