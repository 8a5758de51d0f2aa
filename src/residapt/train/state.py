"""A trainer's state as tensors by name, and back: networks, transforms with their pruned shapes, optimiser moments.

The optimiser's state is kept by the name of each parameter, because pruning puts new parameters in the place of old
ones. What is a pure function of the step needs no state: sample order, augmentation, dropout and schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from residapt.errors import ModelError
from residapt.rank import replace_parameter
from residapt.streams import TwoStream
from residapt.train.method import Method
from residapt.transform import ResidualTransform, build_transform

Numbers = dict[str, dict[str, bool | int | float | None]]
"""What an optimiser remembers that is no tensor, by parameter."""


def method_tensors(method: Method) -> dict[str, Tensor]:
    """Parameters and saved buffers of everything that a method trains with."""
    return {name: tensor for name, tensor in method.state_dict().items() if isinstance(tensor, Tensor)}


@torch.no_grad()
def load_method(method: Method, tensors: Mapping[str, Tensor], optimizer: Optimizer | None = None) -> None:
    """Bring a method to the given state; transforms get their pruned shapes first, in the optimiser as well."""
    _fit_transforms(method.streams, tensors, "streams.", optimizer)
    if method.streams.average is not None:
        _fit_transforms(method.streams.average.mean, tensors, "streams.average.mean.", None)
    own = method_tensors(method)
    if unknown := sorted(set(tensors) - set(own)):
        raise ModelError(f"'{unknown[0]}' is not in this network. Resume with the model and method of the run.")
    for name, tensor in own.items():
        tensor.copy_(_fitting(tensors, name, tensor))


def optimizer_state(method: Method, optimizer: Optimizer) -> tuple[dict[str, Tensor], Numbers]:
    """Moments by ``key:parameter``, and numbers by parameter."""
    tensors: dict[str, Tensor] = {}
    numbers: Numbers = {}
    for name, parameter in method.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{key}:{name}"] = value
            else:
                numbers.setdefault(name, {})[key] = value
    return tensors, numbers


@torch.no_grad()
def load_optimizer(
    method: Method, optimizer: Optimizer, tensors: Mapping[str, Tensor], numbers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Give every parameter its moments; call it when all parameters have their shapes."""
    parameters = dict(method.named_parameters())
    state: dict[str, dict[str, Any]] = {name: dict(values) for name, values in numbers.items()}
    moments = [(*full.partition(":")[::2], tensor) for full, tensor in tensors.items()]
    if unknown := [name for name in (*state, *(name for _, name, _ in moments)) if name not in parameters]:
        raise ModelError(f"the optimiser's state names '{unknown[0]}', which is not a parameter of this method.")
    for key, name, tensor in moments:
        moment = _moment(parameters[name], tensor, f"{key} of {name}")
        if optimizer.defaults.get("fused"):  # counts steps on the device, others on the CPU
            moment = moment.to(parameters[name].device)
        state.setdefault(name, {})[key] = moment
    optimizer.state.clear()
    for name, values in state.items():
        optimizer.state[parameters[name]] = values


def _moment(parameter: nn.Parameter, tensor: Tensor, what: str) -> Tensor:
    # Counters have no dimensions; moments lie in memory as the parameter does.
    if tensor.ndim == 0:
        return tensor.clone()
    if tensor.shape != parameter.shape:
        raise ModelError(
            f"the optimiser's '{what}' has shape {tuple(tensor.shape)}, but the parameter has {tuple(parameter.shape)}."
        )
    return torch.empty_like(parameter, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def _fit_transforms(streams: TwoStream, tensors: Mapping[str, Tensor], where: str, optimizer: Optimizer | None) -> None:
    for name in streams.layers:
        transform: nn.Module = streams.transform(name)
        if not isinstance(transform, ResidualTransform):
            continue  # the vector form is never pruned
        prefix = f"{where}transforms.{name.replace('.', '/')}."
        layer = streams.layers[name]
        start = build_transform(layer, streams.model.get_parameter(layer.weight).to("meta"), streams.config)
        assert isinstance(start, ResidualTransform)
        shapes = _shapes(start, tensors, prefix, name)
        for factor, shape in shapes.items():
            if tuple(transform.get_parameter(factor).shape) != shape:
                replace_parameter(transform, factor, lambda t, shape=shape: t.new_zeros(shape), optimizer)  # type: ignore[misc]


def _shapes(
    transform: ResidualTransform, tensors: Mapping[str, Tensor], prefix: str, layer: str
) -> dict[str, tuple[int, ...]]:
    """The shapes of a layer's factors, which are at most as wide as those of ``transform``, the layer's start."""
    core = tensors.get(f"{prefix}D")
    if core is None or core.ndim != 2:
        raise ModelError(f"the transform of layer '{layer}' is missing. Resume with the model and method of the run.")
    left, right = core.shape
    columns = tensors[f"{prefix}bias_D"].shape[-1] if f"{prefix}bias_D" in tensors else transform.bias_rank
    if left > transform.ranks[0] or right > transform.ranks[1] or columns > transform.bias_rank:
        raise ModelError(
            f"layer '{layer}': ranks [{left}, {right}] are more than the {list(transform.ranks)} it starts with. "
            "Resume with the settings of the run."
        )
    outputs, inputs = transform.A1.shape[0], transform.A2.shape[0]
    shapes: dict[str, tuple[int, ...]] = {"A1": (outputs, left), "B1": (outputs, left), "D": (left, right)}
    shapes |= {"A2": (inputs, right), "B2": (inputs, right)}
    if transform.has_bias:
        shapes |= {"bias_A2": (1, columns), "bias_B2": (1, columns), "bias_D": (left, columns)}
    return shapes


def _fitting(tensors: Mapping[str, Tensor], name: str, own: Tensor) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None:
        raise ModelError(f"'{name}' is missing. Resume with the model and method of the run.")
    if tensor.shape != own.shape or tensor.dtype != own.dtype:
        raise ModelError(
            f"'{name}' is {_kind(tensor)}, but this network has {_kind(own)}. Resume with the model of the run."
        )
    return tensor


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
