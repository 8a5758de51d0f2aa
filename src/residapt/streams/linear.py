r"""Linear layers of the target stream, by the cheaper of two equal forms.

``dense``: :math:`y = (\Theta + B_1 S B_2^\top)x`, which forms a C x N matrix. ``factored``:
:math:`y = \Theta x + B_1 (S (B_2^\top x))`, which works on the rows of x. The factored form is cheaper while the
batch has fewer rows than about :math:`CN/(C+N)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from residapt.transform import Residual


@contextmanager
def called_modules(modules: Mapping[str, nn.Linear]) -> Iterator[set[str]]:
    """Names of the modules that are called in this context; some networks only read a layer's weight."""
    called: set[str] = set()
    handles = [
        module.register_forward_pre_hook(lambda *_, name=name: called.add(name)) for name, module in modules.items()
    ]
    try:
        yield called
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def target_linears(modules: Mapping[nn.Linear, Residual]) -> Iterator[None]:
    """Within this context the given modules compute with their target weights."""
    replaced = {module: module.__dict__.get("forward") for module in modules}
    for module, residual in modules.items():
        module.forward = partial(_target_linear, module, residual)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module, forward in replaced.items():
            if forward is None:
                del module.forward
            else:
                module.forward = forward  # type: ignore[method-assign]


def _target_linear(module: nn.Linear, residual: Residual, x: Tensor) -> Tensor:
    bias = None if module.bias is None else residual.add_to_bias(module.bias)
    outputs, inputs = module.weight.shape
    rows = x.numel() // max(inputs, 1)
    if rows * (outputs + inputs) < outputs * inputs:
        return functional.linear(x, module.weight, bias) + residual.apply(x)
    return functional.linear(x, residual.add_to_weight(module.weight), bias)
