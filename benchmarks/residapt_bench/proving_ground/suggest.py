"""Do labels of suggested images help more than those of random ones? Pairs, steps and seeds were fixed before any run.

A run without target labels suggests images. Two more start from its source network, one with labels of the suggested
images, one with as many labels of random images. All three are scored on the same images, none of which got a label.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from scipy import stats
from torch import Tensor, nn

import residapt
from residapt.data.sources import Reading, open_target
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.settings import Settings
from residapt_bench.proving_ground.library import ConfigError
from residapt_bench.proving_ground.pair import Place, ProvingPair, random_numbers
from residapt_bench.proving_ground.store import load, spec_of
from residapt_bench.record import Environment

Choice = Literal["clue", "both", "mixed"]
TASKS = ("mnist-clutter", "features-webcam-amazon", "series-drift")
"""Three kinds of shift and of networks, cheap ones. Named before the first run."""
CHOICE: Choice = "mixed"
"""How residapt suggests now: over the features of both networks, half of the weight even, half by an image's worth."""
SEEDS: dict[Choice, tuple[int, ...]] = {"clue": (0, 1, 2, 3, 4), "both": (5, 6, 7, 8, 9), "mixed": (10, 11, 12, 13, 14)}
"""Each seed takes another network, another order of batches and other random images, of the pair of seed 0. Seeds 0 to
4 are of the first way to choose, over the adapted network's features, weighted by the worth itself; seeds 5 to 9 of the
second, over those of both, weighted by its square root."""
LABELS = 50
SOURCE_STEPS, STEPS = 400, 200
"""Few enough for all runs to take a quarter of an hour on one free processor; all else is the library's default."""


class SuggestRecord(Settings):
    """One seed of one pair."""

    task: str
    """The pair."""
    seed: int
    """Of the network, the order of batches and the random images."""
    choice: Choice
    """How the images were chosen."""
    labels: int
    """Labelled target images."""
    steps: tuple[int, int]
    """Of the source network and of each adaptation."""
    source: float
    """Accuracy of the source network on the scored images, per cent."""
    unlabelled: float
    """Of the run that suggests."""
    suggested: float
    """With labels of suggested images."""
    random: float
    """With labels of random images."""
    wrong: tuple[int, int]
    """Of the suggested and of the random images, how many the run without labels had wrong."""
    scored: int
    """Images that were scored."""
    classes: tuple[int, int]
    """How many classes the suggested and the random images have."""
    pair_sha256: str
    """Of the pair's tensors."""
    environment: Environment
    """What it was run with."""


def run_pair(
    name: str,
    seed: int,
    root: Path,
    cache: Path,
    *,
    labels: int = LABELS,
    steps: tuple[int, int] = (SOURCE_STEPS, STEPS),
) -> SuggestRecord:
    """Three runs of a pair: without labels, and with labels of suggested and of random images."""
    pair = load(name, root, cache)
    truth = _target_labels(pair, root, cache)
    first = _adapt(pair, pair.network(seed), steps[1], seed, pretrain=steps[0])
    suggested = torch.tensor([one.index for one in residapt.suggest(first, labels, seed=seed)])
    numbers = random_numbers("labels", name, seed).permutation(len(truth))[:labels]
    drawn = torch.from_numpy(numbers.astype("int64"))
    runs = [_adapt(pair, first.source, steps[1], seed, few=(index, truth[index])) for index in (suggested, drawn)]
    wrong = _right(first.merge_and_unload(), first, pair.target_images, truth).logical_not()
    images, wanted = pair.target_test
    if pair.transductive:  # the target itself is scored: without the images that either run has a label of
        rest = torch.ones(len(truth), dtype=torch.bool).index_fill(0, torch.cat([suggested, drawn]), False)
        images, wanted = images[rest], wanted[rest]
    networks = (first.source, *(run.merge_and_unload() for run in (first, *runs)))
    percent = [round(100 * float(_right(net, first, images, wanted).double().mean()), 3) for net in networks]
    return SuggestRecord(
        task=name,
        seed=seed,
        choice=CHOICE,
        labels=labels,
        steps=steps,
        source=percent[0],
        unlabelled=percent[1],
        suggested=percent[2],
        random=percent[3],
        scored=len(wanted),
        wrong=(int(wrong[suggested].sum()), int(wrong[drawn].sum())),
        classes=(len(set(truth[suggested].tolist())), len(set(truth[drawn].tolist()))),
        pair_sha256=pair.checksum,
        environment=Environment.here(),
    )


