"""Devices and processes: the only file that knows the distributed engine (Hugging Face accelerate).

Gradients are averaged here, after backward, instead of by a wrapper around the model: parameters change shape when
rank selection prunes, and a wrapper's buckets would not follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError

Precision = Literal["float32", "bf16", "fp16"]


class Engine:
    """Where tensors live, which process this is, and how gradients are shared."""

    def __init__(self, device: str = "auto", precision: Precision = "float32") -> None:
        from accelerate import PartialState

        self._state = PartialState(cpu=device == "cpu")
        self.device = self._state.device if device == "auto" else torch.device(device)
        self._check_device(device)
        self.precision = precision

    def _check_device(self, asked: str) -> None:
        available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if not available.get(self.device.type, False):
            have = ", ".join(name for name, there in available.items() if there)
            raise ConfigError(f"device '{asked}' is not available here; this machine has: {have}. Use --device auto.")

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

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average gradients over all processes, in one message per dtype."""
        if self.world == 1:
            return
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                by_type.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        for gradients in by_type.values():
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            torch.distributed.all_reduce(flat)
            flat /= self.world
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        """Let every process arrive here."""
        self._state.wait_for_everyone()
