"""Which photographs are trained on, which choose settings, and which are only scored. Groups stay together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from residapt.data.image_files import list_images
from residapt.errors import DataError
from residapt_bench.drones.render.near import groups_of, near_pairs, thumbnail
from residapt_bench.drones.render.photographs import open_grey

KINDS = ("drone", "bird")
COLLECTIONS = ("first", "second")
SIDES = ("train", "validation", "test", "second", "left out")


@dataclass(frozen=True)
class Photograph:
    """One file, and where it belongs."""

    path: Path
    collection: str
    kind: str
    group: int
    side: str


@dataclass(frozen=True)
class SplitCounts:
    """What the split did, for the record."""

    photographs: int
    groups: int
    largest_group: int
    left_out: int
    """Photographs of the second collection that are near-duplicates of a training photograph."""
    by_side: dict[str, int]
    """Photographs by ``side kind``."""


def find_photographs(root: Path) -> list[tuple[str, str, Path]]:
    """(collection, kind, path) of every photograph under ``dronebird/{first,second}/{drone,bird}``."""
    home = root / "dronebird" if (root / "dronebird").is_dir() else root
    missing = [f"{c}/{k}" for c in COLLECTIONS for k in KINDS if not (home / c / k).is_dir()]
    if missing:
        raise DataError(
            f"the stand-in's photographs are not all in '{home}': missing {', '.join(missing)}. It needs the folders "
            "first/drone, first/bird, second/drone and second/bird with images (docs/research/drones.md)."
        )
    found = [(c, k, path) for c in COLLECTIONS for k in KINDS for path in list_images(home / c / k)]
    empty = [f"{c}/{k}" for c in COLLECTIONS for k in KINDS if not any(f[:2] == (c, k) for f in found)]
    if empty:
        raise DataError(f"'{home / empty[0]}' has no images. Put the photographs there (docs/research/drones.md).")
    return found


def split_photographs(root: Path, *, labelled: int, birds: float, held: float, seed: int) -> list[Photograph]:
    """Every photograph with its side.

    ``labelled`` drones of the first collection and a share ``birds`` of its birds are for training, a share ``held``
    of both of these for validation; the rest of the first collection is the test. A photograph of the second that is a
    near-duplicate of one for training or validation is left out.
    """
    found = find_photographs(root)
    groups = groups_of(len(found), near_pairs(np.stack([thumbnail(open_grey(path)) for _, _, path in found])))
    first = {kind: sum(f[:2] == ("first", kind) for f in found) for kind in KINDS}
    if first["drone"] <= labelled:
        raise DataError(
            f"'first/drone' has {first['drone']} photographs, and {labelled} are to be labelled for training: none "
            "would be left to test. Put more photographs there."
        )
    rng = np.random.default_rng(seed)
    order = [groups[i] for i in rng.permutation(len(groups))]
    room = {"drone": labelled, "bird": round(birds * first["bird"])}
    train = _fill(order, found, room)
    chosen = [group for group, taken in zip(order, train, strict=True) if taken]
    validation = _fill(chosen, found, {kind: round(held * count) for kind, count in room.items()})
    sides = {id(group): "validation" if v else "train" for group, v in zip(chosen, validation, strict=True)}
    placed = [(number, sides.get(id(group)), group) for number, group in enumerate(groups)]
    photographs = {i: _photograph(found[i], number, side) for number, side, group in placed for i in group}
    return [photographs[i] for i in range(len(found))]


def count_split(photographs: list[Photograph]) -> SplitCounts:
    """How many photographs and groups there are, and where."""
    sizes: dict[int, int] = {}
    for one in photographs:
        sizes[one.group] = sizes.get(one.group, 0) + 1
    names = [f"{one.side} {one.kind}" for one in photographs]
    return SplitCounts(
        photographs=len(photographs),
        groups=len(sizes),
        largest_group=max(sizes.values()),
        left_out=sum(one.side == "left out" for one in photographs),
        by_side={name: names.count(name) for name in sorted(set(names))},
    )


def _fill(groups: list[list[int]], found: list[tuple[str, str, Path]], room: dict[str, int]) -> list[bool]:
    """Which groups are taken, in turn, while they fit; only photographs of the first collection count."""
    left, taken = dict(room), []
    for group in groups:
        need = {kind: sum(found[i][:2] == ("first", kind) for i in group) for kind in KINDS}
        fits = any(need.values()) and all(need[kind] <= left[kind] for kind in KINDS)
        taken.append(fits)
        if fits:
            left = {kind: left[kind] - need[kind] for kind in KINDS}
    return taken


def _photograph(found: tuple[str, str, Path], group: int, side: str | None) -> Photograph:
    collection, kind, path = found
    if collection == "second":
        return Photograph(path, collection, kind, group, "second" if side is None else "left out")
    return Photograph(path, collection, kind, group, side or "test")
