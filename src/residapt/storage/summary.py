"""summary.json: what a finished run found, as one typed record that the report and other tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypeVar

from residapt.errors import DataError
from residapt.evaluate.calibration import Calibration
from residapt.evaluate.metrics import Detection
from residapt.models.input_spec import InputSpec
from residapt.settings import Settings
from residapt.storage.atomic import atomic_file

TimedPart = Literal[
    "reading", "planning", "frozen stages", "source training", "adaptation", "checks", "scoring", "report"
]
"""Parts of a run whose time is measured. ``checks`` are those of scores and predictions during training."""


class Accuracy(Settings):
    """One accuracy, with its stamp."""

    name: str
    """What was scored, for instance a folder."""
    stage: Literal["source_only", "adapted"]
    """Before or after adaptation."""
    percent: float
    """Share of correct predictions."""
    images: int
    """How many images were scored."""
    protocol: Literal["transductive", "held-out"]
    """Whether the images were seen, unlabelled, in training."""
    used_for_choice: bool = False
    """Whether the network was chosen by this accuracy afterwards, so that it is no longer an independent estimate."""


class ScoredDetection(Settings):
    """How well one class is found on a scored set, with its stamp."""

    name: str
    """What was scored, for instance a folder."""
    stage: Literal["source_only", "adapted"]
    """Before or after adaptation."""
    protocol: Literal["transductive", "held-out"]
    """Whether the images were seen, unlabelled, in training."""
    detection: Detection
    """Average precision and the precision-recall curve."""


class LayerRanks(Settings):
    """Ranks of one layer."""

    layer: str
    """Name of the layer."""
    shape: tuple[int, int]
    """Outputs C and inputs N of its matrix."""
    before: tuple[int, int]
    """[l, r] at the start."""
    after: tuple[int, int]
    """[l, r] at the end; [0, 0] means that both domains share the layer."""


class ChangedPrediction(Settings):
    """A target image whose predicted class changed."""

    path: str
    """The image, relative to the target folder, or its index."""
    before: str
    """Class predicted by the source network."""
    after: str
    """Class predicted after adaptation."""
    probability: float
    """Probability of the new class."""
    thumbnail: str = ""
    """Small JPEG as base64."""


class Verdict(Settings):
    """Whether adaptation seems to have helped, judged without target labels, and which network is the result."""

    helped: bool | None
    """None when the scores disagree."""
    selected: Literal["adapted", "source"]
    """Which network is in model.safetensors."""
    reasons: tuple[str, ...] = ()
    """In plain words, each marked ``for: `` or ``against: `` the adapted network."""
    measurements: dict[str, tuple[float, float]] = {}
    """What the guard reads, before and after."""
    chosen_by: Literal["guard", "force", "user"] = "guard"
    """The guard against negative transfer, the setting ``force``, or ``residapt accept`` and ``reject`` afterwards."""


class Projection(Settings):
    """Features of both domains in two dimensions, before and after; each point is (x, y)."""

    source_before: list[tuple[float, float]] = []
    """Source features, source network."""
    target_before: list[tuple[float, float]] = []
    """Target features, source network."""
    source_after: list[tuple[float, float]] = []
    """Source features, source stream."""
    target_after: list[tuple[float, float]] = []
    """Target features, target stream."""


class ScoredCalibration(Settings):
    """How far the confidence on a scored set can be relied on, and which classes are confused there."""

    name: str
    """What was scored, for instance a folder."""
    stage: Literal["source_only", "adapted"]
    """Before or after adaptation."""
    protocol: Literal["transductive", "held-out"]
    """Whether the images were seen, unlabelled, in training."""
    plain: Calibration
    """Of the network's probabilities as they are."""
    scaled: Calibration
    """With the temperature that was fitted on held-out source images."""
    confusion: list[list[int]]
    """Counts: a row for each true class, a column for each predicted one."""


class UnusualImage(Settings):
    """A target image that looks least like any class."""

    path: str
    """The image, relative to the target folder, or its index."""
    predicted: str
    """Predicted class."""
    probability: float
    """Its probability."""
    thumbnail: str = ""
    """Small JPEG as base64."""


