"""Recipes on pairs: what ``residapt.adapt`` makes of each, as a user would call it.

The whole way of the library is gone through, source training and guard included. All recipes of a pair and seed whose
source training is the same share its source network, which is trained once and kept.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from rich.console import Console
from safetensors.torch import load_file, save_file
from sklearn.metrics import average_precision_score
from torch import nn

from residapt.config import Config, from_dotted, read_toml
from residapt.data.sources import Reading, open_target
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.run.defaults import source_settings
from residapt.run.judge import Finished, evidence_of, finish
from residapt.run.networks import logits_in
from residapt.run.outputs import with_outputs
from residapt.run.prepare import prepare
from residapt.run.request import Request, Setup
from residapt.run.stages import adapt_stage, begin, source_stage
from residapt.settings import Seed, Settings, merged
from residapt.storage.atomic import atomic_file
from residapt_bench.progress import write_line
from residapt_bench.proving_ground.library import ConfigError, DataError
from residapt_bench.proving_ground.networks import SPECS, WEIGHTS
from residapt_bench.proving_ground.pair import ProvingPair
from residapt_bench.proving_ground.registry import ALL_PAIRS, KINDS, PAIRS
from residapt_bench.proving_ground.statistics_only import with_target_statistics
from residapt_bench.proving_ground.store import load, spec_of
from residapt_bench.record import Environment, append_record
from residapt_bench.source_networks import network_hash

FROZEN = {
    "efficientnet_lite0": ("conv_stem", "bn1", *(f"blocks.{number}" for number in range(6))),
    "resnet50": ("conv1", "bn1", "layer1", "layer2", "layer3"),
}
"""Frozen stages of the deep networks, whose outputs are computed once: fixed here, so that no clock decides them."""
VIEWS = 4
"""Augmented views of each image of which these outputs are kept."""


class GroundRecipe(Settings):
    """A named way to adapt."""

    statistics: bool = False
    """Only take the batch-norm statistics of the target; nothing is trained."""
    set: dict[str, Any] = {}
    """Settings, as ``residapt.adapt`` takes them."""


class GroundExperiment(Settings):
    """Which recipes to run on which pairs: a TOML file with ``kind = "proving-ground"``."""

    title: str
    """What the experiment shows."""
    kind: Literal["proving-ground"]
    """Tells these files from those of the other benchmarks."""
    pairs: tuple[str, ...] = tuple(PAIRS)
    """Names of pairs, or of kinds of shift."""
    without: tuple[str, ...] = ()
    """Pairs or kinds to leave out."""
    seeds: tuple[Seed, ...] = (0,)
    """Of the network and the training; the pairs are those of seed 0."""
    common: dict[str, Any] = {}
    """Settings of all recipes."""
    recipes: dict[str, GroundRecipe] = Field(min_length=1)
    """By name, in the order of the table."""

    def only(self, recipes: Sequence[str] = (), seeds: Sequence[int] = ()) -> GroundExperiment:
        """The same with some of its recipes and seeds."""
        unknown = sorted(set(recipes) - set(self.recipes))
        if unknown:
            raise ConfigError(f"this experiment has no recipe '{unknown[0]}'; it has {', '.join(self.recipes)}.")
        chosen = {name: recipe for name, recipe in self.recipes.items() if not recipes or name in recipes}
        return self.model_copy(update={"recipes": chosen, "seeds": tuple(seeds) or self.seeds})

    def runs(self) -> Iterator[GroundRun]:
        """Every run: seeds outside and pairs inside them, so that a comparison is there early."""
        for name in (*self.pairs, *self.without):
            if name not in KINDS:
                spec_of(name)
        for seed in self.seeds:
            for pair, spec in ALL_PAIRS.items():
                named = {pair, spec.kind} if pair in PAIRS else {pair}
                if named & set(self.pairs) and not named & set(self.without):
                    for name, recipe in self.recipes.items():
                        settings = merged(from_dotted(self.common), from_dotted(recipe.set))
                        yield GroundRun(
                            pair=pair, recipe=name, seed=seed, statistics=recipe.statistics, settings=settings
                        )


class GroundRun(Settings):
    """One run."""

    pair: str
    """Name of the pair."""
    recipe: str
    """Name of the recipe."""
    seed: Seed
    """Of network and training."""
    statistics: bool = False
    """Only take the batch-norm statistics of the target."""
    settings: dict[str, Any] = {}
    """Settings of the recipe."""

    @property
    def name(self) -> str:
        """For progress lines."""
        return f"{self.pair} {self.recipe} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Two runs with the same key are the same run."""
        return self.pair, self.recipe, self.seed, json.dumps([self.statistics, self.settings], sort_keys=True)


