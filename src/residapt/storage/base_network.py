"""The base network under an adapter: recognised by the hashes of its tensors, and shared between adapters."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping

from torch import Tensor, nn, uint8

from residapt.errors import ModelError
from residapt.settings import Settings


class TensorRecord(Settings):
    """One parameter or buffer of the base network."""

    shape: tuple[int, ...]
    """Its shape."""
    dtype: str
    """Its type, for instance float32."""
    sha256: str | None = None
    """Hash of its type, shape and bytes; None when the adapter carries the tensor itself."""


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers, the very objects; a tied tensor stands under each of its names."""
    state = model.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}


def tensor_hash(tensor: Tensor) -> str:
    """SHA-256 of type, shape and bytes, whatever the device and the memory format."""
    digest = hashlib.sha256(f"{_dtype(tensor)}{tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(uint8).numpy().data)
    return digest.hexdigest()


def base_hashes(model: nn.Module) -> dict[str, str]:
    """The hash of every tensor; take it before training to learn afterwards which tensors have changed."""
    return {name: tensor_hash(tensor) for name, tensor in named_tensors(model).items()}


def describe_tensor(tensor: Tensor, sha256: str | None) -> TensorRecord:
    """The record of one tensor, with a hash or, for a tensor that is carried, without."""
    return TensorRecord(shape=tuple(tensor.shape), dtype=_dtype(tensor), sha256=sha256)


def check_base(model: nn.Module, records: Mapping[str, TensorRecord], what: str) -> None:
    """Reject a network that is not the one recorded, and name the first layer that differs."""
    tensors = named_tensors(model)
    problems = [_difference(name, tensors.get(name), record) for name, record in records.items()]
    problems += [
        f"layer '{_layer(name)}' ({name}) is not in the base it was made for" for name in tensors if name not in records
    ]
    found = [problem for problem in problems if problem]
    if found:
        more = f" (and {len(found) - 1} more of {len(records)} tensors differ)" if len(found) > 1 else ""
        raise ModelError(
            f"{what} does not fit this {type(model).__name__}: {found[0]}{more}. "
            "Load the weights of the base network that it was made for."
        )


def with_tensors(model: nn.Module, replaced: Mapping[str, Tensor]) -> nn.Module:
    """A second body for the same network: parameters are shared with ``model`` except the replaced ones.

    Buffers are copied, so that neither training nor loading touches the model that was given.
    """
    memo: dict[int, Tensor] = {id(parameter): parameter for parameter in model.parameters()}
    for name, own in named_tensors(model).items():
        if name in replaced:
            memo[id(own)] = _like(replaced[name], own)
    return copy.deepcopy(model, memo)


def _like(tensor: Tensor, own: Tensor) -> Tensor:
    moved = tensor.to(own.device)
    return nn.Parameter(moved, requires_grad=own.requires_grad) if isinstance(own, nn.Parameter) else moved


def _difference(name: str, tensor: Tensor | None, record: TensorRecord) -> str | None:
    layer = f"layer '{_layer(name)}' ({name})"
    if tensor is None:
        return f"{layer} is missing"
    found = describe_tensor(tensor, None)
    if found.shape != record.shape:
        return f"{layer} has shape {_show(found.shape)} instead of {_show(record.shape)}"
    if found.dtype != record.dtype:
        return f"{layer} is {found.dtype} instead of {record.dtype}"
    if record.sha256 is not None and tensor_hash(tensor) != record.sha256:
        return f"{layer} has other values"
    return None


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"
