r"""Automatic complexity selection (paper §3.3, Algorithm 1 lines 3-6): shrink T, refit A1 and A2, prune."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from residapt.distributed import from_main
from residapt.errors import TrainingError
from residapt.rank.config import RankConfig
from residapt.rank.least_squares import solve_left, solve_right
from residapt.rank.penalty import GroupedCore, group_weights, grouped_core
from residapt.rank.prox import exact_prox, split_prox, two_step_prox
from residapt.rank.prune import prune_transform
from residapt.streams import TwoStream
from residapt.transform import ResidualTransform

PROXES = {"two-step": two_step_prox, "split": split_prox, "exact": exact_prox}


@dataclass(frozen=True)
class RankChange:
    """What one proximal step did to one layer."""

    layer: str
    before: tuple[int, int]
    after: tuple[int, int]


@torch.no_grad()
def shrink(streams: TwoStream, config: RankConfig, optimizer: Optimizer | None = None) -> list[RankChange]:
    """One proximal step on every layer that still has a rank; gives the layers whose ranks fell."""
    changes = []
    for name in streams.layers:
        transform = streams.transform(name)
        if not isinstance(transform, ResidualTransform) or not transform.alive:
            continue
        before = transform.ranks
        item = grouped_core(transform, *streams.source_tensors(name), streams.start_size(name))
        if not bool(torch.isfinite(item.core).all()):
            raise TrainingError(
                f"layer '{name}': its transform contains NaN or infinity after the last optimiser step. "
                "Lower train.transform.lr or set train.clip = 1."
            )
        kept = _shrink_layer(transform, *streams.source_tensors(name), item, config)
        prune_transform(transform, *kept, optimizer)
        if streams.average is not None:
            prune_transform(streams.average.mean.transform(name), *kept, None)
        if transform.ranks != before:
            changes.append(RankChange(name, before, transform.ranks))
    return changes


def _shrink_layer(
    transform: ResidualTransform,
    weight: Tensor,
    bias: Tensor | None,
    item: GroupedCore,
    config: RankConfig,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Shrink T and refit A1 and A2; gives masks of the rows, columns and bias columns that are left."""
    columns = transform.ranks[1]
    with_bias = transform.has_bias and bias is not None
    # Ranks must be the same in every process, whatever its hardware makes of the last bit.
    shrunk = from_main(_prox(item, config))
    _refit(transform, weight, bias if with_bias else None, shrunk)
    if config.group_weights == "equal":
        _move_the_rest(transform, weight, bias if with_bias else None, shrunk)
    rows, kept = map(from_main, _effective(shrunk, config.epsilon))
    return rows, kept[:columns], kept[columns:] if with_bias else None


def _prox(item: GroupedCore, config: RankConfig) -> Tensor:
    column_weight, row_weight = group_weights(config.group_weights, item)
    scale = config.step * config.weight
    return PROXES[config.prox](item.core, column_threshold=scale * column_weight, row_threshold=scale * row_weight)


def _refit(transform: ResidualTransform, weight: Tensor, bias: Tensor | None, shrunk: Tensor) -> None:
    """Appendix A with the block-diagonal A2: A1 sees both blocks, each block of A2 its own columns."""
    columns = transform.ranks[1]
    Y = shrunk[:, :columns] - transform.D
    M = weight @ transform.A2
    if bias is None:
        transform.A1.copy_(solve_left(transform.A1, M, Y))
    else:
        bias_Y = shrunk[:, columns:] - transform.bias_D
        bias_M = bias.unsqueeze(1) @ transform.bias_A2
        transform.A1.copy_(solve_left(transform.A1, torch.cat([M, bias_M], 1), torch.cat([Y, bias_Y], 1)))
        bias_K = (transform.A1.T @ bias).unsqueeze(1)
        transform.bias_A2.copy_(solve_right(transform.bias_A2, bias_K, bias_Y))
    transform.A2.copy_(solve_right(transform.A2, transform.A1.T @ weight, Y))


def _move_the_rest(transform: ResidualTransform, weight: Tensor, bias: Tensor | None, shrunk: Tensor) -> None:
    """Let D take what A1 and A2 leave of the move: how much they leave depends on the layer's shape and weights."""
    columns = transform.ranks[1]
    transform.D.add_(shrunk[:, :columns] - transform.core(weight))
    if bias is not None:
        transform.bias_D.add_(shrunk[:, columns:] - transform.bias_core(bias))


def _effective(shrunk: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Masks of the rows and columns of T* that have a real impact."""
    row_norms, column_norms = shrunk.norm(dim=1), shrunk.norm(dim=0)
    limit_rows = epsilon * row_norms.max() if row_norms.numel() else 0.0
    limit_columns = epsilon * column_norms.max() if column_norms.numel() else 0.0
    return row_norms > limit_rows, column_norms > limit_columns
