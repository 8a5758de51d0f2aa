"""A network compiled by ``torch.compile``, for training steps in which it is called as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from residapt.errors import ConfigError


class CompiledNetwork:
    """Calls a network through ``torch.compile``; a copy is not compiled.

    Example:
        >>> compiled = CompiledNetwork(nn.Linear(2, 3), backend="eager")
        >>> compiled(torch.zeros(4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(self, network: nn.Module, backend: str = "inductor") -> None:
        self.name = type(network).__name__
        try:
            self._call = torch.compile(network, backend=backend)
        except RuntimeError as error:  # a version of Python or a system that torch cannot compile for
            raise self._refused(error) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the network gives."""
        from torch._dynamo.exc import TorchDynamoException

        try:
            return self._call(*args, **kwargs)
        except TorchDynamoException as error:
            raise self._refused(error) from error

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy is for looking at, not for training."""

    def _refused(self, error: Exception) -> ConfigError:
        # The first paragraph says what has happened, the others how to see more of torch.
        reason = " ".join(str(error).strip().partition("\n\n")[0].split())[:300].rstrip(".") or type(error).__name__
        return ConfigError(f"compile: torch cannot compile {self.name} here: {reason}. Set compile to false.")
