"""LoRA and DoRA, through peft, with the losses of RPT: what most people would try first on a network that is fixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.registry import add_method
from residapt.methods.target_parts import PartRPT
from residapt.streams.peft_streams import PeftStreams, low_rank_config


@dataclass(frozen=True)
class LowRankMethod:
    """A method that is the kind of its additions."""

    name: Literal["lora", "dora"]
    summary: str


LOW_RANK = (
    LowRankMethod("lora", "LoRA on the layers that RPT transforms, with its losses (needs peft). Hu et al. 2022."),
    LowRankMethod("dora", "DoRA on the layers that RPT transforms, with its losses (needs peft). Liu et al. 2024."),
)
"""All of them. ``transform.left_rank`` is their rank; there is no stream loss, which would need a residual at the
start."""


def build_low_rank(row: LowRankMethod, model: nn.Module, config: MethodConfig, example: Tensor) -> PartRPT:
    """The method of a row around a network."""
    streams = PeftStreams(model, config.transform, low_rank_config(row.name, model, config.transform))
    return PartRPT(row.name, streams, build_discrepancy(config.discrepancy, "flip", streams, example), config)


for _row in LOW_RANK:
    add_method(_row.name, partial(build_low_rank, _row), _row.summary)
