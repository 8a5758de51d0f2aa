r"""``residapt bench speed lora``: a supervised step on a frozen ViT beside LoRA of the same rank (peft).

Both freeze the base and train low-rank changes of the same linear layers, with the same loss and optimiser: LoRA
:math:`y = Wx + B A x`, here :math:`y = \Theta x + B_1\sigma(A_1^\top\Theta A_2 + D)B_2^\top x`.
"""

from __future__ import annotations

import importlib
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

from residapt.errors import ConfigError
from residapt.models.zoo import timm_module
from residapt.settings import Settings
from residapt.streams import TwoStream
from residapt_bench.record import append_record
from residapt_bench.speed.cases import Step, vit_small
from residapt_bench.speed.memory import peak_of
from residapt_bench.speed.steps import interleave, using_threads

LAYERS = ("qkv", "proj", "fc1", "fc2")
AIM = 1.2
"""Largest acceptable ratio."""


@dataclass(frozen=True)
class LoraCase:
    """A ViT, the size of its batch and the rank."""

    size: int = 16
    """Images in a step."""
    rank: int = 32
    threads: int = os.cpu_count() or 1
    small: bool = False
    """A tiny ViT at 32x32, to try the benchmark itself."""

    def network(self) -> nn.Module:
        """A fresh network, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            if self.small:
                made: nn.Module = timm_module().create_model(
                    "vit_tiny_patch16_224", num_classes=31, img_size=32, depth=2
                )
                return made
            return vit_small()

    def batch(self) -> tuple[Tensor, Tensor]:
        """Random images with labels."""
        generator = torch.Generator().manual_seed(0)
        pixels = 32 if self.small else 224
        images = torch.randn(self.size, 3, pixels, pixels, generator=generator)
        return images, torch.randint(0, 31, (self.size,), generator=generator)


class LoraRecord(Settings):
    """Ours against LoRA."""

    version: Literal[1] = 1
    """Of the format."""
    case: dict[str, Any]
    """What was timed."""
    seconds: dict[str, float]
    """Median of each, by the wall clock."""
    ratio: float
    """Ours to LoRA, by the wall clock."""
    processor_ratio: float
    """Ours to LoRA, by the processor's clock."""
    memory: dict[str, int]
    """Peak bytes of each, without the interpreter and its libraries."""
    memory_ratio: float | None
    """Ours to LoRA."""
    trained: dict[str, int]
    """Parameters that are trained."""
    aim: float
    """Largest acceptable ratio."""
    rounds: int
    """Interleaved rounds."""
    peft: str
    """Version of peft."""
    torch: str = str(torch.__version__)
    """Version of PyTorch."""
    processor: str = platform.machine()
    """Kind of processor."""


def rpt_parts(case: LoraCase) -> tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]:
    """Trained parameters and forward pass of the target stream on a frozen source."""
    network = case.network().requires_grad_(False)
    names = tuple(f"blocks.*.{layer}" for layer in LAYERS)
    streams = TwoStream(network, include=names, left_rank=case.rank, right_rank=case.rank, bias="shared").train()
    return list(streams.transforms.parameters()), partial(streams, stream="target")


def lora_parts(case: LoraCase) -> tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]:
    """Trained parameters and forward pass of peft's LoRA on the same layers."""
    peft = peft_module()
    targets = rf"blocks\..*\.({'|'.join(LAYERS)})"
    config = peft.LoraConfig(r=case.rank, lora_alpha=case.rank, lora_dropout=0.0, target_modules=targets)
    network = peft.get_peft_model(case.network(), config).train()
    return [parameter for parameter in network.parameters() if parameter.requires_grad], network


def peft_module() -> Any:
    """The module ``peft``, or an error that says how to get it."""
    try:
        return importlib.import_module("peft")
    except ImportError as error:
        raise ConfigError("peft, which is compared with, is not installed. Run: pip install peft") from error


PARTS = {"rpt": rpt_parts, "lora": lora_parts}


def supervised_step(name: str, case: LoraCase) -> Step:
    """Forward and backward pass with cross-entropy, and the optimiser's step."""
    parameters, forward = PARTS[name](case)
    optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)
    images, labels = case.batch()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(forward(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def measure_lora(case: LoraCase, *, rounds: int, memory: bool = True) -> LoraRecord:
    """Time in turns, memory in a process each."""
    version = str(peft_module().__version__)
    with using_threads(case.threads):
        steps = {name: supervised_step(name, case) for name in PARTS}
        timings = interleave({name: partial(lambda step: step, step) for name, step in steps.items()}, rounds, warmup=2)
    wall = {name: statistics.median(timing.wall) for name, timing in timings.items()}
    processor = {name: statistics.median(timing.processor) for name, timing in timings.items()}
    peaks = {name: peak_of(partial(supervised_step, name, case), case.threads) for name in PARTS} if memory else {}
    return LoraRecord(
        case=asdict(case),
        seconds=wall,
        ratio=wall["rpt"] / wall["lora"],
        processor_ratio=processor["rpt"] / processor["lora"],
        memory=peaks,
        memory_ratio=peaks["rpt"] / peaks["lora"] if peaks else None,
        trained={name: sum(p.numel() for p in build(case)[0]) for name, build in PARTS.items()},
        aim=AIM,
        rounds=rounds,
        peft=version,
    )


def run_lora(case: LoraCase, rounds: int, out: Path | None) -> LoraRecord:
    """Measure, and append the record to ``out``."""
    record = measure_lora(case, rounds=rounds)
    if out is not None:
        append_record(out, record)
    return record


def lora_table(record: LoraRecord) -> Table:
    """The ratios beside the aim."""
    table = Table("what", "rpt", "lora", "ratio", "aim", title="A supervised step with a frozen base")
    rpt, lora = record.seconds["rpt"], record.seconds["lora"]
    table.add_row("ms", f"{1e3 * rpt:.1f}", f"{1e3 * lora:.1f}", f"{record.ratio:.3f}", f"{record.aim:.2f}")
    table.add_row("ratio by the processor's clock", "", "", f"{record.processor_ratio:.3f}", "")
    if record.memory_ratio is not None:
        one, other = (record.memory[name] / 2**20 for name in ("rpt", "lora"))
        table.add_row("peak MB", f"{one:.0f}", f"{other:.0f}", f"{record.memory_ratio:.3f}", f"{record.aim:.2f}")
    table.add_row("trained parameters", *(f"{record.trained[name]:,}" for name in ("rpt", "lora")), "", "")
    return table
