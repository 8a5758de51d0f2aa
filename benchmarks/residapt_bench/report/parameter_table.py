"""How many parameters each method has while it is trained: the tables of docs/reference/methods.md.

``python -m residapt_bench.report.parameter_table lenet``
"""

from __future__ import annotations

import sys

import torch

from residapt.errors import ModelError
from residapt.methods import build_method, method_names
from residapt.methods.parameters import ParameterCount, count_parameters
from residapt.models import build_model
from residapt.models.input_spec import NATIVE


def count_methods(spec: str) -> dict[str, ParameterCount]:
    """Counts of the methods that a native network can have, with ten classes."""
    size, channels = NATIVE[spec].input.size, NATIVE[spec].input.channels
    counts = {}
    for name in method_names():
        network = build_model(spec, num_classes=10, in_channels=channels, image_size=size)
        try:
            method = build_method(name, network, example=torch.zeros(2, channels, size, size))
        except ModelError:  # the network has no layers of the kind that the method changes
            continue
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


if __name__ == "__main__":
    sys.stdout.write(markdown_table(count_methods(sys.argv[1])) + "\n")
