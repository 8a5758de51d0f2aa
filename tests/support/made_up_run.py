"""A run that never happened, with everything a real one leaves behind."""

from __future__ import annotations

import base64
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw

from residapt.config import load_config, write_config
from residapt.evaluate.calibration import calibration
from residapt.evaluate.metrics import confusion_matrix
from residapt.models import InputSpec
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import (
    Accuracy,
    ChangedPrediction,
    LayerRanks,
    Projection,
    RunSummary,
    ScoredCalibration,
    UnusualImage,
    Verdict,
    write_summary,
)

# fmt: off
CLASSES = [
    "back_pack", "bike", "bike_helmet", "bookcase", "bottle", "calculator", "desk_chair", "desk_lamp",
    "desktop_computer", "file_cabinet", "headphones", "keyboard", "laptop_computer", "letter_tray",
    "mobile_phone", "monitor", "mouse", "mug", "paper_notebook", "pen", "phone", "printer", "projector",
    "punchers", "ring_binder", "ruler", "scissors", "speaker", "stapler", "tape_dispenser", "trash_can",
]
LAYERS = {
    "conv_stem": (32, 27), "blocks.0.0.conv_pw": (16, 32), "blocks.1.0.conv_pw": (96, 16),
    "blocks.2.0.conv_pw": (144, 24), "blocks.3.0.conv_pw": (240, 40), "blocks.4.0.conv_pw": (480, 80),
    "blocks.5.0.conv_pw": (672, 112), "blocks.6.0.conv_pwl": (320, 1152), "conv_head": (1280, 320),
    "bottleneck": (256, 1280), "classifier": (31, 256),
}
SCORES = {
    "source_accuracy": (0.91, 0.909), "entropy": (-1.21, -0.74), "infomax": (1.9, 2.6), "bnm": (0.71, 0.82),
    "snd": (-2.5, -2.3), "class_ami": (0.61, 0.72), "dev": (-0.92, -1.05),
}
# fmt: on
REASONS = (
    "predictions follow the target's clusters more than before (ClassAMI)",
    "predictions are more confident and more varied than before (majority of infomax, bnm, snd)",
)
HELD_OUT = "webcam"
NOTE = "predicted class frequencies of the target drift away (34% of the images): 'mug' went from 4% to 11%."


def make_run(path: Path, *, classes: list[str] | None = None, finished: bool = True, **changes: Any) -> RunDirectory:
    """Write a run directory; ``changes`` replace fields of its summary."""
    run = RunDirectory.create(path)
    chosen = classes or CLASSES
    spec = "timm:tf_efficientnet_lite0"
    settings = [
        f"model.spec={spec!r}",
        "model.bottleneck=256",
        "data.image_size=128",
        "train.steps=1200",
        "rank.step=0.006",
    ]
    write_config(load_config(None, settings), run.config)
    _write_metrics(run.metrics)
    if finished:
        write_summary(RunSummary(**{**_summary(chosen), **changes}), run.summary)
    return run


