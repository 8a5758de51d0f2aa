"""Pairs of very different domain shifts, small enough to try a recipe on all of them.

::

    pair = load("mnist-clutter", root, cache)
    residapt.adapt(pair.network(seed=0), source=pair.source, target=pair.target_images, evaluate=pair.target_test)
"""

from __future__ import annotations

from residapt_bench.proving_ground.folders import write_folders
from residapt_bench.proving_ground.pair import PairSpec, ProvingPair
from residapt_bench.proving_ground.registry import KINDS, PAIRS
from residapt_bench.proving_ground.sheet import contact_sheet
from residapt_bench.proving_ground.store import load, recorded_checksums

__all__ = ["KINDS", "PAIRS", "PairSpec", "ProvingPair", "contact_sheet", "load", "recorded_checksums", "write_folders"]
