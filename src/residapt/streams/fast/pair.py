"""Both streams through the network at the same time: tensors that come in pairs.

Two calls of the network, one per stream, would do. But a linear layer with many weights is bound by memory, and
reading its weights and writing their gradient once for both streams is much cheaper than twice. So the network is
called once, with a :class:`Pair` for everything that differs between the streams: input, target weights, statistics.
Each operation is carried out for the source and for the target, exactly as in two calls, and only ``linear`` joins
the rows of both. Whatever does not fit (a branch that depends on values, batches of two sizes) raises
:class:`StreamsDiffer`, and the caller falls back to two calls; see :func:`cannot_pair` for what else counts as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.errors import ResidaptError, is_out_of_memory
from residapt.streams.fast.linear import FactoredWeight, linear_arguments


class StreamsDiffer(Exception):  # noqa: N818  (a signal to go another way, not a mistake)
    """The two streams cannot go through the network at the same time."""


class Pair(Tensor):
    """A tensor of the source stream and its partner of the target stream."""

    source: Tensor
    target: Tensor

    @staticmethod
    def __new__(cls, source: Tensor, target: Tensor) -> Pair:
        """Stand in for both tensors; there is no storage behind it."""
        # It asks for gradients so that an autograd.Function leaves its mark on what it returns, see pair_part.
        made: Pair = Tensor._make_wrapper_subclass(
            cls, source.shape, dtype=source.dtype, device=source.device, requires_grad=source.is_floating_point()
        )
        made.source, made.target = source, target
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The operation for each stream; ``linear`` for both together."""
        kwargs = kwargs or {}
        if func is functional.linear:
            x, weight, bias = linear_arguments(*args, **kwargs)
            if isinstance(x, cls) and isinstance(weight, cls) and isinstance(weight.target, FactoredWeight):
                biases = (pair_part(bias, "source"), pair_part(bias, "target"))
                return Pair(*weight.target.linear((pair_part(x, "source"), pair_part(x, "target")), biases))
        if _writes(func, kwargs) and not isinstance(args[0], cls):
            raise StreamsDiffer(f"{func} writes values of both streams into one tensor")
        source = func(*pair_part(args, "source"), **pair_part(kwargs, "source"))
        return _paired(source, func(*pair_part(args, "target"), **pair_part(kwargs, "target")))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Refused: compiled code has gone past ``__torch_function__``."""
        raise StreamsDiffer(f"{func} cannot work on pairs")


def cannot_pair(error: Exception) -> bool:
    """Whether an error of the paired pass may come from the pairs: then two calls are the way to find out.

    Code that does not know pairs (an operator written in C++, a check of types, a branch on values) raises one of a few
    kinds. Everything else is an error of the network, and too little memory would not become more in two calls.
    """
    kinds = (StreamsDiffer, TypeError, ValueError, AttributeError, LookupError, AssertionError, RuntimeError)
    return isinstance(error, kinds) and not isinstance(error, ResidaptError) and not is_out_of_memory(error)


class Before:
    """Everything that a pass may change, to go back to it if the pass was in vain.

    Of the networks these are attributes and values of buffers, of ``others`` the attributes, and the random states of
    the CPU and of the devices of the networks' parameters.
    """

    def __init__(self, *networks: nn.Module, others: Iterable[object] = ()) -> None:
        modules = [module for network in networks for module in network.modules()]
        self._modules = [(module, dict(vars(module)), dict(module._buffers)) for module in modules]
        self._values = [(buffer, buffer.detach().clone()) for network in networks for buffer in network.buffers()]
        self._others = [(other, dict(vars(other))) for other in others]
        devices = {tensor.device for network in networks for tensor in network.parameters()}
        self._devices = [device for device in devices if device.type in ("cuda", "mps")]
        self._random = [torch.get_rng_state(), *(_random_module(d).get_rng_state(*_index(d)) for d in self._devices)]

    def pairs_remain(self) -> bool:
        """Whether the network has kept a pair, as a buffer or as any other attribute."""
        modules = [module for module, _, _ in self._modules]
        kept = (value for module in modules for value in (*vars(module).values(), *module._buffers.values()))
        return any(isinstance(value, Pair) for value in kept)

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what the pass has done to the network."""
        for module, attributes, buffers in self._modules:
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)
        for buffer, value in self._values:
            buffer.copy_(value)
        for other, attributes in self._others:
            vars(other).clear()
            vars(other).update(attributes)
        torch.set_rng_state(self._random[0])
        for device, state in zip(self._devices, self._random[1:], strict=True):
            _random_module(device).set_rng_state(state, *_index(device))


def _random_module(device: torch.device) -> Any:
    return torch.cuda if device.type == "cuda" else torch.mps


def _index(device: torch.device) -> tuple[torch.device, ...]:
    # There is only one device of Apple's kind, and its functions take none.
    return (device,) if device.type == "cuda" else ()


def pair_part(value: Any, stream: Literal["source", "target"]) -> Any:
    """One stream's half of a value: of a pair, of a container with pairs in it, or the value itself."""
    if isinstance(value, Pair):
        with torch._C.DisableTorchFunctionSubclass():
            if value.grad_fn is not None:
                raise StreamsDiffer("an autograd.Function of the network does not know pairs")
        return value.source if stream == "source" else value.target
    if isinstance(value, dict):
        return {key: pair_part(item, stream) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return _rebuilt(value, [pair_part(item, stream) for item in value])
    return value


def _paired(source: Any, target: Any) -> Any:
    """Results of both streams as one; what is not a tensor must be the same in both."""
    if isinstance(source, Tensor) and isinstance(target, Tensor):
        return Pair(source, target)
    if isinstance(source, (tuple, list)) and not isinstance(source, torch.Size) and len(source) == len(target):
        return _rebuilt(source, [_paired(s, t) for s, t in zip(source, target, strict=True)])
    try:
        same = bool(source == target)
    except (ValueError, RuntimeError):
        same = False
    if not same:
        raise StreamsDiffer(f"{source!r} in the source stream is {target!r} in the target stream")
    return source


def _rebuilt(like: Any, items: list[Any]) -> Any:
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def _writes(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__setitem__", "__set__") or name.startswith("__i") or kwargs.get("out") is not None
