"""Another moment of a finished run as its result: ``residapt adapt --resume RUN --select SCORE``."""

from __future__ import annotations

import copy
from pathlib import Path

from residapt.errors import TrainingError
from residapt.evaluate.collect import collect
from residapt.run.along import scores_of
from residapt.run.request import Setup
from residapt.storage.checkpoint import steps_in
from residapt.train import Method
from residapt.train.checkpoint import load_weights_of


def best_checkpoint(setup: Setup, method: Method, directory: Path) -> tuple[Method, str]:
    """The checkpoint in a folder that has the highest label-free score, and how it was selected."""
    name, found = setup.config.select, []
    for step in sorted(filter(None, steps_in(directory))):  # step 0 is the source network
        candidate = copy.deepcopy(method)
        load_weights_of(candidate, directory, step)
        evidence = collect(
            candidate.streams, setup.held_out_seen, setup.seen, target_stream="target", device=setup.device
        )
        if name in (values := scores_of(evidence, (name,))):
            found.append((values[name], step, candidate))
    if not found:
        raise TrainingError(f"--select {name}: no checkpoint in '{directory}' has this score. Select another one.")
    value, step, best = max(found, key=lambda one: one[:2])
    return best, f"step {step}, the best by {name} ({value:.4g}) of {len(found)} checkpoints"
