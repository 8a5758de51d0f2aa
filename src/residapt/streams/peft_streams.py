"""Low-rank additions of peft (LoRA, DoRA) as the target stream of a fixed network."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from residapt.errors import ConfigError, ModelError
from residapt.settings import Settings
from residapt.streams.outputs import Outputs
from residapt.streams.two_stream import Residuals, TwoStream
from residapt.transform import TransformConfig, select_layers

KINDS = (nn.Linear, nn.Conv2d)
"""Layers that peft's additions are made for."""


class LowRankConfig(Settings):
    """What peft adds, and to which layers."""

    kind: Literal["lora", "dora"]
    """Low-rank additions, or those with a magnitude of their own."""
    rank: int
    """Their rank; their scale is 1."""
    layers: tuple[str, ...]
    """Names of the layers."""


def low_rank_config(kind: Literal["lora", "dora"], model: nn.Module, config: TransformConfig) -> LowRankConfig:
    """The layers that transforms would have, as far as peft knows their kind, with the rank of ``left_rank``."""
    modules = dict(model.named_modules())
    names = [layer.weight.rpartition(".")[0] for layer in select_layers(model, config)]
    known = [name for name in dict.fromkeys(names) if type(modules[name]) in KINDS and name]
    layers = tuple(name for name in known if getattr(modules[name], "groups", 1) == 1)
    if not layers:
        raise ModelError(f"{type(model).__name__} has no named Linear or Conv2d layer for method '{kind}'.")
    return LowRankConfig(kind=kind, rank=config.left_rank, layers=layers if config.left_rank > 0 else ())


class PeftStreams(TwoStream):
    """A fixed network, and the same network with peft's additions; both share its parameters."""

    def __init__(self, model: nn.Module, config: TransformConfig, low_rank: LowRankConfig) -> None:
        super().__init__(model, config.model_copy(update={"include": (), "own": ()}))
        self.low_rank = low_rank
        self.reads_any_format = low_rank.kind != "dora"  # peft's norm of a convolution's weight takes a view of it
        shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed % 2**63)
            self.body = self._inject(copy.deepcopy(model, shared))
        self.fix_base()

    def _inject(self, body: nn.Module) -> nn.Module:
        if not self.low_rank.layers:
            return body
        try:
            peft = importlib.import_module("peft")
        except ImportError as error:
            raise ConfigError(f"method '{self.low_rank.kind}' needs peft. Run: pip install 'residapt[peft]'") from error
        wanted = peft.LoraConfig(
            r=self.low_rank.rank,
            lora_alpha=self.low_rank.rank,
            lora_dropout=0.0,
            target_modules=list(self.low_rank.layers),
            use_dora=self.low_rank.kind == "dora",
        )
        like = next(body.parameters())
        made: nn.Module = peft.inject_adapter_in_model(wanted, body)
        return made.to(like.dtype)

    def target_only_parameters(self) -> list[nn.Parameter]:
        """Peft's additions."""
        return list(self.additions().values())

    def additions(self) -> dict[str, nn.Parameter]:
        """Peft's additions by name."""
        known = {id(parameter) for parameter in self.model.parameters()}
        return {name: p for name, p in self.body.named_parameters() if id(p) not in known}

    def both(
        self, source: Tensor, target: Tensor, *, residuals: Residuals | None = None, inner: tuple[str, ...] = ()
    ) -> tuple[Outputs, Outputs]:
        """Each domain through its stream."""
        return self.outputs(source, stream="source", inner=inner), self.outputs(target, stream="target", inner=inner)

    def stream_network(self, stream: str) -> nn.Module:
        """The module that is called for a stream."""
        return self.body if stream == "target" else self.model

    def target_state(self, residuals: Residuals | None = None) -> dict[str, Tensor]:
        """The merged weights under the model's own names, and statistics."""
        found: dict[str, Tensor] = {}
        for name in self.low_rank.layers:
            layer: Any = copy.deepcopy(self.body.get_submodule(name))
            layer.merge()
            found[f"{name}.weight" if name else "weight"] = layer.get_base_layer().weight
        return {**found, **self.statistics.named()}

    def _call_target(
        self,
        stack: ExitStack,
        x: Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        residuals: Residuals | None,
        statistics: Mapping[str, Tensor] | None = None,
    ) -> Any:
        running = self.statistics.named() if statistics is None else dict(statistics)
        return functional_call(self.body, running, (x, *args), kwargs) if running else self.body(x, *args, **kwargs)
