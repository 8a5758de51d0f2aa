"""Many adapters on one base at run time: a network for each domain, the base in memory once.

What is kept of an adapter is what its file holds. A domain's network is formed when it is needed, as a plain module
that shares with the base what the adapter leaves alone; the last few are kept (least recently used goes first).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError
from residapt.models.standardise import standardised
from residapt.storage.adapter import load_one
from residapt.storage.adapter_format import read_config
from residapt.storage.base_network import with_tensors
from residapt.storage.hub import adapter_folder
from residapt.streams import TwoStream
from residapt.streams.outputs import logits_of

SOURCE = "source"
"""The stream that is the base itself."""


class AdapterSet:
    """One base network and the adapters of many domains; made by :func:`residapt.load`.

    Calls, :meth:`add` and :meth:`remove` may come from several threads.

    Args:
        model: The base network; it is not changed, and its parameters are shared.
        adapters: Folders of adapters by the name of their domain.
        cached: How many domains' networks are kept formed. Each takes the memory of the layers that its adapter
            changes; 0 forms a network at each call.

    Example:
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        >>> streams = TwoStream(network, left_rank=2, right_rank=2)
        >>> from residapt.storage import AdapterMetadata, save_pretrained
        >>> save_pretrained(streams, "gate", metadata=AdapterMetadata(method="rpt", classes=("a", "b", "c")))
        >>> domains = AdapterSet(network, {"gate": "gate"})
        >>> domains(torch.zeros(5, 4), stream="gate").shape
        torch.Size([5, 3])
        >>> domains(torch.zeros(2, 4), stream=["gate", "source"]).shape
        torch.Size([2, 3])
    """

    def __init__(self, model: nn.Module, adapters: Mapping[str, Path | str] | None = None, *, cached: int = 4) -> None:
        if cached < 0:
            raise ConfigError(f"cached must be 0 or more, got {cached}.")
        self._given, self._cached = model, cached
        self._bodies: dict[bool, nn.Module] = {}
        # Replaced as a whole, never changed, so that readers need no lock.
        self._streams: dict[str, TwoStream] = {}
        self._networks: OrderedDict[str, tuple[TwoStream, nn.Module]] = OrderedDict()
        self._lock = Lock()
        self._base = self._body(standardise=False)
        for name, path in (adapters or {}).items():
            self.add(name, path)

    def __contains__(self, name: object) -> bool:
        return name in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._streams))

    def __getitem__(self, name: str) -> TwoStream:
        """The two-stream model of a domain."""
        return self._find(name)

    def __repr__(self) -> str:
        return f"AdapterSet({type(self._given).__name__}, {list(self._streams)})"

    def add(self, name: str, path: Path | str) -> None:
        """Read an adapter and serve its domain from now on; a name that is taken is refused.

        Args:
            name: Name of the domain.
            path: The folder of the adapter.
        """
        if name in (SOURCE, "target", ""):
            raise ConfigError(f"an adapter cannot be named {name!r}: 'source' is the base. Choose another name.")
        path = adapter_folder(path)
        config = read_config(path)
        body = None if config.carried else self._body(standardise=config.standardise)
        streams = load_one(self._given, path, body)
        with self._lock:
            if name in self._streams:
                raise ConfigError(f"there is an adapter '{name}' already. Remove it first, or choose another name.")
            self._streams = {**self._streams, name: streams}

    def remove(self, name: str) -> None:
        """Forget a domain; calls that are under way end with it."""
        self._find(name)
        with self._lock:
            self._streams = {other: streams for other, streams in self._streams.items() if other != name}
            self._networks.pop(name, None)

    def network(self, name: str = SOURCE) -> nn.Module:
        """The plain network of a domain, in evaluation mode; it shares what its adapter leaves alone with the base."""
        if name == SOURCE:
            return self._base
        streams = self._find(name)
        with self._lock:
            found = self._networks.get(name)
            if found is not None and found[0] is streams:
                self._networks.move_to_end(name)
                return found[1]
        formed = self._form(streams)
        with self._lock:
            if self._cached and self._streams.get(name) is streams:
                self._networks[name] = (streams, formed)
                self._networks.move_to_end(name)
                while len(self._networks) > self._cached:
                    self._networks.popitem(last=False)
        return formed

    def __call__(self, x: Tensor, *, stream: str | Sequence[str] = SOURCE) -> Tensor:
        """Logits of one domain, or of a batch with a domain for each sample.

        Args:
            x: A batch of input.
            stream: Name of a domain, ``"source"`` for the base, or as many names as there are samples. Samples of one
                domain go through its network together, and come back in their order.
        """
        if isinstance(stream, str):
            network = self.network(stream)
            return logits_of(network(x), network)
        if len(stream) != len(x):
            raise ConfigError(f"a batch of {len(x)} samples needs as many domains, got {len(stream)}.")
        groups: dict[str, list[int]] = {}
        for place, name in enumerate(stream):
            groups.setdefault(name, []).append(place)
        for name in groups:  # before anything is computed
            if name != SOURCE:
                self._find(name)
        places = [torch.tensor(group, device=x.device) for group in groups.values()]
        parts = [self(x[index], stream=name) for name, index in zip(groups, places, strict=True)]
        if not parts:
            return self(x)
        return torch.cat(parts)[torch.cat(places).argsort()]

    def _find(self, name: str) -> TwoStream:
        streams = self._streams.get(name)
        if streams is None:
            raise ConfigError(f"there is no adapter '{name}'. Domains: {', '.join((SOURCE, *self._streams))}.")
        return streams

    def _body(self, *, standardise: bool) -> nn.Module:
        """The network under all adapters that refer to the base; made once."""
        if standardise not in self._bodies:
            body = with_tensors(self._given, {}).eval()
            self._bodies[standardise] = standardised(body) if standardise else body
        return self._bodies[standardise]

    @staticmethod
    @torch.no_grad()
    def _form(streams: TwoStream) -> nn.Module:
        return with_tensors(streams.model, streams.target_state()).eval()
