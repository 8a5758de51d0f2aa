"""Automatic complexity selection (paper §3.3)."""

from residapt.rank.least_squares import solve_left, solve_right
from residapt.rank.penalty import GroupedCore, group_weights, grouped_core, rank_penalty
from residapt.rank.prox import exact_prox, group_soft_threshold, prox_objective, split_prox, two_step_prox
from residapt.rank.prune import prune_transform, replace_parameter
from residapt.rank.selector import RankChange, RankConfig, shrink

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