def run_missing(
    tasks: Iterable[str], seeds: Iterable[int], out: Path, root: Path, cache: Path
) -> Iterator[SuggestRecord]:
    """Run what has no record yet, seed by seed, and append each record as it comes."""
    done = {(record.task, record.seed) for record in read_suggest_records(out)}
    tasks = tuple(tasks)
    for seed in seeds:
        for task in tasks:
            if (task, seed) in done:
                continue
            record = run_pair(task, seed, root, cache)
            with out.open("a", encoding="utf-8") as file:
                file.write(record.model_dump_json() + "\n")
            yield record


def read_suggest_records(path: Path) -> list[SuggestRecord]:
    """The records of a file, which need not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [SuggestRecord.parse(json.loads(line), where=str(path)) for line in lines]


def suggest_table(records: list[SuggestRecord]) -> str:
    """Means over the seeds as Markdown, and the paired gain of suggested over random labels with its 95 % interval."""
    if not records:
        raise ConfigError("there are no records of suggested labels. Run: residapt bench suggest")
    rows = [
        "| choice | pair | seeds | source | no labels | random | suggested | gain, points |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for choice, task in sorted({(record.choice, record.task) for record in records}, key=_order):
        own = [record for record in records if (record.choice, record.task) == (choice, task)]
        means = (
            statistics.fmean(getattr(r, key) for r in own) for key in ("source", "unlabelled", "random", "suggested")
        )
        cells = " | ".join(f"{value:.1f}" for value in means)
        seeds = ", ".join(str(record.seed) for record in own)
        rows.append(f"| {choice} | `{task}` | {seeds} | {cells} | {_gain([r.suggested - r.random for r in own])} |")
    return "\n".join(rows)


def _order(row: tuple[Choice, str]) -> tuple[int, int, str]:
    choice, task = row
    return list(SEEDS).index(choice), TASKS.index(task) if task in TASKS else len(TASKS), task


def _gain(differences: list[float]) -> str:
    mean, n = statistics.fmean(differences), len(differences)
    if n < 2:
        return f"{mean:+.1f}"
    half = float(stats.t.ppf(0.975, n - 1)) * statistics.stdev(differences) / math.sqrt(n)
    return f"{mean:+.1f} ({mean - half:+.1f} to {mean + half:+.1f}), more in {sum(d > 0 for d in differences)} of {n}"


def _adapt(
    pair: ProvingPair,
    network: nn.Module,
    steps: int,
    seed: int,
    *,
    pretrain: int | None = None,
    few: tuple[Tensor, Tensor] | None = None,
) -> residapt.AdaptedRun:
    settings: dict[str, Any] = {"seed": seed, "minutes": 0, "device": "cpu"}
    if pretrain is not None:
        settings["pretrain.steps"] = pretrain
    return residapt.adapt(
        network,
        source=pair.source,
        target=pair.target_images,
        target_labels=None if few is None else (pair.target_images[few[0]], few[1]),
        classes=pair.classes,
        train_source_first=pretrain is not None,
        steps=steps,
        verbose=False,
        **settings,
    )


def _target_labels(pair: ProvingPair, root: Path, cache: Path) -> Tensor:
    """What the person who labels knows; a kept pair has it only where the target is scored, else it is made again."""
    if pair.transductive:
        return pair.target_test[1]
    return _made_labels(pair.name, Place(root, cache), pair.checksum)


@lru_cache
def _made_labels(name: str, place: Place, checksum: str) -> Tensor:
    made = spec_of(name).make(place, 0)
    if made.checksum != checksum:
        raise ConfigError(f"pair '{name}' is made anew with other images. Remove it from the cache.")
    return made.target.labels


def _right(network: nn.Module, run: residapt.AdaptedRun, images: Tensor, labels: Tensor) -> Tensor:
    """Which predictions of a plain network are right; images are read as the run reads them."""
    plain = open_target(images, Reading(run.setup.input, augment=False)).plain
    with evaluating(network):
        return predict_logits(network, plain, device=run.setup.device).argmax(1) == labels
