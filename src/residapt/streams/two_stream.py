"""The two-stream model (paper Fig. 1): one network, and a transform per layer that gives it a second life.

The source stream is the network itself. The target stream is the same network called with transformed weights, so
nothing has to be split into "feature extractor" and "classifier", and any ``nn.Module`` that returns logits will do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from residapt.errors import ConfigError, ModelError
from residapt.streams.average import StreamAverage
from residapt.streams.fast.compiled import CompiledNetwork
from residapt.streams.fast.linear import FactoredWeight
from residapt.streams.fast.pair import Before, Pair, StreamsDiffer, cannot_pair, pair_part
from residapt.streams.fast.rebuilt import DeferredWeight, WeightRecipe
from residapt.streams.fast.recompute import (
    CheckpointWatch,
    checkpointed_blocks,
    find_blocks,
    refuse_own_checkpointing,
)
from residapt.streams.norm import TargetStatistics, batch_norms, couples_samples, freeze_statistics
from residapt.streams.outputs import Outputs, catch_outputs, logits_of
from residapt.streams.own import TargetParameters, own_names
from residapt.transform import (
    LayerMatrix,
    Residual,
    ResidualTransform,
    Start,
    TransformConfig,
    VectorResidual,
    build_transform,
    in_calling_order,
    initialise,
    select_layers,
    start_ranks,
)
from residapt.transform.modes import evaluation_mode
from residapt.transform.names import matching, module_names

Stream = Literal["source", "target"]
Residuals = Mapping[str, Residual | VectorResidual]

_log = logging.getLogger(__name__)


class TwoStream(nn.Module):
    """Any network with a source and a target stream; ``streams(x, stream="target")`` gives the target's logits.

    Args:
        model: The source network. It is not copied: its weights are the source stream.
        config: Settings of the transforms.
        example: A small batch of input; the order in which layers are called with it, not that of registration, then
            decides which of them feed ``features``.
        **settings: The same as keywords, instead of ``config``.

    Example:
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        >>> streams = TwoStream(network, left_rank=2, right_rank=2)
        >>> streams(torch.zeros(5, 4), stream="target").shape
        torch.Size([5, 3])
        >>> streams.ranks()
        {'0': (2, 2), '2': (2, 2)}
        >>> streams.print_trainable_parameters()
        trainable parameters: 175 of 175 (100.0 %), of these 108 in the transforms
    """

    reads_any_format: bool = True
    """Whether weights may lie in memory with their channels last."""

    def __init__(
        self,
        model: nn.Module,
        config: TransformConfig | None = None,
        *,
        example: Tensor | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if config is not None and settings:
            raise ConfigError(f"TwoStream: give either config or settings, got both (settings {sorted(settings)}).")
        self.config = config or TransformConfig.parse(settings, where="TwoStream")
        self.model = model
        self.frozen = matching(self.config.freeze, module_names(model), setting="freeze", what="modules")
        """Modules that stay as they are in both streams, their batch-norm statistics included."""
        own = own_names(model, self.config.own, self.frozen)
        self.target_parameters = TargetParameters(model, own)
        """What the target stream has for itself (``own``)."""
        self.layers = {layer.name: layer for layer in self._select(model, example) if layer.weight not in own}
        parameters = dict(model.named_parameters())
        self.transforms = nn.ModuleDict(
            {
                _key(name): build_transform(layer, parameters[layer.weight], self.config)
                for name, layer in self.layers.items()
            }
        )
        self.statistics = TargetStatistics(model, self.config.norm, self.frozen)
        self.paired: bool | None = None
        """Whether one call of the network serves both streams in training; None before the first, which finds out."""
        self.average: StreamAverage | None = None
        """Averaged weights, which take the place of the present ones outside of training; see :meth:`eval_model`."""
        self.checkpointing: tuple[str, ...] = ()
        """Blocks whose activations are computed again in the backward pass; see :meth:`checkpoint_blocks`."""
        self.compiled: CompiledNetwork | None = None
        """Takes the place of the network in training; see :meth:`compile_network`."""
        self.fixed = False
        """Whether the source stream is a fixed function; see :meth:`fix_base`."""
        self._watched = False
        self._freeze(parameters=True)
        self.reset_transforms()

    def _select(self, model: nn.Module, example: Tensor | None) -> list[LayerMatrix]:
        if not self.config.include:
            return []
        if example is not None:
            self.config = in_calling_order(model, self.config, example)
        return select_layers(model, self.config)

    def _freeze(self, *, parameters: bool = False) -> None:
        if self.config.norm == "frozen":
            freeze_statistics(self.model)
        for name in self.frozen:
            module = self.model.get_submodule(name)
            module.eval()
            if parameters:
                module.requires_grad_(False)

    def print_trainable_parameters(self) -> None:
        """Print how many parameters are trained, and how many of them belong to the transforms."""
        counts = [(p.numel(), p.requires_grad) for p in self.parameters()]
        trained, total = sum(n for n, trains in counts if trains), sum(n for n, _ in counts)
        own = sum(p.numel() for p in self.target_only_parameters() if p.requires_grad)
        print(  # noqa: T201
            f"trainable parameters: {trained:,} of {total:,} ({100 * trained / max(total, 1):.1f} %), "
            f"of these {own:,} in the transforms"
        )

    def target_only_parameters(self) -> list[nn.Parameter]:
        """What the target stream alone is made of: transforms, and parameters of its own."""
        return [*self.transforms.parameters(), *self.target_parameters.parameters()]

    def fix_base(self) -> None:
        """Keep the network as it is, bit for bit: no gradient, evaluation mode in the source stream."""
        if self.config.norm == "shared" and any(batch_norms(self.model)):
            raise ConfigError(
                "transform.norm = 'shared' gives the network the target's batch-norm statistics, but it is to stay as "
                "it is (freeze = 'base'). Set transform.norm to per-domain or frozen."
            )
        self.model.requires_grad_(False)
        self.fixed = True

    def checkpoint_blocks(self) -> tuple[str, ...]:
        """Keep only the inputs of the network's blocks in training: less memory, one more forward pass."""
        self.checkpointing = tuple(find_blocks(self.model))
        if not self.checkpointing:
            raise ModelError(
                f"{type(self.model).__name__} has no sequence of blocks (nn.Sequential, nn.ModuleList) that could be "
                "checkpointed. Leave train.checkpointing off."
            )
        return self.checkpointing

    def compile_network(self) -> None:
        """Compile the network for training, where both streams call it as it is."""
        if type(self) is not TwoStream or self.layers or self.target_parameters.named() or self.checkpointing:
            raise ConfigError(
                "compile: only a network that both streams call as it is can be compiled, without transforms, "
                "parameters of the target's own or checkpointing. Set train.compile to false; pretrain.compile works "
                "with all methods."
            )
        self.compiled = CompiledNetwork(self.model)

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

    def start_size(self, name: str) -> float:
        """Size of the entries of a layer's T at the start: its columns have the norm ``column_norm`` then."""
        left, _ = start_ranks(self.layers[name], self.config)
        return float(self.config.column_norm / max(left, 1) ** 0.5)

    def eval_model(self) -> TwoStream:
        """What predicts outside of training, is merged and saved: the averaged weights if there are, or these."""
        return self.average.mean if self.average is not None and self.average.begun else self

    def target_state(self, residuals: Residuals | None = None) -> dict[str, Tensor]:
        """Dense target tensors under the model's own parameter and buffer names."""
        residuals = self.residuals() if residuals is None else residuals
        return {**self._target_weights(residuals, factored=False), **self.statistics.named()}

    def transferred(self, x: Tensor, residuals: Residuals | None = None) -> Tensor:
        """Logits of source images in the target stream, which do not change its batch-norm statistics."""
        own = {name: tensor.clone() for name, tensor in self.statistics.named().items()}
        with ExitStack() as stack:
            stack.enter_context(checkpointed_blocks(self.model, self.checkpointing))
            return logits_of(self._call_target(stack, x, (), {}, residuals, own), self.model)

    def _target_weights(self, residuals: Residuals, *, factored: bool) -> dict[str, Tensor]:
        """Target weights and biases by name; ``factored`` leaves weights as factors until they are used."""
        pieces: dict[str, dict[int, Tensor]] = {}
        for name, residual in residuals.items():
            layer = self.layers[name]
            weight, bias = self.source_tensors(name)
            stored = self.model.get_parameter(layer.weight)
            start = layer.rows[0] if layer.rows else 0
            deferred = self._deferred_type(layer) if factored else None
            if deferred is not None and isinstance(residual, Residual):
                target: Tensor = deferred(WeightRecipe(layer, stored, residual))
            else:
                target = layer.weight_from(residual.add_to_weight(weight), stored)
            pieces.setdefault(layer.weight, {})[start] = target
            if layer.bias is not None and bias is not None:
                pieces.setdefault(layer.bias, {})[start] = residual.add_to_bias(bias)
        formed = {name: _assemble(self.model.get_parameter(name), parts) for name, parts in pieces.items()}
        return {**formed, **self.target_parameters.named()}

    def _deferred_type(self, layer: LayerMatrix) -> type[DeferredWeight] | None:
        # A subclass may hand its weight to code that cannot work with one that is not formed yet.
        owner = type(self.model.get_submodule(layer.weight.rpartition(".")[0]))
        if layer.rows is None and owner is nn.Linear:
            return FactoredWeight
        return DeferredWeight if owner in (nn.Conv1d, nn.Conv2d, nn.Conv3d) else None

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
        if not self.training and (rest := self.eval_model()) is not self:
            return rest.outputs(x, *args, stream=stream, inner=inner, **kwargs)
        with ExitStack() as stack:
            caught = stack.enter_context(catch_outputs(self.stream_network(stream), self._wanted(inner)))
            stack.enter_context(checkpointed_blocks(self.model, self.checkpointing))
            if stream == "source":
                if self.fixed:
                    stack.enter_context(torch.no_grad())
                    stack.enter_context(evaluation_mode(self.model))
                result = self._training_call(inner)(x, *args, **kwargs)
            else:
                result = self._call_target(stack, x, args, kwargs, residuals)
        return self._collect(logits_of(result, self.model), caught, inner)

    def stream_network(self, stream: str) -> nn.Module:
        """The module that is called for a stream: for both the network, with other weights for the target."""
        return self.model

    def _training_call(self, inner: tuple[str, ...]) -> Callable[..., Any]:
        if self.compiled is None or not self._trains:
            return self.model
        if wanted := self._wanted(inner):
            raise ConfigError(
                f"compile: the method reads the layer '{wanted[0]}', and compiled code shows no inner layers. "
                "Set train.compile to false."
            )
        return self.compiled

    def _wanted(self, inner: tuple[str, ...]) -> tuple[str, ...]:
        return (*inner, *([self.config.features] if self.config.features else []))

    def _collect(self, logits: Tensor, caught: Mapping[str, Tensor], inner: tuple[str, ...]) -> Outputs:
        features = caught[self.config.features].flatten(1) if self.config.features else logits
        return Outputs(logits, features, {name: caught[name] for name in inner})

    def both(
        self, source: Tensor, target: Tensor, *, residuals: Residuals | None = None, inner: tuple[str, ...] = ()
    ) -> tuple[Outputs, Outputs]:
        """Each domain through its stream; in one pass where weights and statistics are the same for both."""
        residuals = self.residuals() if residuals is None else residuals
        coupled = couples_samples(self.model, self.config.norm, self.frozen)
        if not residuals and not coupled and not self.fixed and not self.target_parameters.named():
            return self.outputs(torch.cat([source, target]), stream="source", inner=inner).split(len(source))
        # Shared statistics are updated by one stream after the other.
        by_pairs = residuals and not self.fixed and self._trains and self.paired is not False and not self.checkpointing
        if by_pairs and not (coupled and self.config.norm == "shared"):
            attempt = self._probe_pairs if self.paired is None else self._pairs_or_none
            outputs = attempt(source, target, residuals, inner)
            if outputs is not None:
                return outputs
        first = self.outputs(source, stream="source", inner=inner)
        return first, self.outputs(target, stream="target", residuals=residuals, inner=inner)

    def _probe_pairs(
        self, source: Tensor, target: Tensor, residuals: Residuals, inner: tuple[str, ...]
    ) -> tuple[Outputs, Outputs] | None:
        """The first paired pass; None, with everything as it was before, where the network does not allow it."""
        before = Before(self.model, self.statistics, others=residuals.values())
        try:
            outputs = self._both_at_once(source, target, residuals, inner)
            reason = "it keeps values of a forward pass" if before.pairs_remain() else None
        except Exception as error:
            if not cannot_pair(error):
                raise
            reason = str(error) or type(error).__name__
        self.paired = reason is None
        if reason is None:
            return outputs
        before.restore()
        _log.warning(
            "%s is called once for each stream, which takes longer than one call for both: %s.",
            type(self.model).__name__,
            reason.rstrip("."),
        )
        return None

    def _pairs_or_none(
        self, source: Tensor, target: Tensor, residuals: Residuals, inner: tuple[str, ...]
    ) -> tuple[Outputs, Outputs] | None:
        """A later paired pass; None where a branch that depends on values parts the streams for the first time."""
        try:
            return self._both_at_once(source, target, residuals, inner)
        except StreamsDiffer as error:
            self.paired = False
            _log.warning(
                "%s is called once for each stream from now on: %s. Running statistics of layers before that point "
                "have counted this batch twice.",
                type(self.model).__name__,
                error,
            )
            return None

    def _both_at_once(
        self, source: Tensor, target: Tensor, residuals: Residuals, inner: tuple[str, ...]
    ) -> tuple[Outputs, Outputs]:
        state = {**self._target_weights(residuals, factored=True), **self.statistics.named()}
        pairs: dict[str, Tensor] = {name: Pair(_tensor_of(self.model, name), tensor) for name, tensor in state.items()}
        with self._watch(), catch_outputs(self.model, self._wanted(inner)) as caught:
            logits = logits_of(functional_call(self.model, pairs, (Pair(source, target),)), self.model)
        first = self._collect(pair_part(logits, "source"), pair_part(caught, "source"), inner)
        return first, self._collect(pair_part(logits, "target"), pair_part(caught, "target"), inner)

    @property
    def _trains(self) -> bool:
        # Fused inference kernels read weights past Python, so evaluation is always dense.
        return self.training and torch.is_grad_enabled()

    def _call_target(
        self,
        stack: ExitStack,
        x: Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        residuals: Residuals | None,
        statistics: Mapping[str, Tensor] | None = None,
    ) -> Any:
        residuals = self.residuals() if residuals is None else residuals
        # A block that is computed again must find its weights as tensors, not compute them inside.
        factored = self._trains and not self.checkpointing
        running = self.statistics.named() if statistics is None else statistics
        state = {**self._target_weights(residuals, factored=factored), **running}
        if not state:
            return self.model(x, *args, **kwargs)
        with self._watch():
            return functional_call(self.model, state, (x, *args), kwargs)

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """In the first training pass, check whether the network recomputes layers behind the stream's back."""
        if self._watched or not self._trains or self.checkpointing:
            yield
            return
        owners = {layer.weight.rpartition(".")[0] for layer in self.layers.values()}
        with CheckpointWatch({name: self.model.get_submodule(name) for name in sorted(owners)}).watching():
            yield
        self._watched = True

    def merge_and_unload(self, example: Tensor | None = None) -> nn.Module:
        """The target stream as a plain module, compared with the live one on ``example`` if that is given."""
        from residapt.streams.merge import merge_and_unload

        return merge_and_unload(self, example)

    def train(self, mode: bool = True) -> TwoStream:
        """As ``nn.Module.train``, with frozen batch norm kept frozen."""
        if mode and self.layers:
            refuse_own_checkpointing(self.model)
        super().train(mode)
        self._freeze()
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


def _tensor_of(model: nn.Module, name: str) -> Tensor:
    """A parameter or buffer by its dotted name."""
    path, _, own = name.rpartition(".")
    tensor: Tensor = getattr(model.get_submodule(path), own)
    return tensor
