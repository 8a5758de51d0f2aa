"""The grid of the digit tasks: resumable, on one machine or many."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from residapt.errors import DataError
from residapt.methods import MethodConfig
from residapt.train import TrainConfig
from residapt_bench import resumable
from residapt_bench.budget import is_warm_start
from residapt_bench.digits.execute import execute
from residapt_bench.digits.plan import Plan
from residapt_bench.resumable import Record, run_pending


def pending(plans: Iterable[Plan], path: Path) -> list[Plan]:
    """The plans that have no record yet."""
    return resumable.pending(plans, path, run_key)


def run_key(plan: Plan) -> str:
    """The key by which a run is known to be done; after a warm start ``source_only`` is the warm start alone."""
    if is_warm_start(plan.method, plan.source.steps):
        kept = MethodConfig(augment=plan.settings.augment)
        plan = plan.model_copy(update={"train": TrainConfig(), "settings": kept, "tries": 1})
    return plan.key()


def run_grid(plans: Iterable[Plan], *, out: Path, root: Path, cache: Path, **settings: Any) -> None:
    """Run all plans that have no record; settings are those of :func:`residapt_bench.resumable.run_pending`."""
    # Workers may have another working directory.
    work = partial(run_plan, root=root.absolute(), cache=cache.absolute())
    run_pending(pending(plans, out), work, out=out, name=name_of, **settings)


def run_plan(plan: Plan, *, root: Path, cache: Path) -> Record:
    """One run, with one thread, on whichever machine this is."""
    torch.set_num_threads(1)
    if not root.is_dir():
        raise DataError(
            f"data folder '{root}' does not exist on {socket.gethostname()}. Put the data there: every machine reads "
            "them under the same path."
        )
    return execute(plan, root=root, cache=cache)


def name_of(plan: Plan) -> str:
    """A run, for messages and process lists."""
    note = f", {plan.note}" if plan.note else ""
    return f"{plan.task} {plan.arch} {plan.method} seed {plan.seed}{note} ({plan.key()})"
