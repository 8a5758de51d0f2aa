"""Target images to label next, by both networks of a run, and the list of them that a person fills in."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.data.folders import scan_target
from residapt.data.same_files import which_marked
from residapt.data.sources import OpenImages, Reading, open_files
from residapt.data.split import Part
from residapt.deploy.load_run import load_run
from residapt.errors import ConfigError, ModelError
from residapt.evaluate.collect import batches_of, outputs_of, plain_streams
from residapt.evaluate.evidence import subset
from residapt.evaluate.predict import evaluating
from residapt.evaluate.suggest import choose_images, joint_features, label_worth
from residapt.methods.discrepancy.layers import classifier_input
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory

MOST = 20_000
"""Most images considered; of a larger target a random part."""


@dataclass(frozen=True)
class Suggestion:
    """An image that is worth a label."""

    index: int
    """Its number among the target images."""
    path: str
    """Its name: from the target folder, with forward slashes; without a folder its number."""
    before: str
    """The class that the source network predicts."""
    after: str
    """The class that the adapted network predicts."""
    worth: float
    """Entropy of the mean prediction of both networks, in nats."""


def suggest_among(
    networks: tuple[nn.Module, nn.Module],
    target: OpenImages,
    candidates: Tensor,
    classes: Sequence[str],
    count: int,
    *,
    seed: int,
    device: torch.device,
) -> list[Suggestion]:
    """The images to label, by plain networks before and after; ``candidates`` are indices of images without a label."""
    index = candidates[subset(len(candidates), MOST, seed)]
    images = Part(target.plain, index)
    before, after, features = _outputs(networks, images, device)
    worth = label_worth(before, after)
    first, second = before.argmax(1).tolist(), after.argmax(1).tolist()
    return [
        Suggestion(int(index[i]), target.name(int(index[i])), classes[first[i]], classes[second[i]], float(worth[i]))
        for i in choose_images(worth, features, count, seed=seed).tolist()
    ]


def _outputs(networks: tuple[nn.Module, nn.Module], images: Part, device: torch.device) -> tuple[Tensor, ...]:
    """Logits of both networks, and the features of both."""
    found = (_logits_and_features(network.to(device), images, device) for network in networks)
    (before, first), (after, second) = found
    return before, after, joint_features(first, second)


def _logits_and_features(network: nn.Module, images: Part, device: torch.device) -> tuple[Tensor, Tensor]:
    """Logits, and what the classifier reads."""
    plain = plain_streams(network, None)
    with evaluating(plain):
        try:
            layer: str | None = classifier_input(plain, next(batches_of(images)).to(device))
        except ModelError:  # no classifier is found: the logits take its place
            layer = None
        return outputs_of(plain_streams(plain.model, layer), images, "source", device)


def suggest_images(
    path: Path | str,
    count: int = 50,
    *,
    seed: int = 0,
    device: str = "cpu",
    trust_code: bool = False,
    on_images: Callable[[int, int], None] = lambda done, total: None,
) -> list[Suggestion]:
    """The images of a finished run's target folder to label next; those whose labels it has trained on are left out.

    Args:
        path: The run directory.
        count: How many images.
        seed: Seed of the choice.
        device: auto, cpu, cuda or mps.
        trust_code: That of :func:`residapt.deploy.load_run`.
        on_images: Called with the number of images read so far, and of all.
    """
    run = RunDirectory.open(Path(path))
    deployed = load_run(run.path, device=device, trust_code=trust_code)
    kept = run.rejected / run.model.name
    adapted = load_run(kept, device=device, trust_code=trust_code) if kept.is_file() else deployed
    source = load_run(run.source, device=device, trust_code=trust_code)
    if deployed.target is None or not deployed.target.is_dir():
        what = (
            "names no target folder"
            if deployed.target is None
            else f"used '{deployed.target}', which does not exist any more"
        )
        raise ConfigError(f"run '{path}' {what}: there are no images to suggest. In Python: residapt.suggest(run).")
    files = scan_target(deployed.target)
    done = 0

    def on_image() -> None:
        nonlocal done
        done += 1
        on_images(done, len(files))

    reading = Reading(deployed.input, augment=False, on_image=on_image)
    target, _ = open_files(files, deployed.target, reading, "target")
    labelled = torch.tensor(which_marked(target.files, deployed.labelled), dtype=torch.bool)
    candidates = (~labelled).nonzero().flatten()
    if not len(candidates):
        raise ConfigError(f"all {len(target)} target images of run '{path}' have labels already.")
    return suggest_among(
        (source.model, adapted.model), target, candidates, deployed.classes, count, seed=seed, device=deployed.device
    )


def write_suggestions(suggestions: Sequence[Suggestion], out: Path, *, overwrite: bool = False) -> None:
    """A label file with an empty class in each line; filled in, it is what ``--target-labels`` takes."""
    with (
        atomic_file(out, overwrite=overwrite) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("path", "class"))
        writer.writerows((one.path, "") for one in suggestions)
