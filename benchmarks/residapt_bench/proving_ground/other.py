"""Pairs that are no digits and no Office-31: drones, features of a network, and series of sensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from residapt_bench.proving_ground.library import StandInConfig, detection_data, load_standin
from residapt_bench.proving_ground.networks import pooled_features
from residapt_bench.proving_ground.pair import Maker, Place, Rendered, Samples, as_tensor, random_numbers

DRONE_CLASSES = ("negative", "drone")
WAVES = ("sine", "square", "triangle", "beats", "chirp", "pulses")
"""Classes of the series."""
LENGTH = 64
SENSORS = 3
_STEPS_OF_ONE = 256
"""Readings are whole multiples of 1/256, as of a converter, so that last bits of a sine do not show."""

Numbers = NDArray[np.float64]


def drones(place: Place, seed: int, *, labelled: int) -> Rendered:
    """Drawn drones and photographed ones before negatives; half of the target are drones, some of them labelled."""
    tensors, counts = load_standin(place.root, place.cache, StandInConfig())
    data = detection_data(tensors, counts, validation=False)
    test = data.tests[0]
    few = None
    if labelled:
        chosen = torch.from_numpy(random_numbers("labelled drones", seed).permutation(len(data.real))[:labelled])
        few = _detection(data.negatives, data.real[chosen])
    most = max(len(data.negatives), len(data.real))
    return Rendered(
        source=_detection(data.source_negatives, data.synthetic),
        target=_detection(_repeated(data.negatives, most), _repeated(data.real, most)),
        test=_detection(test.negatives, test.drones),
        few=few,
        classes=DRONE_CLASSES,
    )


def _detection(negatives: torch.Tensor, positives: torch.Tensor) -> Samples:
    labels = torch.cat([torch.zeros(len(negatives)), torch.ones(len(positives))]).long()
    return Samples(torch.cat([negatives, positives]), labels)


def _repeated(images: torch.Tensor, count: int) -> torch.Tensor:
    return images[torch.arange(count) % len(images)]


def features(place: Place, seed: int, *, base: Maker) -> Rendered:
    """The 1,280 pooled features of EfficientNet-Lite0 in place of the pictures of ``base``."""
    pictures = base(place, seed)

    def of(samples: Samples) -> Samples:
        return Samples(pooled_features(place.root, samples.images), samples.labels)

    return replace(
        pictures,
        source=of(pictures.source),
        target=of(pictures.target),
        test=None if pictures.test is None else of(pictures.test),
        digest=f"pictures {pictures.checksum}",
    )


def drifted_series(
    place: Place, seed: int, *, gain: tuple[float, float], offset: float, noise: float, wander: float, speed: float
) -> Rendered:
    """Three sensors on a machine in six states; in the target they have drifted, and the machine's speed differs."""

    def drifted(count: int, role: str) -> Samples:
        rng = random_numbers("series", role, seed)
        values, labels = waves(count, rng, speed)
        return _read_off(_drift(values, rng, gain, offset, noise, wander), labels)

    rng = random_numbers("series source", seed)
    values, labels = waves(6_000, rng, 1.0)
    clean = _read_off(values + 0.1 * rng.standard_normal(values.shape), labels)
    return Rendered(source=clean, target=drifted(4_000, "target"), test=drifted(3_000, "test"), classes=WAVES)


def waves(count: int, rng: np.random.Generator, speed: float) -> tuple[Numbers, NDArray[np.int64]]:
    """Series (count, sensors, length) and their state: each sensor hears the same wave, later and less loud."""
    labels = rng.permutation(np.arange(count) % len(WAVES))
    rate = speed * rng.uniform(2.5, 4.5, (count, 1, 1))
    late = rng.random((count, 1, 1)) + np.array([0.0, 0.12, 0.31])[None, :, None]
    loud = rng.uniform(0.7, 1.3, (count, SENSORS, 1)) * np.array([1.0, 0.7, 0.5])[None, :, None]
    t = np.arange(LENGTH)[None, None, :] / LENGTH
    out = np.zeros((count, SENSORS, LENGTH))
    for state, wave in enumerate(_SHAPES):
        here = labels == state
        out[here] = loud[here] * wave(rate[here] * t + late[here], t)
    return out, labels


def _turn(phase: Numbers) -> Numbers:
    return np.sin(2 * np.pi * phase)


_SHAPES: tuple[Callable[[Numbers, Numbers], Numbers], ...] = (
    lambda phase, t: _turn(phase),
    lambda phase, t: np.where(phase % 1 < 0.5, 1.0, -1.0),
    lambda phase, t: 4 * np.abs(phase % 1 - 0.5) - 1,
    lambda phase, t: _turn(phase) * _turn(0.25 * phase),
    lambda phase, t: _turn(phase * (0.5 + 0.9 * t)),
    lambda phase, t: np.where(phase % 1 < 0.15, 1.6, -0.25),
)


def _drift(
    values: Numbers, rng: np.random.Generator, gain: tuple[float, float], offset: float, noise: float, wander: float
) -> Numbers:
    """One gain and offset for each sensor of the site, a slow wander of the zero, more noise."""
    sensors = random_numbers("drift of the sensors")
    gains = sensors.uniform(*gain, (1, SENSORS, 1))
    offsets = sensors.uniform(-offset, offset, (1, SENSORS, 1))
    t = np.arange(LENGTH)[None, None, :] / LENGTH
    slow = (
        wander * rng.standard_normal((len(values), SENSORS, 1)) * np.sin(np.pi * (t + rng.random((len(values), 1, 1))))
    )
    return gains * values + offsets + slow + noise * rng.standard_normal(values.shape)


def _read_off(values: Numbers, labels: NDArray[np.int64]) -> Samples:
    steps = np.floor(values * _STEPS_OF_ONE + 0.5).astype(np.float32) / _STEPS_OF_ONE
    return Samples(as_tensor(steps), as_tensor(labels))
