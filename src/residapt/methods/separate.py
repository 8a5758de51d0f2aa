"""Two streams with weights of their own: some or all layers of the network exist once for each domain.

ADDA separates all of them, the two-stream network a chosen set. The target's weights are parameters beside
the network, and its stream is the same network called with them, so that prediction, merging and batch norm
work as they do for RPT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from residapt.streams import Outputs, TwoStream
from residapt.streams.own import TargetParameters
from residapt.streams.two_stream import Residuals
from residapt.transform import TransformConfig
from residapt.transform.names import is_inside, matching


def parameter_owners(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Every layer that holds parameters, with their names; a tied parameter belongs to its first owner."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    owners: dict[str, tuple[str, ...]] = {}
    for path, module in model.named_modules():
        own = [names.pop(id(p)) for p in module.parameters(recurse=False) if id(p) in names]
        if own:
            owners[path or "model"] = tuple(own)
    return owners


class SeparateStreams(TwoStream):
    """A two-stream model whose ``layers`` (name patterns) have target weights of their own, no transforms."""

    def __init__(self, model: nn.Module, config: TransformConfig, layers: Sequence[str] = ("*",)) -> None:
        super().__init__(model, config.model_copy(update={"include": ()}))
        owners = parameter_owners(model)
        chosen = matching(layers, list(owners), setting="two_stream.layers")
        self.separate_layers = {
            layer: names for layer, names in owners.items() if layer in chosen and not is_inside(layer, self.frozen)
        }
        self.target_parameters = TargetParameters(
            model, (name for names in self.separate_layers.values() for name in names)
        )

    def target_parameter(self, name: str) -> nn.Parameter:
        """The target's parameter beside the network's of that name."""
        return self.target_parameters.named()[name]

    def target_state(self, residuals: Residuals | None = None) -> dict[str, Tensor]:
        """Target tensors under the model's own parameter and buffer names."""
        return {**self.target_parameters.named(), **self.statistics.named()}

    def both(
        self,
        source: Tensor,
        target: Tensor,
        *,
        residuals: Residuals | None = None,
        inner: tuple[str, ...] = (),
    ) -> tuple[Outputs, Outputs]:
        """Each domain through its stream; in one pass where nothing is separate."""
        if not self.separate_layers:
            return super().both(source, target, residuals=residuals, inner=inner)
        return self.outputs(source, stream="source", inner=inner), self.outputs(target, stream="target", inner=inner)

    def _call_target(
        self,
        stack: ExitStack,
        x: Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        residuals: Residuals | None,
        statistics: Mapping[str, Tensor] | None = None,
    ) -> Any:
        running = self.statistics.named() if statistics is None else statistics
        return functional_call(self.model, {**self.target_parameters.named(), **running}, (x, *args), kwargs)
