"""Methods that differ in what the target stream has for itself; their losses are those of RPT.

Each is a row of :data:`TARGET_PARTS`. They are what practitioners compare RPT with where one network serves many
domains (``freeze = "base"``), and are saved and loaded as adapters like it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.own import with_own_names
from residapt.methods.registry import add_method
from residapt.methods.rpt import FixedRPT
from residapt.streams import TwoStream


@dataclass(frozen=True)
class TargetPart:
    """A method that is what the target stream has for itself."""

    name: str
    own: tuple[str, ...]
    summary: str


TARGET_PARTS = (
    TargetPart("norm_statistics", (), "Batch-norm statistics of the target's own, and nothing else. Li et al. 2018."),
    TargetPart("norm_affine", ("norm",), "Scale and shift of normalisation layers, with their statistics."),
    TargetPart("bias_only", ("bias",), "Biases of the target's own. Ben Zaken et al. 2022."),
    TargetPart("last_layer", ("head",), "A classifier of the target's own."),
    TargetPart("separate", ("*",), "A whole network of the target's own, with the losses of RPT."),
)
"""All of them."""


class PartRPT(FixedRPT):
    """The losses of RPT on parameters of the target's own."""

    def __init__(self, name: str, *parts: object) -> None:
        super().__init__(*parts, select_ranks=False)  # type: ignore[arg-type]
        self.name = name


def build_part(row: TargetPart, model: nn.Module, config: MethodConfig, example: Tensor) -> PartRPT:
    """The method of a row around a network."""
    own = config.transform.model_copy(update={"include": (), "own": row.own})
    streams = TwoStream(model, with_own_names(own, model, example), example=example)
    return PartRPT(row.name, streams, build_discrepancy(config.discrepancy, "flip", streams, example), config)


for _row in TARGET_PARTS:
    add_method(_row.name, partial(build_part, _row), _row.summary)
