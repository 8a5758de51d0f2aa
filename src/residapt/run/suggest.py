"""Which target images to label next: of a run directory, or of a run that is still in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from residapt.deploy.suggest import Suggestion, suggest_among, suggest_images

if TYPE_CHECKING:
    from residapt.run.api import AdaptedRun


def suggest(run: AdaptedRun | Path | str, count: int = 50, *, seed: int = 0) -> list[Suggestion]:
    """Target images whose labels would help most: uncertain or disputed between both networks, and unlike one another.

    Images whose labels the run was trained on are left out. No label is read.

    Args:
        run: What :func:`residapt.adapt` returned, or the directory of a finished run with a target folder.
        count: How many images.
        seed: Seed of the choice among similar images.

    Returns:
        The images, each with its number and name in the target, and what both networks predict.

    Example:
        >>> import torch, residapt
        >>> from torch import nn
        >>> x, y = torch.randn(60, 6), torch.arange(60) % 2
        >>> x[:, 0] += 4.0 * y
        >>> run = residapt.adapt(nn.Linear(6, 2), source=(x, y), target=x + 0.5, steps=2, verbose=False,
        ...                      **{"pretrain.steps": 100, "pretrain.lr": 0.05})
        >>> len({one.index for one in suggest(run, 5)})
        5
    """
    if isinstance(run, (str, Path)):
        return suggest_images(run, count, seed=seed)
    setup = run.setup
    networks = (run.source, run.merge_and_unload())
    return suggest_among(networks, setup.target, setup.unlabelled, setup.classes, count, seed=seed, device=setup.device)
