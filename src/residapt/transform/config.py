"""Settings of the transforms and of the two-stream model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from residapt.settings import Seed, Settings

if TYPE_CHECKING:
    from torch import Tensor


class TransformConfig(Settings):
    """Which layers are transformed, and how.

    Example:
        >>> TransformConfig(include=("layer4.*",), left_rank=8).right_rank
        32
    """

    include: tuple[str, ...] = ("*",)
    """Name patterns (``layer4.*``) of the layers to transform."""
    exclude: tuple[str, ...] = ()
    """Name patterns of the layers to share between the domains."""
    freeze: tuple[str, ...] = ()
    """Name patterns of modules (``conv1``, ``layer1``) that neither stream changes: no gradient, no transform, batch
    norm in evaluation mode."""
    own: tuple[str, ...] = ()
    """Parameters that the target stream has for itself instead of transforms: norm (scale and shift of normalisation
    layers), bias, head (the classifier), or name patterns of parameters (``layer4.*``)."""
    features: str | None = None
    """Name of the layer that the domain classifier reads; later layers are shared. None: the logits."""
    left_rank: int = 32
    """l of Eq. 2 at the start; 0 shares the layer."""
    right_rank: int = 32
    """r of Eq. 2 at the start; 0 shares the layer."""
    bias_rank: int = 1
    """Width of the biases' block."""
    ranks: dict[str, tuple[int, int]] = {}
    """Ranks [l, r] of single layers, by name pattern; the first pattern that matches counts."""
    bias: Literal["joint", "separate", "shared"] = "joint"
    """Biases as a block beside the weights with A1, B1 in common; with a transform of their own; not transformed."""
    nonlinearity: str = "tanh"
    """The function between the factors: tanh, relu, or any of torch.nn.functional with f(0) = 0."""
    form: Literal["matrix", "vector"] = "matrix"
    """Eq. 2 (matrix) or Eq. 1 (vector, rank = left_rank)."""
    column_norm: ClassVar[float] = 1.0
    """Norm of every column of T at the start."""
    energy: float = Field(1.0, gt=0)
    """Sum of the squared residuals at the start (the barrier's minimum is at 1)."""
    norm: Literal["per-domain", "shared", "frozen"] = "per-domain"
    """Batch norm: statistics of its own for each stream; one set for both; never updated."""
    seed: Seed = 0
    """Seed of the transforms' start."""

    @field_validator("nonlinearity")
    @classmethod
    def _zero_at_zero(cls, name: str) -> str:
        if name not in ("tanh", "relu"):  # which need no look into torch
            resolve_nonlinearity(name)
        return name

    @field_validator("left_rank", "right_rank", "bias_rank")
    @classmethod
    def _zero_or_more(cls, rank: int) -> int:
        if rank < 0:
            raise ValueError("a rank must be 0 or more; 0 shares the layer (or its biases)")
        return rank

    @field_validator("ranks")
    @classmethod
    def _not_negative(cls, ranks: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        for pattern, (left, right) in ranks.items():
            if min(left, right) < 0:
                raise ValueError(
                    f"the ranks of '{pattern}' must be 0 or more, got [{left}, {right}]; 0 shares the layer"
                )
        return ranks


def resolve_nonlinearity(name: str) -> Callable[[Tensor], Tensor]:
    """The function of that name, refused unless it maps 0 to 0."""
    import torch
    from torch.nn import functional

    function = getattr(torch, name, None) or getattr(functional, name, None)
    try:
        image = function(torch.zeros(2, 3, dtype=torch.float64))  # type: ignore[misc]
        elementwise, at_zero = image.shape == (2, 3), float(image.reshape(-1)[0])
    except Exception:  # whatever else a name in torch may be, calling it can fail in any way
        elementwise, at_zero = False, 0.0
    if not elementwise:
        raise ValueError(f"'{name}' is not an elementwise function of one tensor in torch; use tanh or relu")
    if at_zero != 0.0:
        raise ValueError(
            f"{name}(0) = {at_zero:g}, but it must be 0: otherwise rows and columns that rank selection has zeroed "
            "would still change the target weights; use tanh or relu"
        )
    return function  # type: ignore[return-value]
