"""The two-stream model (paper Fig. 1): one network, and a transform per layer that gives it a second life.

The source stream is the network itself. The target stream is the same network called with transformed weights, so
nothing has to be split into "feature extractor" and "classifier", and any ``nn.Module`` that returns logits will do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from residapt.errors import ConfigError, ModelError
from residapt.streams.linear import called_modules, target_linears
from residapt.streams.norm import TargetStatistics, couples_samples, freeze_statistics
from residapt.transform import (
    LayerMatrix,
    Residual,
    ResidualTransform,
    Start,
    TransformConfig,
    VectorResidual,
    build_transform,
    initialise,
    select_layers,
)

Stream = Literal["source", "target"]
Residuals = Mapping[str, Residual | VectorResidual]


@dataclass(frozen=True)
class Outputs:
    """What one pass gives: logits, what the domain classifier reads, and inner layers that were asked for."""

    logits: Tensor
    features: Tensor
    inner: dict[str, Tensor] = field(default_factory=dict)

    def split(self, size: int) -> tuple[Outputs, Outputs]:
        """The first ``size`` samples and the others."""
        pairs = {name: (value[:size], value[size:]) for name, value in self.inner.items()}
        return (
            Outputs(self.logits[:size], self.features[:size], {name: pair[0] for name, pair in pairs.items()}),
            Outputs(self.logits[size:], self.features[size:], {name: pair[1] for name, pair in pairs.items()}),
        )


class TwoStream(nn.Module):
    """Any network with a source and a target stream; ``two(x, stream="target")`` gives the target's logits.

    Settings are those of :class:`TransformConfig`, as keywords or as one ``config``.
    """

    def __init__(self, model: nn.Module, config: TransformConfig | None = None, **settings: Any) -> None:
        super().__init__()
        if config is not None and settings:
            raise ConfigError(f"TwoStream: give either config or settings, got both (settings {sorted(settings)}).")
        self.config = config or TransformConfig.parse(settings, where="TwoStream")
        self.model = model
        self.layers = {layer.name: layer for layer in self._select(model)}
        parameters = dict(model.named_parameters())
        self.transforms = nn.ModuleDict(
            {_key(name): build_transform(layer, parameters[layer.weight], self.config) for name, layer in self.layers.items()}
        )
        self.statistics = TargetStatistics(model, self.config.norm)
        self._factored = _plain_linears(model, self.layers.values())
        self._factored_seen = False
        if self.config.norm == "frozen":
            freeze_statistics(model)
        self.reset_transforms()

    def _select(self, model: nn.Module) -> list[LayerMatrix]:
        if not self.config.include:
            return []
        return select_layers(model, self.config)

    def reset_transforms(self, seed: int | None = None) -> None:
        """Start all transforms anew from the present source weights."""
        generator = torch.Generator().manual_seed(self.config.seed if seed is None else seed)
        starts = [Start(self.transform(name), *self.source_tensors(name)) for name in self.layers]
        initialise(starts, column_norm=self.config.column_norm, energy=self.config.energy, generator=generator)

    def transform(self, name: str) -> ResidualTransform:
        """The transform of a layer."""
        return self.transforms[_key(name)]  # type: ignore[return-value]

    def source_tensors(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Weight matrix and bias of a layer in the source stream."""
        layer = self.layers[name]
        weight = layer.weight_matrix(self.model.get_parameter(layer.weight))
        bias = None if layer.bias is None else layer.bias_vector(self.model.get_parameter(layer.bias))
        return weight, bias

    def residuals(self) -> dict[str, Residual | VectorResidual]:
        """The residual of every transformed layer; compute it once a step and pass it to the calls below."""
        return {
            name: self.transform(name).residual(*self.source_tensors(name))
            for name in self.layers
            if self.transform(name).alive
        }

    def energy(self, residuals: Residuals | None = None) -> Tensor | None:
        r""":math:`L_\omega` of Eq. 8; None when every layer is shared, for then the barrier has nothing to hold."""
        residuals = self.residuals() if residuals is None else residuals
        if not residuals:
            return None
        return torch.stack([residual.energy() for residual in residuals.values()]).sum()

    def ranks(self) -> dict[str, tuple[int, int]]:
        """(l, r) of each transformed layer."""
        return {name: self.transform(name).ranks for name in self.layers}

    def target_state(self, residuals: Residuals | None = None) -> dict[str, Tensor]:
        """Dense target tensors under the model's own parameter and buffer names."""
        residuals = self.residuals() if residuals is None else residuals
        return {**self._dense_weights(residuals), **self.statistics.named()}

    def _dense_weights(self, residuals: Residuals) -> dict[str, Tensor]:
        pieces: dict[str, dict[int, Tensor]] = {}
        for name, residual in residuals.items():
            layer = self.layers[name]
            weight, bias = self.source_tensors(name)
            stored = self.model.get_parameter(layer.weight)
            start = layer.rows[0] if layer.rows else 0
            pieces.setdefault(layer.weight, {})[start] = layer.weight_from(residual.add_to_weight(weight), stored)
            if layer.bias is not None and bias is not None:
                pieces.setdefault(layer.bias, {})[start] = residual.add_to_bias(bias)
        return {name: _assemble(self.model.get_parameter(name), parts) for name, parts in pieces.items()}

    def forward(self, x: Tensor, *args: Any, stream: Stream = "source", **kwargs: Any) -> Tensor:
        """Logits of one stream."""
        return self.outputs(x, *args, stream=stream, **kwargs).logits

    def outputs(
        self,
        x: Tensor,
        *args: Any,
        stream: Stream = "source",
        residuals: Residuals | None = None,
        inner: tuple[str, ...] = (),
        **kwargs: Any,
    ) -> Outputs:
        """Logits and features of one stream; ``inner`` names modules, ``name:input`` what a module is given."""
        if stream not in ("source", "target"):
            raise ConfigError(f"stream must be 'source' or 'target', got {stream!r}.")
        wanted = (*inner, *([self.config.features] if self.config.features else []))
        with ExitStack() as stack:
            caught = stack.enter_context(_catch_outputs(self.model, wanted))
            if stream == "source":
                result = self.model(x, *args, **kwargs)
            else:
                result = self._call_target(stack, x, args, kwargs, residuals)
        logits = _logits_of(result, self.model)
        features = caught[self.config.features].flatten(1) if self.config.features else logits
        return Outputs(logits, features, {name: caught[name] for name in inner})

    def both(
        self, source: Tensor, target: Tensor, *, residuals: Residuals | None = None, inner: tuple[str, ...] = ()
    ) -> tuple[Outputs, Outputs]:
        """Each domain through its stream; in one pass where weights and statistics are the same for both."""
        residuals = self.residuals() if residuals is None else residuals
        if residuals or couples_samples(self.model, self.config.norm):
            first = self.outputs(source, stream="source", inner=inner)
            return first, self.outputs(target, stream="target", residuals=residuals, inner=inner)
        joint = self.outputs(torch.cat([source, target]), stream="source", inner=inner)
        return joint.split(len(source))

    def _call_target(
        self, stack: ExitStack, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], residuals: Residuals | None
    ) -> Any:
        residuals = self.residuals() if residuals is None else residuals
        linear: dict[str, Residual] = {}
        if self.training and torch.is_grad_enabled() and not self._factored_seen:
            # The first pass is dense and shows which layers are really called; see `called_modules`.
            with called_modules(self._factored) as called:
                result = functional_call(self.model, self.target_state(residuals), (x, *args), kwargs)
            self._factored = {name: module for name, module in self._factored.items() if name in called}
            self._factored_seen = True
            return result
        if self.training and torch.is_grad_enabled():
            # Fused inference kernels read weights without calling the module, so evaluation is always dense.
            linear = {n: r for n, r in residuals.items() if n in self._factored and isinstance(r, Residual)}
            stack.enter_context(target_linears({self._factored[n]: r for n, r in linear.items()}))
        dense = {n: r for n, r in residuals.items() if n not in linear}
        state = {**self._dense_weights(dense), **self.statistics.named()}
        return functional_call(self.model, state, (x, *args), kwargs) if state else self.model(x, *args, **kwargs)

    def merge_and_unload(self, example: Tensor | None = None) -> nn.Module:
        """The target stream as a plain module, compared with the live one on ``example`` if that is given."""
        from residapt.streams.merge import merge_and_unload  # late: merging is built on this class

        return merge_and_unload(self, example)

    def train(self, mode: bool = True) -> TwoStream:
        """As ``nn.Module.train``, with frozen batch norm kept frozen."""
        super().train(mode)
        if self.config.norm == "frozen":
            freeze_statistics(self.model)
        return self


