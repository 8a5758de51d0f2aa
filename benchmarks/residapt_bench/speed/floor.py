r"""The least that RPT can cost, by counting multiplications.

A step of DANN multiplies by every weight three times: forward, for the input's gradient and for the weight's (the
first layer has no input gradient). RPT adds, for a layer with C x N weights and ranks l and r, k = min(l, r):

* the inner matrix :math:`A_1^\top W A_2`, with C N times l or r multiplications, and one more small product;
* the target weight, by :math:`L R^\top` with C N k, or, for a linear layer with few rows n in the batch, its effect
  :math:`L (R^\top x)` with n (C + N) k;
* the energy, by two Gram matrices, (C + N) k k;

each three times as well. Elementwise work, memory traffic and the overhead of calls are not counted.
:func:`multiplications` counts what is really executed, to be compared with this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_PASSES = 3
_CLASSIFIER_PASSES = 5
"""The domain classifier runs forward twice, gives gradients to its input twice and to its weights once."""


@dataclass(frozen=True)
class LayerCount:
    """What one layer does in one pass over a batch."""

    outputs: int
    columns: int
    multiplications: int
    """In the forward pass."""
    rows: int | None
    """Rows of the input of a linear layer; None for a convolution."""
    is_first: bool

    @property
    def step(self) -> int:
        """Multiplications of a training step."""
        return self.multiplications * (_PASSES - int(self.is_first))

    def transform(self, left: int, right: int) -> int:
        """Further multiplications of a training step with a transform of these ranks."""
        C, N, k = self.outputs, self.columns, min(left, right)
        core = C * N * k + left * right * (C if self.rows is not None or right < left else N)
        dense = C * N * k
        target = dense if self.rows is None else min(dense, self.rows * (C + N) * k)
        inner = left * right * (C if right <= left else N)
        return _PASSES * (core + inner + target + (C + N) * k * k)


def count_layers(model: nn.Module, example: Tensor) -> list[LayerCount]:
    """The linear layers and convolutions that a batch goes through, in order."""
    counts: list[LayerCount] = []

    def count(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        weight = module.weight
        assert isinstance(weight, Tensor)
        given = inputs[0] if isinstance(module, _ConvTransposeNd) else output
        outputs, per_value = weight.shape[0], weight[0].numel()
        rows = inputs[0].numel() // per_value if isinstance(module, nn.Linear) else None
        counts.append(LayerCount(outputs, per_value, given.numel() * per_value, rows, not inputs[0].requires_grad))

    layers = [module for module in model.modules() if isinstance(module, (nn.Linear, _ConvNd))]
    handles = [module.register_forward_hook(count) for module in layers]
    try:
        with torch.enable_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
    return counts


def step_floor(layers: Sequence[LayerCount], classifier: Sequence[LayerCount], *, left: int, right: int) -> float:
    """Least ratio of a step of RPT to one of DANN; counts are those of one domain's batch."""
    network = 2 * sum(layer.step for layer in layers)
    adversary = 2 * sum(layer.multiplications * (_CLASSIFIER_PASSES - int(layer.is_first)) for layer in classifier)
    return 1.0 + sum(layer.transform(left, right) for layer in layers) / (network + adversary)


def multiplications(step: Callable[[], None]) -> int:
    """Multiplications in the matrix products and convolutions that a call executes, backward passes included."""
    counter = _Counter()  # type: ignore[no-untyped-call]
    with counter:
        step()
    return int(counter.total)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    # Not torch's FlopCounterMode: its module hooks do not accept tensors that come in pairs.
    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (count := flop_registry.get(func._overloadpacket)) is not None:
            self.total += int(count(*args, **(kwargs or {}), out_val=result)) // 2
        return result
