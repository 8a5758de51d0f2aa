"""The stand-in: drawn drones as source, photographed ones as target, and a file that keeps the patches."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from pydantic import Field
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, cat

from residapt.data.batches import derived_seed
from residapt.errors import DataError
from residapt.settings import Settings
from residapt.storage.atomic import atomic_file
from residapt_bench.drones.patches import DetectionData, ScoredSet, as_patches, names_digest
from residapt_bench.drones.render.draw import SIDE, Looks, draw_photograph, expose, studio
from residapt_bench.drones.render.photographs import Pixels, cut, open_grey, patches_of, plain_cut, whole
from residapt_bench.drones.render.split import Photograph, count_split, find_photographs, split_photographs
from residapt_bench.drones.render.view import Plane
from residapt_bench.source_networks import locked

VERSION = 1
"""Raise it when the drawing or the cutting changes: kept patches are then made anew."""
Counted = Callable[[str, int, int], None]


class StandInConfig(Settings):
    """What the stand-in is made of."""

    seed: int = 0
    """Seed of split, cut-outs and drawing; not of training."""
    labelled: int = Field(200, ge=4)
    """Photographed drones for training."""
    birds: float = Field(0.4, gt=0, lt=1)
    """Share of the bird photographs for training."""
    held: float = Field(0.25, gt=0, lt=1)
    """Share of the training photographs on which settings are chosen."""
    synthetic: int = Field(4000, ge=1)
    """Drawn drones."""
    source_negatives: int = Field(6000, ge=1)
    """Negatives of the source, through the same camera as the drawn drones."""
    crops: int = Field(8, ge=1)
    """Cut-outs of each training photograph of birds, beside the whole one."""
    ratio: float = Field(20.0, gt=0)
    """Test negatives for each test drone, at least."""

    def key(self, paths: Sequence[Path]) -> str:
        """A name of the patches: the same for the same settings, files, drawing and version."""
        text = f"{VERSION} {self.model_dump_json()} {json.dumps(asdict(Looks()))} {names_digest(paths)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_standin(
    root: Path, cache: Path, config: StandInConfig | None = None, *, on_count: Counted = lambda name, done, total: None
) -> tuple[dict[str, Tensor], dict[str, object]]:
    """The patches by name and the counts of the split; drawn and cut once, then read from ``cache``."""
    config = config or StandInConfig()
    key = config.key([path for _, _, path in find_photographs(root)])
    file = cache / f"drone-standin-{key}.safetensors"
    with locked(file):
        if not file.exists():
            tensors, counts = build_standin(root, config, on_count)
            with atomic_file(file, overwrite=True) as temporary:
                save_file(tensors, temporary, metadata={"counts": json.dumps({"key": key, **counts})})
    with safe_open(file, "pt") as kept:
        found = {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
        return found, json.loads(kept.metadata()["counts"])


def detection_data(tensors: dict[str, Tensor], counts: dict[str, object], *, validation: bool) -> DetectionData:
    """The patches as a task: scored on the held-out training photographs, or on the test."""
    if validation:
        real, negatives = tensors["train drone"], tensors["train bird"]
        tests: tuple[ScoredSet, ...] = (
            ScoredSet("validation", tensors["validation drone"], tensors["validation bird"]),
        )
    else:
        real = cat([tensors["train drone"], tensors["validation drone"]])
        negatives = cat([tensors["train bird"], tensors["validation bird"]])
        tests = tuple(
            ScoredSet(name, tensors[f"{side} drone"], tensors[f"{side} bird"])
            for name, side in (("target_test", "test"), ("second", "second"))
        )
    files = (f"stand-in {json.dumps(counts)}",)
    return DetectionData(tensors["synthetic"], tensors["source negative"], real, negatives, tests, files)


def build_standin(
    root: Path, config: StandInConfig, on_count: Counted = lambda name, done, total: None
) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Split, cut and draw everything."""
    photographs = split_photographs(
        root, labelled=config.labelled, birds=config.birds, held=config.held, seed=config.seed
    )
    members: dict[tuple[str, str], list[Photograph]] = {}
    for one in photographs:
        members.setdefault((one.side, one.kind), []).append(one)
    tensors: dict[str, Tensor] = {}
    for side in ("train", "validation", "test", "second"):
        drones, birds = members.get((side, "drone"), []), members.get((side, "bird"), [])
        if not drones or not birds:
            raise DataError(
                f"the stand-in's {side} part has {len(drones)} drones and {len(birds)} birds; it needs some of both. "
                "Put more photographs into first/ and second/."
            )
        crops = math.ceil(config.ratio * len(drones) / len(birds)) - 1
        crops = max(crops, config.crops) if side in ("train", "validation") else max(crops, 0)
        tensors[f"{side} drone"] = as_patches([whole(open_grey(one.path)) for one in drones])
        tensors[f"{side} bird"] = as_patches(
            [patch for one in birds for patch in patches_of(one.path, crops, config.seed)]
        )
    behind = [one.path for one in members["train", "bird"]]
    tensors["synthetic"] = as_patches(list(_counted("drones", draw_drones(behind, config), config.synthetic, on_count)))
    tensors["source negative"] = as_patches(list(draw_negatives(behind, config)))
    return tensors, asdict(count_split(photographs))


def draw_drones(backgrounds: Sequence[Path], config: StandInConfig) -> Iterable[Pixels]:
    """Drawn drones before cut-outs of training photographs."""
    for number in range(config.synthetic):
        rng = np.random.default_rng(derived_seed(config.seed, "drone", number))
        behind = plain_cut(open_grey(backgrounds[int(rng.integers(len(backgrounds)))]), rng, 3)
        yield whole(draw_photograph(behind, rng, Looks()))


def draw_negatives(backgrounds: Sequence[Path], config: StandInConfig) -> Iterable[Pixels]:
    """Cut-outs without drones, through the same camera, and as often plain where birds leave no trace.

    Were they not, an even background or a trace of the camera would separate drawn drones from negatives.
    """
    for number in range(config.source_negatives):
        rng = np.random.default_rng(derived_seed(config.seed, "negative", number))
        image = open_grey(backgrounds[int(rng.integers(len(backgrounds)))])
        image = cut(image, rng) if rng.random() < 0.8 else image
        scene: Plane = np.asarray(image.resize((SIDE, SIDE)), np.float32) / 255
        scene = studio(scene, rng) if rng.random() < Looks().studio / 2 else scene
        yield whole(expose(scene, rng))


def _counted(name: str, items: Iterable[Pixels], total: int, on_count: Counted) -> Iterable[Pixels]:
    for done, item in enumerate(items, 1):
        on_count(name, done, total)
        yield item
