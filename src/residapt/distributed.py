"""Devices and processes: the only file that knows the distributed engine (Hugging Face accelerate).

Gradients are averaged here, after backward, instead of by a wrapper around the model: parameters change shape when
rank selection prunes, and a wrapper's buckets would not follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from residapt.errors import ConfigError

Precision = Literal["float32", "bf16", "fp16"]
STATISTICS = ("running_mean", "running_var")
"""How the names of batch norm's running statistics end."""


def process_count() -> int:
    """How many processes train together; 1 without a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def from_main(tensor: Tensor) -> Tensor:
    """The main process's value of a tensor that every process has computed."""
    if process_count() == 1:
        return tensor
    sent = tensor.detach().clone(memory_format=torch.contiguous_format)
    distributed.broadcast(sent, src=0)
    return sent


class Engine:
    """Where tensors live, which process this is, and how gradients are shared."""

    def __init__(self, device: str = "auto", precision: Precision = "float32") -> None:
        from accelerate import PartialState

        accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
        self._state = PartialState(cpu=device == "cpu" or not accelerated)
        # With several GPUs the process's own one, which the plain name would not say.
        own = device in ("auto", self._state.device.type)
        self.device = self._state.device if own else torch.device(device)
        self._check_device(device)
        self.precision = precision
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        """Keeps small gradients of fp16 from vanishing; does nothing at other precisions."""

    def _check_device(self, requested: str) -> None:
        available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if not available.get(self.device.type, False):
            have = ", ".join(name for name, there in available.items() if there)
            raise ConfigError(
                f"device '{requested}' is not available here; this machine has: {have}. Use --device auto."
            )

    @property
    def rank(self) -> int:
        """Number of this process."""
        return int(self._state.process_index)

    @property
    def world(self) -> int:
        """How many processes train together."""
        return int(self._state.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return bool(self._state.is_main_process)

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision for the forward pass."""
        if self.precision == "float32":
            return nullcontext()
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float16
        return torch.autocast(self.device.type, dtype=dtype)

    def backward(self, loss: Tensor) -> None:
        """Gradients of this process's loss."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def update(self, optimizer: Optimizer, clip: float | None = None) -> Tensor:
        """One optimiser step with the gradients of all processes; gives their norm before clipping.

        Gradients that are not finite change nothing. In fp16 they are no more than an overflow, which the loss scale
        follows. The norm stays on the device: whoever reads it waits for the step.
        """
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.average_gradients(parameters)
        if self.scaler.is_enabled():
            self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip)
        if self.scaler.is_enabled():
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            _step_if_finite(optimizer, norm)
        return norm

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average gradients over all processes, in one message per dtype.

        A parameter without a gradient in any process keeps none, as it would in a single process.
        """
        if self.world == 1:
            return
        by_type: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                by_type.setdefault(parameter.dtype, []).append(parameter)
        for members in by_type.values():
            self._average(members)

    def _average(self, members: list[nn.Parameter]) -> None:
        have = self._total([float(p.grad is not None) for p in members])
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in members]
        flat = torch.cat([part.reshape(-1) for part in parts])
        distributed.all_reduce(flat)
        shared = torch.split(flat / self.world, [part.numel() for part in parts])
        for parameter, part, mean, count in zip(members, parts, shared, have, strict=True):
            if count:
                parameter.grad = part.copy_(mean.view(part.shape))

    def read(self, numbers: Sequence[Tensor]) -> list[float]:
        """Tensors of one number each, averaged over all processes; waits for the device once for all of them."""
        if not numbers:
            return []
        kind = torch.float32 if self.device.type == "mps" else torch.float64
        flat = torch.stack([number.detach().to(self.device, kind).reshape(()) for number in numbers])
        if self.world > 1:
            distributed.all_reduce(flat)
            flat /= self.world
        return [float(number) for number in flat.tolist()]

    def average_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """Numbers averaged over all processes, for the record; every process must have the same names."""
        if self.world == 1 or not values:
            return dict(values)
        means = (total / self.world for total in self._total(list(values.values())))
        return dict(zip(values, means, strict=True))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process, so that all of them do the same next."""
        return flag if self.world == 1 else self._total([float(flag)])[0] > 0

    def _total(self, values: list[float]) -> list[float]:
        """Sums over all processes of numbers that no device has computed."""
        flat = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(flat, group=self._between_hosts)
        return [float(value) for value in flat.tolist()]

    @cached_property
    def _between_hosts(self) -> Any:
        """A group whose messages do not pass through accelerators, so that nothing waits for them."""
        return None if distributed.get_backend() == "gloo" else distributed.new_group(backend="gloo")

    def agree(self, number: int) -> int:
        """The main process's number."""
        return int(from_main(torch.tensor(number, device=self.device)))

    @torch.no_grad()
    def synchronise(self, module: nn.Module) -> None:
        """Give every process the main process's parameters and buffers."""
        if self.world > 1:
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.copy_(from_main(tensor))

    @torch.no_grad()
    def average_statistics(self, module: nn.Module) -> None:
        """One set of batch norm's running statistics for all processes: the mean of what each has seen."""
        found = [buffer for name, buffer in module.named_buffers() if name.endswith(STATISTICS)]
        if self.world == 1 or not found:
            return
        flat = torch.cat([buffer.reshape(-1) for buffer in found])
        distributed.all_reduce(flat)
        means = torch.split(flat / self.world, [buffer.numel() for buffer in found])
        for buffer, mean in zip(found, means, strict=True):
            buffer.copy_(mean.view(buffer.shape))

    def wait(self) -> None:
        """Let every process arrive here."""
        self._state.wait_for_everyone()


def _step_if_finite(optimizer: Optimizer, norm: Tensor) -> None:
    """A step unless the norm of the gradients is not finite; fused optimisers find that out on the device."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        if bool(torch.isfinite(norm)):
            optimizer.step()
        return
    # The mark by which torch.amp.GradScaler tells fused optimisers to leave everything as it is.
    optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        optimizer.found_inf = None  # type: ignore[attr-defined]
