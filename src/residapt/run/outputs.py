"""The outputs of frozen stages for all images of a run, computed once; everything after them reads these."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.domains import Images, JoinedImages, Labelled
from residapt.data.sources import OpenImages
from residapt.data.split import Part
from residapt.data.strong import Change
from residapt.data.views import StageOutputs, digest_of_files, digest_of_images, stage_outputs
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

    def labelled(data: Labelled) -> Labelled:
        return Labelled(table.of(data.images), data.labels)

    pair, scored = setup.pair, setup.evaluation
    few = None if pair.few is None else labelled(pair.few)
    return replace(
        setup,
        pair=replace(pair, source=labelled(pair.source), target=table.of(pair.target), few=few),
        held_out=labelled(setup.held_out),
        inputs=table.of(setup.inputs),
        evaluation=None if scored is None else replace(scored, data=labelled(scored.data)),
    )


def remove_outputs(folder: Path) -> None:
    """Remove the outputs of a run that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


class _Table:
    """What stands in place of each set of images. Files stay open, also when their temporary folder has gone."""

    def __init__(self) -> None:
        self._images: dict[int, Images] = {}
        self._files: dict[Path, tuple[StageOutputs, int]] = {}

    def add(self, images: OpenImages, made: StageOutputs) -> None:
        """Outputs that have been computed."""
        self._images |= {id(images.train): made.train, id(images.plain): made.plain}
        self._files |= {file: (made, place) for place, file in enumerate(images.files)}

    def has(self, images: OpenImages) -> bool:
        """Whether all files of a set are among those of one that was added; they then need no outputs of their own."""
        found = [self._files.get(file) for file in images.files]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(images) or len({id(made) for made, _ in known}) > 1:
            return False
        made, places = known[0][0], torch.tensor([place for _, place in known])
        self._images |= {
            id(images.train): Part(made.train, places),
            id(images.plain): Part(made.plain, places),
        }
        return True

    def of(self, images: Images) -> Images:
        """The same images, or part of them, as outputs."""
        if isinstance(images, Part):
            return Part(self.of(images.images), images.chosen)
        if isinstance(images, JoinedImages):
            return JoinedImages(self.of(images.first), self.of(images.second))
        return self._images[id(images)]


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
            made = stage_outputs(
                stages,
                images.plain,
                _augmented(setup, name, images),
                identity=(digest, *_identity(setup, name, images)),
                folder=setup.outputs,
                name=name,
                config=config.views,
                seed=0,  # of the views alone, which runs with different seeds share
                device=setup.device,
                progress=progress,
            )
            table.add(images, made)
    return table


def _augmented(setup: Setup, name: str, images: OpenImages) -> Images | None:
    """What the views are of: nothing for images that are only scored, or that are never changed."""
    change = setup.config.method_config.augment.build() if name == "source" else None
    if change is not None:
        return _Changed(images.train, change)
    return None if name == "evaluate" or images.train is images.plain else images.train


def _identity(setup: Setup, name: str, images: OpenImages) -> tuple[str, ...]:
    """Everything besides the stages that the outputs depend on; nothing is looked for where no file is kept."""
    if setup.outputs is None:
        return ()
    if images.files:
        content = digest_of_files(images.files, Path(os.path.commonpath([file.parent for file in images.files])))
    else:
        content = digest_of_images(images.plain)
    config = setup.config
    change = config.method_config.augment.model_dump_json() if name == "source" else ""
    return (content, setup.input.model_dump_json(), str(config.data.augment), change, __version__)
