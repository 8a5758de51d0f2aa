"""How many parameters a system has while it is trained, and how many of them are used afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from residapt.losses.adversarial import DomainClassifier
from residapt.methods.config import MethodConfig
from residapt.methods.registry import build_method, method_names
from residapt.models import build_model
from residapt.models.input_spec import NATIVE
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
        deployed=_size(method.two.model.parameters()),
    )


def _size(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def count_methods(
    spec: str, names: Sequence[str] | None = None, config: MethodConfig | None = None
) -> dict[str, ParameterCount]:
    """Counts of the named methods (without names, of all) around a native network with ten classes."""
    size, channels = NATIVE[spec].input.size, NATIVE[spec].input.channels
    counts = {}
    for name in names or method_names():
        network = build_model(spec, num_classes=10, in_channels=channels, image_size=size)
        method = build_method(name, network, config, example=torch.zeros(2, channels, size, size))
        counts[name] = count_parameters(method)
    return counts


def markdown_table(counts: dict[str, ParameterCount]) -> str:
    """The counts as a table; the last columns are multiples of the deployed network."""
    rows = [
        "| method | network | transform | helpers | of them D | in training | × without D | × in all |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, c in counts.items():
        alone = (c.total_training - c.domain_classifier) / c.deployed
        rows.append(
            f"| `{name}` | {c.network:,} | {c.transform:,} | {c.adversary:,} | {c.domain_classifier:,} "
            f"| {c.total_training:,} | {alone:.2f} | {c.total_training / c.deployed:.2f} |"
        )
    return "\n".join(rows)
