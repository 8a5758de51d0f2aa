"""How many parameters a system has while it is trained, and how many of them are used afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from residapt.losses.adversarial import DomainClassifier
from residapt.train.method import Method


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by what they are for."""

    network: int
    """The network, with everything that exists a second time for the target, trained or frozen."""
    transform: int
    """What relates the streams: RPT's factors, the two-stream network's a and b."""
    adversary: int
    """Thrown away after training: domain classifier, private encoders, decoder."""
    domain_classifier: int
    """The domain classifier's share of ``adversary``."""
    total_training: int
    """All of them."""
    trained: int
    """Those of them that the optimiser changes."""
    deployed: int
    """The plain network for the target domain."""


def count_parameters(method: Method) -> ParameterCount:
    """Count a method's parameters as they are now; ranks that fall later lower ``transform``."""
    groups = method.groups()
    total = _size(method.own_parameters())
    transform, adversary = _size(groups["transform"]), _size(groups["adversary"])
    return ParameterCount(
        network=total - transform - adversary,
        transform=transform,
        adversary=adversary,
        domain_classifier=_size(p for m in method.modules() if isinstance(m, DomainClassifier) for p in m.parameters()),
        total_training=total,
        trained=_size(p for group in groups.values() for p in group if p.requires_grad),
        deployed=_size(method.streams.model.parameters()),
    )


def _size(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
