"""Source networks: trained once, cached, recognised by the hash of their weights.

A seed names a network on one processor only: rounding differs elsewhere, and after some thousand steps so does the
network. Where runs must start from one particular network, as the five orders of the paper's protocol, its weights are
kept in ``benchmarks/networks`` under their hash, and a run that finds other weights stops.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from residapt.distributed import Engine
from residapt.errors import DataError
from residapt.methods import MethodConfig
from residapt.methods.fit import fit, source_pair
from residapt.storage.atomic import atomic_file

if TYPE_CHECKING:
    from residapt.train import Callback
    from residapt_bench.experiment import TaskData
    from residapt_bench.plan import Plan

KEPT = Path(__file__).parents[1] / "networks"
"""Weights that came with the laboratory."""


def source_network(
    plan: Plan, build: Callable[[], nn.Module], data: TaskData, cache: Path, callbacks: Iterable[Callback] = ()
) -> nn.Module:
    """The network trained on the source: kept with the laboratory, or from the cache, or trained now.

    It is read back even by the run that trained it: weights that were just trained lie otherwise in memory, which shows
    in the last digits of a score, and a record must not depend on who made the cache.

    Args:
        plan: The run.
        build: Makes the network before it is trained.
        data: Its images.
        cache: Folder of networks that this machine has trained.
        callbacks: Callbacks of the training.
    """
    path = kept_path(plan.network_sha256)
    if path is None or not path.is_file():
        path = cached_path(plan, data, cache)
        with locked(path):
            if not path.exists():
                _train_source(plan, build(), data, path, callbacks)
    network = build()
    network.load_state_dict(load_file(path))
    _require_hash(network, plan, path)
    return network


def kept_path(sha256: str | None) -> Path | None:
    """Where the weights of this hash are kept, if they are."""
    return None if sha256 is None else KEPT / f"{sha256[:16]}.safetensors"


def cached_path(plan: Plan, data: TaskData, cache: Path) -> Path:
    """Where a machine that trained this network has its weights."""
    parts = (plan.arch, data.source_key, plan.source, plan.settings.augment, plan.standardise, plan.precision)
    key = hashlib.sha256("/".join(map(repr, parts)).encode()).hexdigest()[:12]
    return cache / f"source-{plan.arch.replace(':', '_')}-{key}.safetensors"


def keep_network(sha256: str, cache: Path) -> Path:
    """Copy the cached weights that have this hash to those that come with the laboratory, if they are not there."""
    path = kept_path(sha256)
    assert path is not None
    if path.is_file():
        return path
    for file in sorted(cache.glob("source-*.safetensors")):
        tensors = load_file(file)
        if state_hash(tensors) == sha256:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, overwrite=True) as temporary:
                save_file(tensors, temporary)
            return path
    raise DataError(f"no source network in '{cache}' has the hash {sha256}: give the --cache of the runs.")


def _train_source(plan: Plan, network: nn.Module, data: TaskData, path: Path, callbacks: Iterable[Callback]) -> None:
    """Train a network on the source and write its weights."""
    fit(
        "source_only",
        network,
        source_pair(data.pair.source, data.pair.balance),
        method=MethodConfig(augment=plan.settings.augment),
        train=plan.source.loop(),
        callbacks=callbacks,
        engine=Engine(precision=plan.precision),
    )
    with atomic_file(path, overwrite=True) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, temporary)


def _require_hash(network: nn.Module, plan: Plan, path: Path) -> None:
    found = network_hash(network)
    if plan.network_sha256 not in (None, found):
        raise DataError(
            f"{plan.name()}: must start from network {str(plan.network_sha256)[:16]}, but '{path}' is {found[:16]}: a "
            f"seed trains another network on another processor. Put the weights into '{KEPT}' (run --keep-networks), "
            "or run the experiment that chooses the network on this machine."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Other processes wait here until the one that makes the file is done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def network_hash(network: nn.Module) -> str:
    """SHA-256 of all weights and buffers, in the order of their names."""
    return state_hash(network.state_dict())


def state_hash(state: Mapping[str, Tensor]) -> str:
    """The same of named tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