def _write_metrics(path: Path) -> None:
    noise = random.Random(0)
    lines: list[dict[str, Any]] = []
    for step in range(50, 901, 50):
        p = step / 900
        lines.append(_line("step", "source", step, {"class": 3.3 * math.exp(-4 * p) + 0.05 + 0.05 * noise.random()}))
    for step in range(0, 1201, 25):
        p = step / 1200
        if step % 200 == 0:
            lines += _looks(step, p, noise)
        if not step:
            continue
        values = {
            "class": 0.06 + 0.12 * math.exp(-5 * p) + 0.04 * noise.random(),
            "confusion": 1.6 - 0.85 * p**0.4 + 0.12 * noise.random(),
            "domain": 0.35 + 0.3 * p**0.6 + 0.05 * noise.random(),
            "stream": 1.0 + 0.05 * noise.random(),
            "domain_accuracy": 0.93 - 0.32 * p**0.6 + 0.05 * noise.random(),
            "energy": 1.0 + 0.25 * (noise.random() - 0.5),
        }
        ranks = {name: [round(32 - 20 * p), round(32 - 16 * p)] for name in LAYERS}
        lines.append({**_line("step", "adapt", step, {**values, "total": sum(values.values())}), "ranks": ranks})
    lines.append({"kind": "note", "stage": "adapt", "step": 600, "text": NOTE, "seconds": 300.0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _looks(step: int, p: float, noise: random.Random) -> list[dict[str, Any]]:
    """What is recorded along the run, from the source network on."""
    scores = {"infomax": 1.9 + 0.9 * p, "bnm": 0.7 + 0.12 * p, "snd": -2.5 + 0.2 * p, "class_ami": 0.62 + 0.1 * p**0.5}
    accuracy = {HELD_OUT: 71.2 + 11 * p**0.5 + noise.random()}
    return [_line("accuracy", "adapt", step, accuracy), _line("scores", "adapt", step, scores)]


def _line(kind: str, stage: str, step: int, values: dict[str, float]) -> dict[str, Any]:
    return {"kind": kind, "stage": stage, "step": step, "values": values, "seconds": round(step * 0.6, 3)}


def _summary(classes: list[str]) -> dict[str, Any]:
    noise = random.Random(1)
    return {
        "version": "0.1.0",
        "method": "rpt",
        "model": "timm:tf_efficientnet_lite0",
        "classes": tuple(classes),
        "input": InputSpec(size=128, channels=3, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
        "seconds": {
            "reading": 30.0,
            "source training": 412.0,
            "adaptation": 861.0,
            "checks": 60.0,
            "scoring": 44.0,
            "report": 30.0,
        },
        "steps": {"source training": 950, "adaptation": 1188},
        "source_images": 2817,
        "target_images": 795,
        "verdict": Verdict(helped=True, selected="adapted", reasons=REASONS),
        "scores": SCORES,
        "accuracies": [
            Accuracy(name=HELD_OUT, stage="source_only", percent=71.2, images=398, protocol="held-out"),
            Accuracy(name=HELD_OUT, stage="adapted", percent=82.4, images=398, protocol="held-out"),
            Accuracy(name="target folder", stage="source_only", percent=71.9, images=795, protocol="transductive"),
            Accuracy(name="target folder", stage="adapted", percent=83.1, images=795, protocol="transductive"),
        ],
        "ranks": _ranks(noise),
        "parameters": {"network": 3_746_000, "transforms": 152_300, "adversary": 379_500, "deployed": 3_746_000},
        "frequencies": _frequencies(classes, noise),
        "changed": _changed(classes, noise),
        "changed_count": 171,
        "projection": _projection(noise),
        "notes": [NOTE],
        "temperature": 1.4,
        "calibrations": _calibrations(len(classes)),
        "unusual": [
            UnusualImage(
                path=f"camera 2/odd{place}.jpg", predicted=classes[0], probability=0.3, thumbnail=thumbnail(place)
            )
            for place in range(5)
        ],
        "unusual_count": 9,
    }


def fifty_layers() -> list[LayerRanks]:
    """A deep network: six layers keep a rank, the others are shared."""
    kept = {3: (4, 9), 7: (12, 5), 20: (1, 1), 33: (30, 31), 48: (8, 8), 49: (16, 2)}
    return [
        LayerRanks(layer=f"layer{place}.conv", shape=(64, 576), before=(32, 32), after=kept.get(place, (0, 0)))
        for place in range(50)
    ]


def _calibrations(classes: int) -> list[ScoredCalibration]:
    found = []
    for stage, strength in (("source_only", 2.0), ("adapted", 4.0)):
        generator = torch.Generator().manual_seed(2)
        labels = torch.arange(400) % classes
        logits = torch.randn(400, classes, generator=generator)
        logits[torch.arange(400), labels] += strength
        values = {
            "name": HELD_OUT,
            "stage": stage,
            "protocol": "held-out",
            "plain": calibration(2 * logits, labels),
            "scaled": calibration(2 * logits, labels, temperature=1.4),
            "confusion": confusion_matrix(logits, labels).tolist(),
        }
        found.append(ScoredCalibration.parse(values, where="test"))
    return found


def _ranks(noise: random.Random) -> list[LayerRanks]:
    found = []
    for place, (name, shape) in enumerate(LAYERS.items()):
        left = 0 if place in (3, 4, 10) else noise.randint(2, 30 - 2 * place)
        right = 0 if left == 0 else noise.randint(2, 30)
        found.append(LayerRanks(layer=name, shape=shape, before=(32, 32), after=(left, right)))
    return found


def _frequencies(classes: list[str], noise: random.Random) -> dict[str, list[float]]:
    def draw(spread: float) -> list[float]:
        raw = [math.exp(spread * noise.gauss(0, 1)) for _ in classes]
        return [value / sum(raw) for value in raw]

    return {"source": draw(0.2), "target_before": draw(0.7), "target_after": draw(0.35)}


def _changed(classes: list[str], noise: random.Random) -> list[ChangedPrediction]:
    items = []
    for place in range(24):
        before, after = noise.sample(range(len(classes)), 2) if len(classes) > 1 else (0, 0)
        items.append(
            ChangedPrediction(
                path=f"camera 2/{place:04d}.jpg",
                before=classes[before],
                after=classes[after],
                probability=noise.uniform(0.4, 1.0),
                thumbnail=thumbnail(place),
            )
        )
    return items


def thumbnail(seed: int) -> str:
    noise = random.Random(seed)
    picture = Image.new("RGB", (96, 96), tuple(noise.randint(120, 230) for _ in range(3)))
    draw = ImageDraw.Draw(picture)
    for _ in range(3):
        x, y, size = noise.randint(8, 50), noise.randint(8, 50), noise.randint(16, 40)
        draw.ellipse((x, y, x + size, y + size), fill=tuple(noise.randint(20, 160) for _ in range(3)))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode()


def _projection(noise: random.Random) -> Projection:
    def cloud(shift: float, spread: float) -> list[tuple[float, float]]:
        points = []
        for place in range(260):
            angle = 2 * math.pi * (place % 9) / 9
            points.append(
                (4 * math.cos(angle) + shift + noise.gauss(0, spread), 4 * math.sin(angle) + noise.gauss(0, spread))
            )
        return points

    return Projection(
        source_before=cloud(0, 0.6),
        target_before=cloud(3.2, 1.2),
        source_after=cloud(0, 0.5),
        target_after=cloud(0.3, 0.7),
    )
