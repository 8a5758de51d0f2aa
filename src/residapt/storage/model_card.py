"""README.md of an adapter: what it is, how to use it, and what it changes."""

from __future__ import annotations

import html
import re

from residapt.storage.adapter_format import AdapterConfig

_HEAD = """---
library_name: residapt
pipeline_tag: image-classification
{base}tags:
- domain-adaptation
- residapt
---

# A residapt adapter

"""

_HUB_NAME = re.compile(r"hf:[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)

_USE = """## How to use it

```python
import residapt

streams = residapt.load(model, "this-folder/")  # model: the base network with its weights
logits = streams(images, stream="target")
network = streams.merge_and_unload()        # a plain torch.nn.Module for this domain
```
"""

_COMMANDS = """
On the command line, with a folder of images:

```
residapt predict this-folder/ images/ -o predictions.csv{base}
residapt inspect this-folder/
```
"""


def model_card(config: AdapterConfig) -> str:
    """The card as Markdown; names of classes and layers are escaped."""
    parts = [_HEAD.format(base=_base_model(config.model or "")) + _summary(config), _USE]
    if config.model is not None and config.input is not None:
        whole = set(config.carried) == set(config.tensors)
        parts[-1] += _COMMANDS.format(base="" if whole else " --base base-weights.safetensors")
    parts += [_classes(config), _input(config), _layers(config)]
    return "\n".join(part for part in parts if part)


def _base_model(spec: str) -> str:
    """A network of the Hugging Face Hub is named as the adapter's base there."""
    name = spec.removeprefix("hf:")
    return f"base_model: {name}\nbase_model_relation: adapter\n" if _HUB_NAME.fullmatch(spec) else ""


def _summary(config: AdapterConfig) -> str:
    network = f"the network {_code(config.model)}" if config.model else "a network"
    source = {
        "reference": "It needs the base network's weights, which it recognises by their hashes.",
        "included": "It carries the source weights that were trained on.",
    }[config.base]
    return (
        f"Adapts {network} to a new domain. Method: {_code(config.method)}; "
        f"written by residapt {_text(config.version)}.\n"
        f"{source} Batch norm: {config.transform.norm}.\n"
    )


def _classes(config: AdapterConfig) -> str:
    lines = "\n".join(f"{number}. {_text(name)}" for number, name in enumerate(config.classes))
    return f"## Classes, in the order of the outputs\n\n{lines}\n"


def _input(config: AdapterConfig) -> str:
    if config.input is None:
        return ""
    spec = config.input
    return (
        f"## Input\n\n{spec.size} x {spec.size} pixels, {spec.channels} channel(s), shorter side resized "
        f"({_text(spec.interpolation)}), centre cropped; values in [0, 1], then mean {list(spec.mean)} and "
        f"standard deviation {list(spec.std)} per channel.\n"
    )


def _layers(config: AdapterConfig) -> str:
    if not config.layers:
        return "## Layers\n\nNo layer is transformed: both domains share all weights.\n"
    rows = [
        f"| {_code(layer.name)} | {layer.shape[0]} x {layer.shape[1]} "
        f"| {_ranks(layer.before)} | {_ranks(layer.ranks)} | {layer.parameters:,} |"
        for layer in config.layers
    ]
    head = ["| layer | matrix | ranks at the start | ranks | parameters |", "|---|---|---|---|---|"]
    note = "Ranks 0, 0: both domains share the layer."
    return "\n".join(["## Layers", "", *head, *rows, "", note, ""])


def _ranks(ranks: tuple[int, int]) -> str:
    return f"{ranks[0]}, {ranks[1]}"


def _text(value: str) -> str:
    """Plain text in Markdown: no HTML, no markup, one line."""
    flat = html.escape(" ".join(value.split()))
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]#|!" else letter for letter in flat)


def _code(value: str) -> str:
    return f"<code>{_text(value)}</code>"
