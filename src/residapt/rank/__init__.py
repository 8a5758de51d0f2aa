"""Automatic complexity selection (paper §3.3).

Example:
    >>> import torch, residapt
    >>> residapt.rank.exact_prox(torch.eye(2), column_threshold=1.0, row_threshold=1.0)
    tensor([[0., 0.],
            [0., 0.]])
"""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
    from residapt.rank.config import RankConfig
    from residapt.rank.least_squares import solve_left, solve_right
    from residapt.rank.penalty import GroupedCore, group_weights, grouped_core, rank_penalty
    from residapt.rank.prox import exact_prox, group_soft_threshold, prox_objective, split_prox, two_step_prox
    from residapt.rank.prune import prune_transform, replace_parameter
    from residapt.rank.selector import RankChange, shrink

__all__ = [
    "GroupedCore",
    "RankChange",
    "RankConfig",
    "exact_prox",
    "group_soft_threshold",
    "group_weights",
    "grouped_core",
    "prox_objective",
    "prune_transform",
    "rank_penalty",
    "replace_parameter",
    "shrink",
    "solve_left",
    "solve_right",
    "split_prox",
    "two_step_prox",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(("solve_left", "solve_right"), "residapt.rank.least_squares"),
        **dict.fromkeys(("GroupedCore", "group_weights", "grouped_core", "rank_penalty"), "residapt.rank.penalty"),
        **dict.fromkeys(
            ("exact_prox", "group_soft_threshold", "prox_objective", "split_prox", "two_step_prox"),
            "residapt.rank.prox",
        ),
        **dict.fromkeys(("prune_transform", "replace_parameter"), "residapt.rank.prune"),
        **dict.fromkeys(("RankChange", "shrink"), "residapt.rank.selector"),
        "RankConfig": "residapt.rank.config",
    },
)
