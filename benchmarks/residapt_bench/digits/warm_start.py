"""Source networks that the runs of a grid share: trained once, then read from the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from residapt.data.domains import DomainPair
from residapt.distributed import Engine
from residapt.methods import MethodConfig
from residapt.methods.fit import fit
from residapt.storage.atomic import atomic_file
from residapt.train import TrainConfig


def cached_source_network(
    path: Path,
    build: Callable[[], nn.Module],
    pair: DomainPair,
    train: TrainConfig,
    method: MethodConfig | None = None,
    engine: Engine | None = None,
) -> nn.Module:
    """The network in ``path``; where there is none yet, ``build()`` is trained on the source and written there.

    It is read back even then: weights that were just trained lie otherwise in memory, which shows in the last digits
    of a score, and a record must not depend on who made the cache.
    """
    if not path.exists():
        trained = build()
        fit("source_only", trained, pair, method=method or MethodConfig(), train=train, engine=engine)
        # Another run of the grid may have written the same network meanwhile.
        with atomic_file(path, overwrite=True) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, temporary)
    network = build()
    network.load_state_dict(load_file(path))
    return network
