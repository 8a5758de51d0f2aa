"""A pair of pictures as folders, as the command line reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PIL import Image
from torch import Tensor

from residapt_bench.proving_ground.library import ConfigError
from residapt_bench.proving_ground.pair import ProvingPair


def write_folders(
    pair: ProvingPair, folder: Path, *, suffix: Literal["png", "jpg"] = "png", limit: int | None = None
) -> None:
    """Write ``source/CLASS/``, ``target/``, ``test/CLASS/`` and, where there are labelled ones, ``few/CLASS/``.

    Each part has at most ``limit`` images. The target's names tell no labels.
    """
    if not pair.is_images:
        raise ConfigError(f"pair '{pair.name}' has no pictures but {pair.spec.network} inputs. Use its tensors.")
    if folder.exists():
        raise ConfigError(f"folder '{folder}' exists already. Choose another name.")
    _write_classes(pair, pair.source, folder / "source", suffix, limit)
    _write_classes(pair, pair.target_test, folder / "test", suffix, limit)
    if pair.few is not None:
        _write_classes(pair, pair.few, folder / "few", suffix, limit)
    (folder / "target").mkdir()
    for number, image in enumerate(pair.target_images[_spread(len(pair.target_images), limit)]):
        _write(image, folder / "target" / f"{number:06}.{suffix}")


def _write_classes(
    pair: ProvingPair, samples: tuple[Tensor, Tensor], folder: Path, suffix: str, limit: int | None
) -> None:
    images, labels = samples
    for label in sorted(set(labels.tolist())):
        (folder / pair.classes[label]).mkdir(parents=True)
    for number in range(*_spread(len(labels), limit).indices(len(labels))):
        _write(images[number], folder / pair.classes[int(labels[number])] / f"{number:06}.{suffix}")


def _spread(count: int, limit: int | None) -> slice:
    """Every n-th sample, since some sets are sorted by class."""
    return slice(0, count, 1 if limit is None else max(1, -(-count // limit)))


def _write(image: Tensor, path: Path) -> None:
    pixels = image.numpy()
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    picture.save(path, quality=95)  # PNG has no quality and passes over it
