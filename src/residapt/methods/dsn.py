r"""Domain Separation Networks (Bousmalis et al. 2016): private and shared features; a decoder needs both.

.. math:: L = L_{task} + \alpha L_{recon} + \beta L_{difference} + \gamma L_{similarity}

* :math:`L_{recon}`: scale-invariant squared error of both domains, decoded from shared plus private features;
* :math:`L_{difference}`: soft orthogonality of shared and private features, both domains;
* :math:`L_{similarity}`: a discrepancy of the shared features, by gradient reversal unless
  ``discrepancy.kind`` says otherwise (the paper also uses ``mk_mmd``).

The shared encoder and the classifier are the network as given; its features are what ``dsn.layer`` names.
Private encoders and decoder are built for the shape of the input and discarded after training: images get the
authors' ``default_encoder`` and ``small_decoder``, their widths scaled to the shared features; inputs that are not
images get perceptrons of the same depth. Until ``dsn.start_share`` of the training
only :math:`L_{task}` counts.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.losses.classification import weighted_cross_entropy
from residapt.losses.gather import gather_features
from residapt.losses.reconstruction import difference_loss, scale_invariant_mse
from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.discrepancy.base import Discrepancy
from residapt.methods.discrepancy.layers import PENULTIMATE, resolve_layer
from residapt.methods.registry import probe, register, shared_streams
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Losses, weighted_sum

_CODE = 300
"""Units of the decoder's first layer, laid out as 3 maps of 10 x 10."""
_HIDDEN = 128
"""Units of the hidden layer that stands for the two convolutions when inputs are not images."""


class DSN(Alignment):
    """One network for both domains, a private encoder for each, and a decoder."""

    name = "dsn"

    def __init__(
        self,
        streams: TwoStream,
        discrepancy: Discrepancy,
        config: MethodConfig,
        *,
        layer: str,
        shape: torch.Size,
        width: int,
    ) -> None:
        super().__init__(streams, discrepancy, config, select_ranks=False)
        self.layer = layer
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.discrepancy.seed)
            self.private = nn.ModuleDict({domain: private_encoder(shape, width) for domain in ("source", "target")})
            self.decoder = decoder(shape, width)

    @property
    def inner(self) -> tuple[str, ...]:
        """What the discrepancy reads, and the shared features."""
        return (*super().inner, self.layer)

    def discrepancy_weight(self, progress: float) -> float:
        r""":math:`\gamma` times the weight that every method's discrepancy has."""
        return self.config.dsn.gamma * super().discrepancy_weight(progress)

    def losses(self, batch: Batch, progress: float) -> Losses:
        """All four terms, or the classification loss alone in the first part of the training."""
        if progress >= self.config.dsn.start_share:
            return super().losses(batch, progress)
        batch = self.changed(batch)
        counts = self.source_weights(batch.labels)
        parts = {"class": weighted_cross_entropy(self.streams(batch.source), batch.labels, counts)}
        if batch.few is not None and batch.few_labels is not None:
            parts["target_class"] = functional.cross_entropy(self.streams(batch.few, stream="target"), batch.few_labels)
        return weighted_sum(parts, {"target_class": self.config.few_weight})

    def more_losses(self, batch: Batch, source: Outputs, target: Outputs) -> dict[str, tuple[float, Tensor]]:
        """Reconstruction and difference, each summed over the domains."""
        terms = [
            self._separate(batch.source, source, "source"),
            self._separate(batch.target, target, "target"),
        ]
        settings = self.config.dsn
        return {
            "reconstruction": (settings.alpha, terms[0][0] + terms[1][0]),
            "difference": (settings.beta, terms[0][1] + terms[1][1]),
        }

    def _separate(self, x: Tensor, outputs: Outputs, domain: str) -> tuple[Tensor, Tensor]:
        """Reconstruction and difference of one domain; shared and private features are added."""
        shared = outputs.inner[self.layer].flatten(1)
        private = self.private[domain](x)
        return scale_invariant_mse(self.decoder(shared + private), x), difference_loss(
            gather_features(private), gather_features(shared)
        )


@register("dsn")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DSN:
    """Domain Separation Networks: private and shared features, and a decoder that needs both. Bousmalis et al. 2016."""
    streams = shared_streams(model, config)
    layer = resolve_layer(streams, config.dsn.layer or PENULTIMATE, example)
    assert layer is not None
    width = probe(streams, example, (layer,)).inner[layer].flatten(1).shape[1]
    discrepancy = build_discrepancy(config.discrepancy, "reversal", streams, example)
    made = DSN(streams, discrepancy, config, layer=layer, shape=example.shape[1:], width=width)
    made.private.to(example)
    made.decoder.to(example)
    return made


def _dense(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())


def _convolution(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def private_encoder(shape: torch.Size, width: int) -> nn.Module:
    """Encoder of one domain: two 5x5 convolutions (32, 64), each pooled, and a fully connected layer."""
    if len(shape) != 3:
        return nn.Sequential(nn.Flatten(), _dense(math.prod(shape), _HIDDEN), _dense(_HIDDEN, width))
    channels, height, width_in = shape
    # Pooling as TensorFlow's SAME does: an odd side is rounded up.
    side = math.ceil(math.ceil(height / 2) / 2) * math.ceil(math.ceil(width_in / 2) / 2)
    return nn.Sequential(
        _convolution(channels, 32, 5),
        nn.MaxPool2d(2, ceil_mode=True),
        _convolution(32, 64, 5),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        _dense(64 * side, width),
    )


def decoder(shape: torch.Size, width: int) -> nn.Module:
    """From shared plus private features back to a sample of ``shape``; one for both domains."""
    if len(shape) == 3:
        return ImageDecoder(shape, width)
    return nn.Sequential(_dense(width, _CODE), nn.Linear(_CODE, math.prod(shape)), nn.Unflatten(1, tuple(shape)))


class ImageDecoder(nn.Module):
    """300 units as 3 x 10 x 10, two 3x3 convolutions (16), nearest-neighbour resize, two more."""

    def __init__(self, shape: torch.Size, width: int) -> None:
        super().__init__()
        channels, height, width_out = shape
        self.size = (height, width_out)
        self.code = _dense(width, _CODE)
        self.small = nn.Sequential(_convolution(3, 16, 3), _convolution(16, 16, 3))
        self.large = nn.Sequential(_convolution(16, 16, 3), nn.Conv2d(16, channels, 3, padding=1))

    def forward(self, features: Tensor) -> Tensor:
        """Images."""
        maps = self.small(self.code(features).unflatten(1, (3, 10, 10)))
        images: Tensor = self.large(functional.interpolate(maps, size=self.size, mode="nearest"))
        return images
