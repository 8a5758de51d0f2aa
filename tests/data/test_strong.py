"""Random changes of batches as small as they can be."""

from __future__ import annotations

import pytest
import torch

from residapt.data.strong import Changes

SHAPES = ((3, 12, 12), (2, 30), (7,))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_of_which_all_or_none_are_changed_strongly(shape: tuple[int, ...]) -> None:
    """Of one sample it is always all or none."""
    generator = torch.Generator().manual_seed(0)
    changed = [Changes("mixed")(torch.rand(1, *shape), generator) for _ in range(8)]
    assert all(one.shape == (1, *shape) and bool(one.isfinite().all()) for one in changed)
