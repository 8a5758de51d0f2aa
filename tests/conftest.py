"""Small networks, one of each kind that residapt meets, and data for them. Everything is float64 and seeded."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.models import LeNet
from support.digit_folders import digit_folders

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell lets what it starts in the background ignore Ctrl-C, and so would all processes that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("residapt", max_examples=25, deadline=None, derandomize=True)
settings.load_profile("residapt")


class Net(NamedTuple):
    """A network with a batch that it accepts."""

    model: nn.Module
    x: Tensor


class TinyResNet(nn.Module):
    """A stem, a plain block and a block with a projection, batch norm throughout, no biases in convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.conv1 = nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(6)
        self.down = nn.Sequential(nn.Conv2d(4, 6, 1, stride=2, bias=False), nn.BatchNorm2d(6))
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        inner = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.relu(inner + self.down(x)).mean((2, 3)))


class TinyTransformer(nn.Module):
    """A linear embedding, two encoder layers, the mean over the sequence, a head."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


class TiedNet(nn.Module):
    """One weight under two names, and one module called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.twice = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.head(self.twice(torch.tanh(self.twice(x))))


class Attend(nn.Module):
    """Attention over a sequence; with ``kdim`` keys and values are narrower than the queries."""

    def __init__(self, *, packed: bool, bias: bool) -> None:
        super().__init__()
        self.packed = packed
        sizes = {} if packed else {"kdim": 3, "vdim": 2}
        self.layer = nn.MultiheadAttention(4, 2, bias=bias, batch_first=True, **sizes)

    def forward(self, x: Tensor) -> Tensor:
        key, value = (x, x) if self.packed else (x[..., :3], x[..., 1:3])
        return self.layer(x, key, value, need_weights=False)[0].movedim(1, -1)


class LayerNet(nn.Module):
    """One layer of the wanted kind, tanh, the mean over all positions, a head."""

    def __init__(self, layer: nn.Module, width: int, bias: bool) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, 3, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x)).flatten(2).mean(2))


class Mean(nn.Module):
    """A network without any layer that could be transformed."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :3]


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), (5, 6)),
    "lenet": (lambda: LeNet(image_size=16), (3, 1, 16, 16)),
    "resnet": (TinyResNet, (5, 2, 6, 6)),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 5, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(15, 3)
        ),
        (4, 2, 9),
    ),
    "transformer": (TinyTransformer, (4, 5, 3)),
    "tied": (TiedNet, (5, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 3)), (5, 6)),
    "none": (Mean, (4, 6)),
}

LAYERS: dict[str, tuple[Callable[[bool], nn.Module], int, tuple[int, ...]]] = {
    "linear": (lambda b: nn.Sequential(nn.Linear(4, 5, bias=b), nn.Unflatten(1, (5, 1))), 5, (4, 4)),
    "conv1d": (lambda b: nn.Conv1d(2, 5, 3, bias=b), 5, (4, 2, 6)),
    "conv2d": (lambda b: nn.Conv2d(2, 5, 3, bias=b), 5, (4, 2, 5, 5)),
    "conv3d": (lambda b: nn.Conv3d(2, 5, 2, bias=b), 5, (4, 2, 3, 3, 3)),
    "conv_transpose1d": (lambda b: nn.ConvTranspose1d(2, 5, 3, stride=2, bias=b), 5, (4, 2, 4)),
    "conv_transpose2d": (lambda b: nn.ConvTranspose2d(2, 5, 3, stride=2, bias=b), 5, (4, 2, 3, 3)),
    "conv_transpose3d": (lambda b: nn.ConvTranspose3d(2, 5, 2, bias=b), 5, (4, 2, 3, 2, 2)),
    "grouped": (lambda b: nn.Conv2d(4, 6, 3, groups=2, bias=b), 6, (4, 4, 5, 5)),
    "grouped_transpose": (lambda b: nn.ConvTranspose2d(4, 6, 3, groups=2, bias=b), 6, (4, 4, 3, 3)),
    "depthwise": (lambda b: nn.Conv2d(4, 4, 3, groups=4, bias=b), 4, (4, 4, 5, 5)),
    "attention": (lambda b: Attend(packed=True, bias=b), 4, (4, 3, 4)),
    "attention_kv": (lambda b: Attend(packed=False, bias=b), 4, (4, 3, 4)),
}


def _made(model: nn.Module, shape: tuple[int, ...], seed: int) -> Net:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        # PyTorch starts some biases and all affine parameters at 0 or 1, where a mistake would not show.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return Net(model.double(), torch.randn(shape, generator=generator, dtype=torch.float64))


@pytest.fixture(scope="session")
def nets() -> Callable[..., Net]:
    """``nets("resnet")``: a fresh network of that name and a batch for it."""

    def make(name: str, seed: int = 0) -> Net:
        build, shape = NETS[name]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _made(build(), shape, seed)

    return make


@pytest.fixture(scope="session")
def layer_nets() -> Callable[..., Net]:
    """``layer_nets("conv3d", bias=False)``: a network around one layer of that kind."""

    def make(kind: str, *, bias: bool = True, seed: int = 0) -> Net:
        build, width, shape = LAYERS[kind]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _made(LayerNet(build(bias), width, bias), shape, seed)

    return make


def keep_precision(images: Tensor, _generator: torch.Generator) -> Tensor:
    """A batch transform that leaves float64 as it is."""
    return images


@pytest.fixture(scope="session")
def pairs() -> Callable[..., DomainPair]:
    """``pairs((2, 6, 6))``: a source of three classes and a shifted target, with a few labelled target images."""

    def make(shape: tuple[int, ...], *, size: int = 24, few: int = 0, seed: int = 0) -> DomainPair:
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
        labels = torch.arange(size) % 3

        def images(count: int, shift: float) -> TensorImages:
            noise = 0.3 * torch.randn(count, *shape, generator=generator, dtype=torch.float64)
            return TensorImages(centres[labels[:count]] + noise + shift, keep_precision)

        source, target = Labelled(images(size, 0.0), labels), images(size, 0.5)
        return DomainPair(source, target, Labelled(images(few, 0.5), labels[:few]) if few else None)

    return make


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of the tests' own, for their child processes as well."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("RESIDAPT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``printed``, ``written`` and ``scored``; do not change them."""
    return digit_folders(tmp_path_factory.mktemp("digits"))
