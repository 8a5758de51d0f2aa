"""A small world of good inputs, made once by the program itself; bad inputs are copies of it with one thing wrong."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from support.cli import invoke

CLASSES = ("cat", "dog", "owl")


def draw(path: Path, seed: int) -> None:
    """A small grey image of random blots."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 4), dtype=np.uint8)
    Image.fromarray(pixels).resize((28, 28)).save(path)


def labelled(folder: Path, each: int = 4) -> Path:
    """A folder for each class."""
    for number in range(len(CLASSES) * each):
        draw(folder / CLASSES[number % len(CLASSES)] / f"{number}.png", number % len(CLASSES))
    return folder


def build_world(root: Path) -> Path:
    """``source``, ``target``, ``scored``, and ``run``: finished, with its checkpoints and an adapter."""
    labelled(root / "source")
    labelled(root / "scored", each=1)
    for number in range(6):
        draw(root / "target" / f"{number}.png", 100 + number)
    code, text = invoke(
        *("adapt", "-s", str(root / "source"), "-t", str(root / "target"), "-o", str(root / "run"), "--force"),
        "--keep-checkpoints",
        *(
            "--set",
            "pretrain.steps=2",
            "--set",
            "pretrain.allow_chance=true",
            "--steps",
            "2",
            "--set",
            "train.batch_size=4",
            "--device",
            "cpu",
        ),
        *("-m", "ganin_lenet"),
    )
    assert code == 0, text
    shutil.rmtree(root / "run" / "checkpoint" / "source")  # no case needs it, and all is hashed after each
    (root / "run" / "report.html").unlink()
    return root


def listing(root: Path) -> dict[str, str]:
    """Every file and folder below, with the hash of its content."""
    found = {}
    for path in sorted(root.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        found[path.relative_to(root).as_posix()] = content
    return found