def _key(name: str) -> str:
    # A ModuleDict refuses the names of its own methods, such as "keys" and "values".
    return f"{name}/" if hasattr(nn.ModuleDict, name) else name.replace(".", "/")


def _assemble(stored: Tensor, parts: dict[int, Tensor]) -> Tensor:
    """Put the rows of packed layers back together; rows without a transform stay the source's."""
    if len(parts) == 1 and next(iter(parts.values())).shape == stored.shape:
        return next(iter(parts.values()))
    rows, position = [], 0
    for start, part in sorted(parts.items()):
        rows += [stored[position:start], part]
        position = start + part.shape[0]
    return torch.cat([*rows, stored[position:]])


def _plain_linears(model: nn.Module, layers: Any) -> dict[str, nn.Linear]:
    """Layers whose module is a plain Linear that is called as a module and does not share its weight."""
    uses: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    modules = dict(model.named_modules())
    # A layer that stands under two names is called twice; both calls go through the same module, so it may stay.
    found = {}
    for layer in layers:
        module = modules.get("" if layer.name == "model" and "model" not in modules else layer.name)
        if type(module) is nn.Linear and layer.kind == "linear" and uses[id(module.weight)] == 1:
            # A bias that is tied elsewhere, or transformed on its own, needs the dense path as well.
            joint = module.bias is None or (layer.bias is not None and uses[id(module.bias)] == 1)
            if joint:
                found[layer.name] = module
    return found


@contextmanager
def _catch_outputs(model: nn.Module, names: tuple[str, ...]) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of named modules during one pass; ``name:input`` asks for what the module is given."""
    caught: dict[str, Tensor] = {}
    handles = []
    for name in dict.fromkeys(names):

        def hook(_module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
            value = inputs if name.endswith(":input") else output
            caught[name] = value[0] if isinstance(value, tuple) else value

        handles.append(_submodule(model, name.removesuffix(":input")).register_forward_hook(hook))
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()
    for name in names:
        if not isinstance(caught.get(name), Tensor):
            got = f"gave {type(caught[name]).__name__}, not a tensor" if name in caught else "was not called"
            raise ModelError(f"'{name}' of {type(model).__name__} {got}, so it cannot be read; name another layer.")


def _submodule(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        modules = [child for child, _ in model.named_modules() if child]
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.3) or modules[:3]
        raise ModelError(
            f"'{name}' is not a module of {type(model).__name__}. Did you mean {', '.join(near)}?"
        ) from None


def _logits_of(result: Any, model: nn.Module) -> Tensor:
    logits = getattr(result, "logits", result)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        got = f"a tensor of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(result).__name__
        raise ModelError(
            f"{type(model).__name__} returned {got}; residapt needs logits of shape (batch, classes), "
            "or an object with such a .logits."
        )
    return logits
