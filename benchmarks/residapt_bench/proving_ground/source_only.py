"""How well a network does on the target that has seen the source alone, by a plain loop without any adaptation.

Small networks are trained whole. Of the deep ones a new linear classifier is trained on the pooled features that
ImageNet's weights give, so that the figure costs seconds: it tells how hard a pair is, and no protocol's baseline.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.nn import functional

from residapt_bench.proving_ground.networks import INPUT, pooled_features
from residapt_bench.proving_ground.pair import ProvingPair, random_numbers, tensors_checksum

RECORDS = Path(__file__).with_name("source_only.json")
STEPS, BATCH, RATE = 1_500, 64, 1e-3
NO_HARM_ABOVE = 95.0
"""Pairs on which the source network alone is better than this count for doing no harm only."""


def source_only(pair: ProvingPair, seed: int = 0) -> float:
    """Per cent right on the target's test (average precision for detection), after 1,500 steps of Adam."""
    images, labels = pair.source
    test, wanted = pair.target_test
    if pair.spec.network in INPUT:
        images, test = (_features(pair, x) for x in (images, test))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network: nn.Module = nn.Linear(images.shape[1], len(pair.classes))
    else:
        network = pair.network(seed)
    logits = _trained_outputs(network, images, labels, test, seed)
    if pair.spec.metric == "average_precision":
        return 100 * float(average_precision_score(wanted.numpy(), (logits[:, 1] - logits[:, 0]).numpy()))
    return 100 * float((logits.argmax(1) == wanted).double().mean())


def recorded() -> dict[str, float]:
    """The committed figures of seed 0, per cent."""
    found: dict[str, float] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return found


def record(name: str, figure: float) -> None:
    """Add a pair's figure to the committed ones, or replace it."""
    found = dict(sorted((recorded() | {name: round(figure, 2)}).items()))
    RECORDS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def only_no_harm(name: str) -> bool:
    """Whether the pair has so little to gain that it is only asked that adaptation does no harm."""
    return recorded().get(name, 0.0) > NO_HARM_ABOVE


def _trained_outputs(network: nn.Module, images: Tensor, labels: Tensor, test: Tensor, seed: int) -> Tensor:
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    rng = random_numbers("source only", seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # of dropout
        network.train()
        for _ in range(STEPS):
            chosen = torch.from_numpy(rng.integers(0, len(images), BATCH))
            loss = functional.cross_entropy(network(_floats(images[chosen])), labels[chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    network.eval()
    with torch.no_grad():
        return torch.cat([network(_floats(part)) for part in torch.split(test, 500)])


_FEATURES: dict[str, Tensor] = {}


def _features(pair: ProvingPair, images: Tensor) -> Tensor:
    """Pooled features, computed once for pairs that share a domain."""
    key = f"{pair.spec.network} {tensors_checksum({'images': images})}"
    if key not in _FEATURES:
        _FEATURES[key] = pooled_features(pair.root, images, pair.spec.network)
    return _FEATURES[key]


def _floats(images: Tensor) -> Tensor:
    return (images.float() / 255 - 0.5) / 0.5 if images.dtype == torch.uint8 else images
