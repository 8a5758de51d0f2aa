"""A training step of DANN here and in pytorch-adapt: the same network, domain classifier, batch and optimiser.

    python -m venv other && other/bin/pip install pytorch-adapt residapt
    OMP_NUM_THREADS=1 other/bin/python benchmarks/pytorch_adapt_step.py

pytorch-adapt stays in an environment of its own, with the same torch. Steps alternate, so that whatever else the
machine does hits both; the medians and their ratio are printed. Both confuse by gradient reversal on the logits and
update network and classifier with Adam in the same step; ours runs as users have it, channels last and fused Adam.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from residapt.losses.adversarial import DomainClassifier
from residapt.methods import build_method
from residapt.models import LeNet
from residapt.train import TrainConfig
from residapt.train.optimiser import build_optimizer
from residapt_bench.speed.cases import PROGRESS, find_case

Step = Callable[[], None]


class Trunk(nn.Module):
    """LeNet without its last layer, which pytorch-adapt wants as a module of its own."""

    def __init__(self, network: LeNet) -> None:
        super().__init__()
        self.network = network
        self.last, network.full4 = network.full4, nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network(x)
        return features


def ours(rounds_case: str) -> Step:
    case = find_case(rounds_case)
    method, batch = build_method("dann", case.network(), example=case.batch().source), case.batch()
    method = method.to(memory_format=torch.channels_last).train()
    optimizer = build_optimizer(method.groups(), TrainConfig())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        method.losses(batch, PROGRESS).total.backward()
        optimizer.step()

    return step


def theirs(rounds_case: str) -> Step:
    from pytorch_adapt.hooks import DANNHook

    case = find_case(rounds_case)
    network = LeNet()
    network.load_state_dict(case.network().state_dict())
    trunk = Trunk(network)
    models = {"G": trunk, "C": trunk.last, "D": DomainClassifier(case.classes)}
    # The trunk holds the last layer for reference only; its parameters belong to C.
    groups = [list(network.parameters()), list(trunk.last.parameters()), list(models["D"].parameters())]
    optimizers = [torch.optim.Adam(group, lr=2e-4, betas=(0.5, 0.999)) for group in groups]
    hook = DANNHook(optimizers, use_logits=True, gradient_reversal_weight=1.0)
    batch = case.batch()
    data = {
        "src_imgs": batch.source.contiguous(),
        "src_labels": batch.labels,
        "target_imgs": batch.target.contiguous(),
        "src_domain": torch.zeros(case.size),
        "target_domain": torch.ones(case.size),
    }

    def step() -> None:
        hook({**models, **data})

    return step


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    steps = {"residapt": ours("lenet"), "pytorch-adapt": theirs("lenet")}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 3):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if number >= 3:
                taken[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    ratio = medians["residapt"] / medians["pytorch-adapt"]
    print(json.dumps({"torch": torch.__version__, "seconds": medians, "ratio": ratio, "rounds": rounds}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
