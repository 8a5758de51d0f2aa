"""Adapt a network of your own to unlabelled images, from tensors in memory, in about a minute on two cores.

Run it with ``python examples/adapt_tensors.py``. Nothing is downloaded: the labelled images are printed digits that the
program draws, the unlabelled ones are real handwritten digits. Replace them, and the network, by yours.
"""

from __future__ import annotations

import torch
from torch import nn

import residapt
from residapt.data.synthetic import handwritten_digits, printed_digits


def my_network() -> nn.Module:
    """Any ``nn.Module`` that returns logits; nothing has to be split into features and classifier."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 10)),
    )


def main(source_steps: int = 400, steps: int = 400) -> float:
    """Adapt, and give the accuracy on held-out handwritten digits."""
    printed, written = printed_digits(4000), handwritten_digits()
    unlabelled, scored = written.subset(range(900)), written.subset(range(900, len(written)))

    torch.manual_seed(0)
    run = residapt.adapt(
        my_network(),
        source=(printed.images, printed.labels),
        target=unlabelled.images,  # no labels
        evaluate=(scored.images, scored.labels),  # used for the accuracy at the end, and for nothing else
        steps=steps,
        **{"pretrain.steps": source_steps},
    )
    before, after = run.summary.accuracies
    print(f"source network {before.percent:.1f} %, adapted {after.percent:.1f} % ({after.protocol})")
    print("helped, judged without labels:", run.verdict.helped, *run.verdict.reasons, sep="\n  ")
    for layer in run.summary.ranks:
        print(f"layer {layer.layer}: ranks {layer.before} -> {layer.after}")

    network = run.merge_and_unload()  # a plain nn.Module: save it, export it, use it
    with torch.no_grad():
        logits = network((scored.images.float() / 255 - 0.5) / 0.5)
    return 100 * float((logits.argmax(1) == scored.labels).double().mean())


if __name__ == "__main__":
    print(f"the merged network alone: {main():.1f} %")
