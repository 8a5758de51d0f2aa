"""The building blocks in a training loop of your own: two streams, domain confusion, stream loss, rank selection.

Run it with ``python examples/own_loop.py``; it takes about a minute on two cores. This is residual parameter transfer
in thirty lines, for people who have a loop already and want to keep it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from residapt import RankConfig, TwoStream, frozen
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.losses import DomainClassifier, domain_logits, domain_loss, flipped_loss, stream_loss
from residapt.models import LeNet
from residapt.rank import shrink


def batches(images: Tensor, labels: Tensor, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Some images, scaled to [-1, 1], with their labels."""
    index = torch.randint(len(images), (size,), generator=generator)
    return images[index].float() / 127.5 - 1, labels[index]


def train_source(network: LeNet, images: Tensor, labels: Tensor, steps: int, random: torch.Generator) -> None:
    """The usual loop on the labelled domain."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(steps):
        x, y = batches(images, labels, 128, random)
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        optimizer.step()


def adapt(
    network: LeNet, source: tuple[Tensor, Tensor], target: Tensor, steps: int, random: torch.Generator
) -> TwoStream:
    """The same loop with a second stream; ``target`` has no labels."""
    streams = TwoStream(network, left_rank=32, right_rank=32)
    adversary = DomainClassifier(10)  # it reads the ten logits
    rank = RankConfig(every=max(1, steps // 10), step=6e-3)
    nobody = torch.zeros(len(target), dtype=torch.long)
    optimizer = torch.optim.Adam([*streams.parameters(), *adversary.parameters()], lr=2e-4, betas=(0.5, 0.999))
    for step in range(1, steps + 1):
        (x_s, y_s), (x_t, _) = batches(*source, 64, random), batches(target, nobody, 64, random)
        residuals = streams.residuals()  # once a step: both calls below use them
        s, t = streams.both(x_s, x_t, residuals=residuals)
        with frozen(adversary):  # Eq. 6: the network confuses the domain classifier ...
            confusion = flipped_loss(domain_logits(adversary, s.features, t.features))
        own = domain_loss(domain_logits(adversary, s.features.detach(), t.features.detach()))  # ... which fights back
        loss = functional.cross_entropy(s.logits, y_s) + confusion + own
        energy = streams.energy(residuals)
        if energy is not None:  # None once rank selection has made both domains share every layer
            loss = loss + stream_loss(energy)  # Eq. 7
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank.due(step):
            # Algorithm 1, lines 3-6; the optimiser's state is pruned too.
            for change in shrink(streams, rank, optimizer):
                print(f"step {step}: {change.layer} {change.before} -> {change.after}")
    return streams


def accuracy(streams: TwoStream, images: Tensor, labels: Tensor, stream: str) -> float:
    """In per cent."""
    with torch.no_grad():
        logits = streams.eval()(images.float() / 127.5 - 1, stream=stream)
    return 100 * float((logits.argmax(1) == labels).double().mean())


def main(source_steps: int = 400, steps: int = 400) -> float:
    """Train, adapt, score."""
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    printed, written = printed_digits(4000), handwritten_digits()
    unlabelled, scored = written.images[:900], written.subset(range(900, len(written)))
    network = LeNet()
    train_source(network, printed.images, printed.labels, source_steps, random)
    before = accuracy(TwoStream(network, include=()), scored.images, scored.labels, "source")
    streams = adapt(network.train(), (printed.images, printed.labels), unlabelled, steps, random)
    after = accuracy(streams, scored.images, scored.labels, "target")
    print(f"source network {before:.1f} %, adapted {after:.1f} %; ranks {streams.ranks()}")
    return after


if __name__ == "__main__":
    main()
