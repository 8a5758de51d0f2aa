"""SVHN, MNIST and USPS, read from the files in which they are published."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.io import loadmat

from residapt.data.imageset import ImageSet
from residapt.errors import ConfigError, DataError

# MD5 of the published files. torchvision unpacks MNIST after a download, so both forms are listed.
_OFFICIAL = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    "extra_32x32.mat": "a93ce644f1a588dc4d68dda5feec44a7",
    "usps.bz2": "ec16c51db3855ca6c91edd34d0e9b197",
    "usps.t.bz2": "8ea070ee2aca1ac39742fdd1ef5ed118",
}
_FOLDERS = {
    "MNIST": ("", "raw", "MNIST/raw", "mnist", "mnist/raw", "mnist/MNIST/raw"),
    "SVHN": ("", "svhn", "SVHN"),
    "USPS": ("", "usps", "USPS"),
}
_IDX_MAGIC = {3: 2051, 1: 2049}


def read_svhn(root: str | Path, split: str) -> ImageSet:
    """``{train,test,extra}_32x32.mat``: 32x32 RGB, with label 10 turned into 0."""
    _require_split("SVHN", split, ("train", "test", "extra"))
    path = _find("SVHN", Path(root), split, (f"{split}_32x32.mat",))
    try:
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].reshape(-1).astype(np.int64) % 10
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise _damaged(path, error) from error
    return _image_set(pixels, labels, f"svhn-{split}", path)


def read_mnist(root: str | Path, split: str) -> ImageSet:
    """``{train,t10k}-{images-idx3,labels-idx1}-ubyte``, plain or ``.gz``: 28x28 grey."""
    _require_split("MNIST", split, ("train", "test"))
    stem = "train" if split == "train" else "t10k"
    paths = []
    for part in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        names = (f"{stem}-{part}", f"{stem}-{part}.gz")
        paths.append(_find("MNIST", Path(root), split, names))
    images, labels = _read_idx(paths[0], 3), _read_idx(paths[1], 1)
    return _image_set(torch.from_numpy(images)[:, None], labels.astype(np.int64), f"mnist-{split}", *paths)


def read_usps(root: str | Path, split: str) -> ImageSet:
    """``usps`` and ``usps.t`` in LIBSVM's text form, plain or ``.bz2``: 16x16 grey."""
    _require_split("USPS", split, ("train", "test"))
    stem = "usps" if split == "train" else "usps.t"
    path = _find("USPS", Path(root), split, (f"{stem}.bz2", stem))
    try:
        values, labels = _read_libsvm(path)
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(path, error) from error
    pixels = np.rint((values + 1) * 127.5).clip(0, 255).astype(np.uint8)
    return _image_set(torch.from_numpy(pixels.reshape(-1, 1, 16, 16)), labels - 1, f"usps-{split}", path)


def _read_idx(path: Path, ndim: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An IDX file of bytes: magic number and sizes as big-endian integers, then the values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        magic, *shape = (int(value) for value in np.frombuffer(raw, ">i4", 1 + ndim))
        if magic != _IDX_MAGIC[ndim]:
            raise ValueError(f"it starts with {magic} instead of {_IDX_MAGIC[ndim]}")
        # A copy, because torch needs memory that may be written.
        values = np.frombuffer(raw, np.uint8, offset=4 * (1 + ndim))
        return np.array(values.reshape(tuple(shape)), dtype=np.uint8)
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(path, error) from error


def _read_libsvm(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows ``label 1:value ... 256:value``; an index that is left out stands for the value 0."""
    raw = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
    pairs = np.array([line.count(b":") for line in raw.splitlines() if line.strip()])
    numbers = _numbers(raw.replace(b":", b" "))
    if len(numbers) != len(pairs) + 2 * pairs.sum():
        raise ValueError("a row does not read 'label index:value index:value ...'")
    at = np.cumsum(1 + 2 * pairs) - (1 + 2 * pairs)
    entries = np.delete(numbers, at).reshape(-1, 2)
    index = entries[:, 0].astype(np.int64) - 1
    if len(index) and not (index.min() >= 0 and index.max() < 256):
        raise ValueError(f"an index is outside 1 to 256: {index.min() + 1} or {index.max() + 1}")
    values = np.zeros((len(pairs), 256))
    values[np.repeat(np.arange(len(pairs)), pairs), index] = entries[:, 1]
    return values, numbers[at].astype(np.int64)


def _numbers(text: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """All numbers of a text; anything else is refused (numpy itself only warns, and stops there)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text.decode("ascii"), dtype=np.float64, sep=" ")
        except DeprecationWarning as error:
            raise ValueError("it holds something that is not a number") from error


def _image_set(images: torch.Tensor, labels: np.ndarray[Any, Any], name: str, *paths: Path) -> ImageSet:
    sums = [_md5(path) for path in paths]
    official = all(_OFFICIAL.get(path.name) == md5 for path, md5 in zip(paths, sums, strict=True))
    return ImageSet(images, torch.from_numpy(labels), name, official, "+".join(sums))


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _find(family: str, root: Path, split: str, names: tuple[str, ...]) -> Path:
    """The first of ``names`` in the folders where such files usually are."""
    candidates = [root / folder / name for folder in _FOLDERS[family] for name in names]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        folders = ", ".join(dict.fromkeys(str(path.parent) for path in candidates))
        raise DataError(f"{family} {split}: no file {' or '.join(names)} in {folders}. Put the published file there.")
    return found


def _require_split(family: str, split: str, splits: tuple[str, ...]) -> None:
    if split not in splits:
        raise ConfigError(f"{family} has no split {split!r}. Choose one of {', '.join(splits)}.")


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read: {error}. Delete the file and get it again.")