class GroundRecord(Settings):
    """What came of a run."""

    run: GroundRun
    """What was run."""
    metric: Literal["accuracy", "average_precision"]
    """What the three figures are, in per cent."""
    source: float
    """Of the source network that this recipe's own source training gives."""
    adapted: float
    """After adaptation, whatever the guard says."""
    selected: float
    """Of the network that the guard selected."""
    helped: bool | None = None
    """The guard's verdict."""
    measurements: dict[str, tuple[float, float]] = {}
    """What the guard reads, before and after."""
    scores: dict[str, tuple[float, float]] = {}
    """Label-free scores, before and after."""
    frequencies: dict[str, list[float]] = {}
    """Class frequencies of the source, and of the target's predictions before and after."""
    predicted: str = ""
    """Classes that the adapted network predicts for the images that were scored without labels: a character each, from
    ``0`` on."""
    notes: tuple[str, ...] = ()
    """Notes of the run."""
    ranks: dict[str, tuple[int, int]] = {}
    """At the end."""
    steps: tuple[int, int] = (0, 0)
    """Of source training and adaptation."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """Processor time of getting the source network (or reading it) and of adaptation with all that follows."""
    source_sha256: str = ""
    """Hash of the source network's weights."""
    pair_sha256: str
    """Of the pair's tensors."""
    environment: Environment
    """What it was run with."""


def is_ground(path: Path) -> bool:
    """Whether an experiment file is one of the proving ground."""
    return read_toml(path).get("kind") == "proving-ground"


def read_ground_experiment(path: Path) -> GroundExperiment:
    """Read such a file."""
    return GroundExperiment.parse(read_toml(path), where=str(path))


def run_ground(
    experiment: GroundExperiment, changes: dict[str, Any], out: Path, root: Path, cache: Path, *, dry: bool = False
) -> None:
    """Run what has no record yet, or only list it; a line for each run, and in a log beside the records."""
    runs = list(experiment.model_copy(update={"common": merged(from_dotted(experiment.common), changes)}).runs())
    done = {record.run.key for record in read_ground(out)}
    left = [run for run in runs if run.key not in done]
    log = out.with_suffix(".log")
    if dry:
        for run in left:
            write_line(run.name, None)
        return
    write_line(f"{len(runs)} runs, {len(runs) - len(left)} of them have records in {out}", log)
    for number, record in enumerate(run_missing(left, out, root.absolute(), cache.absolute()), 1):
        figures = f"{record.source:.1f} before, {record.adapted:.1f} after, {record.selected:.1f} selected"
        write_line(f"[{number}/{len(left)}] {record.run.name}: {figures}", log)