class FrozenPart(Settings):
    """What of the network stays as it was, and why."""

    last: str | None = None
    """The last stage that is frozen; None where the whole network is trained."""
    reason: str = ""
    """Why, in one sentence."""
    parameters: float = 0.0
    """Share of the network's parameters that is frozen."""
    views: int = 0
    """Augmented views of each image whose outputs were computed once."""
    precision: str = "float16"
    """How these outputs were kept."""


class Choices(Settings):
    """What a run has chosen before its first step: the configuration says what, but not why."""

    frozen: FrozenPart = FrozenPart()
    """The first stages, where they are frozen."""
    notes: tuple[str, ...] = ()
    """Messages about the data and the choices."""


class RunSummary(Settings):
    """Everything the report shows that is not in metrics.jsonl or config.toml."""

    version: str
    """residapt's version."""
    method: str
    """Name of the method."""
    model: str
    """Model spec."""
    classes: tuple[str, ...]
    """Class names in the order of the network's outputs."""
    input: InputSpec
    """Input of the network."""
    seconds: dict[TimedPart, float]
    """Time of each part of the run, of the last process where it was stopped."""
    steps: dict[str, int] = {}
    """Steps taken in ``source training`` and ``adaptation``."""
    source_images: int
    """Labelled source images."""
    target_images: int
    """Unlabelled target images."""
    labelled_images: int = 0
    """Target images whose labels were trained on."""
    verdict: Verdict
    """Did it help?"""
    scores: dict[str, tuple[float, float]] = {}
    """Label-free scores (before, after); higher is better."""
    accuracies: list[Accuracy] = []
    """Scored sets; labels were used for scoring only."""
    detections: list[ScoredDetection] = []
    """Average precision of the positive class on the scored sets, for two classes or where one was named."""
    ranks: list[LayerRanks] = []
    """Ranks of the transformed layers."""
    parameters: dict[str, int] = {}
    """Parameters of the network, the transforms and the adversary, and of what is deployed."""
    frequencies: dict[str, list[float]] = {}
    """Class frequencies: source labels, target predictions before and after."""
    changed: list[ChangedPrediction] = []
    """Examples of target images whose prediction changed."""
    changed_count: int = 0
    """How many target predictions changed."""
    projection: Projection = Projection()
    """Both domains in two dimensions."""
    notes: list[str] = []
    """Health notes, in plain words."""
    frozen: FrozenPart = FrozenPart()
    """The first stages, where they were frozen and their outputs computed once."""
    selected: str = "last"
    """Which checkpoint of the adaptation was taken."""
    temperature: float | None = None
    """Divide the adapted network's logits by it for calibrated probabilities; fitted on held-out source images."""
    calibrations: list[ScoredCalibration] = []
    """Calibration and confusion on the scored sets."""
    unusual: list[UnusualImage] = []
    """Target images that look least like any class, the most unusual first."""
    unusual_count: int = 0
    """How many of the scored target images are more unusual than 99 % of the held-out source images."""


def write_summary(summary: RunSummary, path: Path) -> None:
    """Write the record, whole or not at all."""
    with atomic_file(path, overwrite=True) as file:
        file.write_text(summary.model_dump_json(indent=1), encoding="utf-8")


def read_summary(path: Path) -> RunSummary:
    """Read a record, or say what is wrong with it."""
    if not path.exists():
        raise DataError(f"'{path}' does not exist: the run has not finished. Resume it with residapt adapt --resume.")
    return _read(RunSummary, path)


def write_choices(choices: Choices, path: Path) -> None:
    """Write the record, whole or not at all."""
    with atomic_file(path, overwrite=True) as file:
        file.write_text(choices.model_dump_json(indent=1), encoding="utf-8")


def read_choices(path: Path) -> Choices | None:
    """Read the record, if there is one."""
    return _read(Choices, path) if path.exists() else None


Record = TypeVar("Record", bound=Settings)


def _read(kind: type[Record], path: Path) -> Record:
    try:
        return kind.parse(json.loads(path.read_text(encoding="utf-8")), where=str(path))
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from None
