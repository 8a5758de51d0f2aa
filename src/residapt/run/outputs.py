"""The outputs of frozen stages for all images of a run, computed once; everything after them reads these."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.domains import Images, JoinedImages, Labelled
from residapt.data.sources import OpenImages
from residapt.data.split import Part
from residapt.data.strong import Change, Changes
from residapt.data.views import digest_of_files, digest_of_images, stage_outputs
from residapt.models.stages import FrozenStages
from residapt.run.request import Setup
from residapt.train.progress import counting
from residapt.version import __version__

TITLE = "computing the outputs of the frozen stages"


def with_outputs(setup: Setup) -> Setup:
    """The setup with the outputs of the frozen stages in place of images; found again where they were computed."""
    if setup.frozen is None:
        return setup
    with setup.stopwatch.part("frozen stages"):
        table = _table(setup, setup.frozen.stages.to(setup.device))
        setup.engine.wait()

    def labelled(data: Labelled, images: Callable[[Images], Images]) -> Labelled:
        return Labelled(images(data.images), data.labels)

    pair, scored = setup.pair, setup.evaluation
    few = None if pair.few is None else labelled(pair.few, table.train)
    source, views = labelled(pair.source, table.train), table.views(pair.target)
    return replace(
        setup,
        pair=replace(pair, source=source, target=table.train(pair.target), few=few, views=views),
        held_out=labelled(setup.held_out, table.plain),
        inputs=table.plain(setup.inputs),
        evaluation=None if scored is None else replace(scored, data=labelled(scored.data, table.plain)),
    )


def remove_outputs(folder: Path) -> None:
    """Remove the outputs of a run that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Outputs of one set of images."""

    train: Images
    """Of changed images."""
    views: Images
    """Of which second views are drawn."""
    plain: Images
    """Of the images as they are."""

    def part(self, places: Tensor) -> _Outputs:
        """Those of some of the images."""
        return _Outputs(Part(self.train, places), Part(self.views, places), Part(self.plain, places))


class _Table:
    """What stands in place of each set of images. Files stay open, also when their temporary folder has gone."""

    def __init__(self) -> None:
        # A set whose images are never changed has one object for both; hence a table for each role.
        self._train: dict[int, Images] = {}
        self._views: dict[int, Images] = {}
        self._plain: dict[int, Images] = {}
        self._files: dict[Path, tuple[_Outputs, int]] = {}

    def add(self, images: OpenImages, made: _Outputs) -> None:
        """Outputs that have been computed."""
        self._train[id(images.train)] = made.train
        self._views[id(images.train)] = made.views
        self._plain[id(images.plain)] = made.plain

    def keep(self, images: OpenImages, made: _Outputs) -> None:
        """The same, and for other sets with these files."""
        self.add(images, made)
        self._files |= {file: (made, place) for place, file in enumerate(images.files)}

    def has(self, images: OpenImages) -> bool:
        """Whether all files of a set are among those of one that was added; they then need no outputs of their own."""
        found = [self._files.get(file) for file in images.files]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(images) or len({id(made) for made, _ in known}) > 1:
            return False
        self.add(images, known[0][0].part(torch.tensor([place for _, place in known])))
        return True

    def train(self, images: Images) -> Images:
        """Images for training, or part of them, as outputs."""
        return self._in(self._train, images)

    def plain(self, images: Images) -> Images:
        """Images as they are, or part of them, as outputs."""
        return self._in(self._plain, images)

    def views(self, images: Images) -> Images:
        """Second views of images, as outputs."""
        return self._in(self._views, images)

    def _in(self, known: Mapping[int, Images], images: Images) -> Images:
        if isinstance(images, Part):
            return Part(self._in(known, images.images), images.chosen)
        if isinstance(images, JoinedImages):
            return JoinedImages(self._in(known, images.first), self._in(known, images.second))
        return known[id(images)]


class _Changed:
    """Images with the random changes that the method makes of labelled source images."""

    def __init__(self, images: Images, change: Change) -> None:
        self.images, self.change = images, change

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A changed batch."""
        return self.change(self.images.fetch(index, generator), generator)


def _table(setup: Setup, stages: FrozenStages) -> _Table:
    table, digest, config = _Table(), stages.digest(), setup.config
    with counting(TITLE, setup.shown) as progress:
        for name, images in setup.opened.items():
            if table.has(images):
                continue
            weak, strong = _changed(setup, name, images)
            made = stage_outputs(
                stages,
                images.plain,
                weak,
                identity=(digest, *_identity(setup, name, images)),
                strong=strong,
                folder=setup.outputs,
                name=name,
                config=config.views,
                seed=0,  # of the views alone, which runs with different seeds share
                device=setup.device,
                progress=progress,
            )
            apart = strong is not None and name != "source"  # pseudo-labels are those of weak views
            train, views = (made.weak, made.strong) if apart else (made.train, made.train)
            table.keep(images, _Outputs(train, views, made.plain))
    return table


def _changed(setup: Setup, name: str, images: OpenImages) -> tuple[Images | None, Images | None]:
    """What the views are of: images with usual and with strong random changes; none of images that are only scored."""
    method, strong = setup.config.method_config, Changes("strong")
    usual = None if name == "evaluate" or images.train is images.plain else images.train
    if name == "source":
        change = method.augment.build()
        if method.augment.strength == "mixed" and usual is not None:
            return usual, _Changed(usual, strong)
        return usual if change is None else _Changed(images.train, change), None
    if method.consistency.view == "strong" and name == "target":
        return usual or _Changed(images.plain, Changes("weak")), _Changed(images.train, strong)
    return usual, None


def _identity(setup: Setup, name: str, images: OpenImages) -> tuple[str, ...]:
    """Everything besides the stages that the outputs depend on; nothing is computed where no file is kept."""
    if setup.outputs is None:
        return ()
    if images.files:
        content = digest_of_files(images.files, Path(os.path.commonpath([file.parent for file in images.files])))
    else:
        content = digest_of_images(images.plain)
    config = setup.config
    method = config.method_config
    change = method.augment.model_dump_json() if name == "source" else str(method.consistency.view == "strong")
    return (content, setup.input.model_dump_json(), str(config.data.augment), change, __version__)