def read_ground(path: Path) -> list[GroundRecord]:
    """The records of a file, which need not exist; a last line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(GroundRecord.model_validate_json(line))
        except ValidationError as error:
            if number == len(lines) and error.errors()[0]["type"] == "json_invalid":
                continue
            raise DataError(f"{path}, line {number} is not a record of the proving ground. Remove the line.") from None
    return found


def run_missing(runs: Iterable[GroundRun], out: Path, root: Path, cache: Path) -> Iterator[GroundRecord]:
    """Run what has no record yet, and append each record as it comes."""
    torch.set_num_threads(1)
    done = {record.run.key for record in read_ground(out)}
    for run in runs:
        if run.key in done:
            continue
        record = execute(run, root, cache)
        append_record(out, record)
        yield record


def execute(run: GroundRun, root: Path, cache: Path) -> GroundRecord:
    """One run; target labels score its result and nothing else."""
    pair = load(run.pair, root, cache)
    started = time.process_time()
    setup = _prepared(pair, run, root, cache)
    network = _source(setup, pair, run, cache)
    trained = time.process_time()
    whole = setup.whole(network)
    common: dict[str, Any] = {
        "run": run,
        "metric": pair.spec.metric,
        "source": score(whole, pair, setup),
        "source_sha256": network_hash(whole),
        "pair_sha256": pair.checksum,
        "environment": Environment.here(),
    }
    if run.statistics:
        figure = score(with_target_statistics(whole, setup.target.plain, setup.device), pair, setup)
        spent = (trained - started, time.process_time() - trained)
        return GroundRecord(**common, adapted=figure, selected=figure, seconds=_rounded(spent))
    finished = finish(setup, None, network, adapt_stage(setup, None, network))
    _keep_evidence(finished, cache / "evidence" / f"{run.name.replace(' ', '-')}.safetensors")
    found = _found(finished, pair, setup)
    return GroundRecord(**common, **found, seconds=_rounded((trained - started, time.process_time() - trained)))


def _found(finished: Finished, pair: ProvingPair, setup: Setup) -> dict[str, Any]:
    summary = finished.summary
    adapted = score(finished.adapted(), pair, setup)
    before = score(finished.whole_source, pair, setup)
    pretrain = setup.config.pretrain.steps or 0
    return {
        "adapted": adapted,
        "selected": adapted if summary.verdict.selected == "adapted" else before,
        "helped": summary.verdict.helped,
        "measurements": summary.verdict.measurements,
        "scores": summary.scores,
        "frequencies": {name: [round(x, 5) for x in values] for name, values in summary.frequencies.items()},
        "predicted": "".join(chr(ord("0") + label) for label in finished.predicted.tolist()),
        "notes": tuple(summary.notes),
        "ranks": finished.method.streams.ranks(),
        "steps": (pretrain, setup.config.train.steps),
    }


def _keep_evidence(finished: Finished, path: Path) -> None:
    """Outputs of both networks, so that a guard can be thought about without training again; they are not committed."""
    before, after = evidence_of(finished.setup, finished.source, finished.method)
    tensors = {
        f"{name} {field}": getattr(seen, field).to(torch.float16 if "features" in field else torch.float32)
        for name, seen in (("before", before), ("after", after))
        for field in ("source_logits", "source_features", "target_logits", "target_features")
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, overwrite=True) as temporary:
        save_file({**tensors, "source_labels": before.source_labels}, temporary)


def score(network: nn.Module, pair: ProvingPair, setup: Setup) -> float:
    """Accuracy on the target's test, or average precision, in per cent; images are read as the run reads them."""
    images, wanted = pair.target_test
    plain = open_target(images, Reading(setup.input, augment=False)).plain
    with evaluating(network):
        logits = predict_logits(lambda x: logits_in(network(x)), plain, batch_size=64, device=setup.device)
    if pair.spec.metric == "average_precision":
        return round(100 * float(average_precision_score(wanted.numpy(), (logits[:, 1] - logits[:, 0]).numpy())), 3)
    return round(100 * float((logits.argmax(1) == wanted).double().mean()), 3)


def _prepared(pair: ProvingPair, run: GroundRun, root: Path, cache: Path) -> Setup:
    """All of a run before its training, as a call with these data would have it."""
    kind = pair.spec.network
    values: dict[str, Any] = {"seed": run.seed, "minutes": 0, "device": "cpu"}
    if kind in SPECS:
        values |= {"model.spec": SPECS[kind], "model.weights": str(root / WEIGHTS[kind])}
        values |= {"data.image_size": pair.image_size, "freeze": list(FROZEN[kind]), "views.count": VIEWS}
    request = Request(
        config=Config.parse(merged(from_dotted(values), run.settings), where=f"recipe '{run.recipe}'"),
        source=pair.source,
        target=pair.target_images,
        target_labels=pair.few,
        model=None if kind in SPECS else pair.network(run.seed),
        classes=pair.classes,
        train_source=True,
        console=Console(quiet=True),
        trust_code=True,
        outputs=cache / "outputs" / f"{pair.name}-{pair.checksum[:8]}-{run.seed}",
    )
    setup = prepare(request)
    begin(setup, None)
    return with_outputs(setup)


def _source(setup: Setup, pair: ProvingPair, run: GroundRun, cache: Path) -> nn.Module:
    """The source network: trained by the first recipe that asks for it, read by all others with the same training."""
    method = setup.config.method_config
    few = [] if pair.few is None else [len(pair.few[1])]
    text = json.dumps([
        pair.name, pair.checksum, run.seed, few, source_settings(setup.config).model_dump(mode="json"),
        method.augment.model_dump(mode="json"), setup.config.data.augment, setup.config.data.holdout,
    ])  # fmt: skip
    path = cache / "sources" / f"{pair.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.safetensors"
    if path.exists():
        network = copy.deepcopy(setup.network)
        network.load_state_dict(load_file(path))
        return network.to(setup.device)
    network = source_stage(setup, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, overwrite=True) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, temporary)
    return network


def _rounded(seconds: tuple[float, float]) -> tuple[float, float]:
    return round(seconds[0], 1), round(seconds[1], 1)
