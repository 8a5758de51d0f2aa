"""Pairs made once, kept on disk under a digest of all their settings, and read from there."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from residapt_bench.proving_ground.library import ConfigError, DataError, atomic_file
from residapt_bench.proving_ground.pair import UNKNOWN, PairSpec, Place, ProvingPair, Rendered
from residapt_bench.proving_ground.registry import ALL_PAIRS

VERSION = 1
"""Raise it when a rendering changes in code: kept pairs are then made anew."""
CHECKSUMS = Path(__file__).with_name("checksums.json")


def spec_of(name: str) -> PairSpec:
    """The registry's entry."""
    if name not in ALL_PAIRS:
        near = difflib.get_close_matches(name, ALL_PAIRS, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Choose one of {', '.join(ALL_PAIRS)}."
        raise ConfigError(f"the proving ground has no pair '{name}'. {hint}")
    return ALL_PAIRS[name]


def load(name: str, root: Path, cache: Path, seed: int = 0) -> ProvingPair:
    """A pair, made from the data under ``root`` at the first time and read from ``cache`` after that.

    The seed decides which images are taken, how they are rendered and which target images are labelled.
    """
    spec = spec_of(name)
    path = cache / f"{name}-{cache_key(spec, root, seed)}.safetensors"
    if not path.exists():
        _keep(spec.make(Place(root, cache), seed), path)
    with safe_open(path, "pt") as kept:
        tensors = {key: kept.get_tensor(key) for key in kept.keys()}  # noqa: SIM118
        about = json.loads(kept.metadata()["pair"])
    return _pair(spec, seed, tensors, about, root)


def cache_key(spec: PairSpec, root: Path, seed: int) -> str:
    """A digest of everything that decides the pair: its settings, the seed, the files it is made from."""
    text = json.dumps([VERSION, seed, described(spec.make), [_files(root, name) for name in spec.reads]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def described(value: Any) -> Any:
    """Settings as JSON can hold them; of a partial function its name and settings, sorted."""
    if isinstance(value, partial):
        return [described(value.func), sorted((key, described(item)) for key, item in value.keywords.items())]
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return value


def recorded_checksums() -> dict[str, str]:
    """The committed checksums of the pairs of seed 0."""
    return {name: entry["sha256"] for name, entry in _manifest().items()}


def recorded_sizes() -> dict[str, tuple[int, int, int]]:
    """How many source, target and scored samples each pair of seed 0 has."""
    return {name: tuple(entry["sizes"]) for name, entry in _manifest().items()}


def write_manifest(pairs: Iterable[ProvingPair]) -> None:
    """Put the checksums and sizes of these pairs into the committed ones."""
    entries = _manifest()
    for pair in pairs:
        sizes = [len(pair.source_labels), len(pair.target_images), len(pair.target_test[1])]
        entries[pair.name] = {"sha256": pair.checksum, "sizes": sizes}
    ordered = {name: entries[name] for name in ALL_PAIRS if name in entries}
    CHECKSUMS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
    return found


def _files(root: Path, name: str) -> str:
    """A digest of names and sizes of the files in a data folder, to recognise them without reading them."""
    folder = root / name
    if not folder.is_dir():
        raise DataError(f"data folder '{folder}' does not exist. Put the data there, or give their folder as root.")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = "\n".join(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}" for path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _keep(made: Rendered, path: Path) -> None:
    about = {
        "classes": made.classes,
        "checksum": made.checksum,
        "unknown_share": float((made.target.labels == UNKNOWN).double().mean()),
    }
    with atomic_file(path, overwrite=True) as temporary:
        save_file(made.tensors(), temporary, metadata={"pair": json.dumps(about)})


def _pair(spec: PairSpec, seed: int, tensors: dict[str, Tensor], about: dict[str, Any], root: Path) -> ProvingPair:
    few = (tensors["few images"], tensors["few labels"]) if "few images" in tensors else None
    return ProvingPair(
        spec=spec,
        seed=seed,
        source_images=tensors["source images"],
        source_labels=tensors["source labels"],
        target_images=tensors["target images"],
        target_test=(tensors.get("test images", tensors["target images"]), tensors["test labels"]),
        few=few,
        classes=tuple(about["classes"]),
        unknown_share=about["unknown_share"],
        checksum=about["checksum"],
        root=root,
    )
