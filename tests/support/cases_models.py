"""Bad model specs and weights."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from residapt.models import LeNet
from support.bad_case import ADAPT, Case, Make, write

PTH, SAFE = ADAPT + " --weights {bad}/w.pth", ADAPT + " --weights {bad}/w.safetensors"
BASE = ADAPT + " --base {bad}/base"


class Attack:
    """What a pickle of an attacker holds: reading it would make a folder."""

    def __init__(self, canary: str) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.canary,)


def _attack(bad: Path, good: Path) -> None:
    torch.save({"state_dict": Attack(str(bad / "canary"))}, bad / "w.pth")


def _plain_pickle(bad: Path, good: Path) -> None:
    (bad / "w.pth").write_bytes(pickle.dumps(Attack(str(bad / "canary")), protocol=2))


def _whole_model(bad: Path, good: Path) -> None:
    torch.save(LeNet(), bad / "w.pth")


def _cut(bad: Path, good: Path) -> None:
    torch.save(LeNet().state_dict(), bad / "w.pth")
    os.truncate(bad / "w.pth", 5000)


def _tensors(**tensors: torch.Tensor) -> Make:
    return lambda bad, good: save_file(tensors, bad / "w.safetensors")


def _saved(content: object) -> Make:
    return lambda bad, good: torch.save(content, bad / "w.pth")


def _zip_without_tensors(bad: Path, good: Path) -> None:
    with zipfile.ZipFile(bad / "w.pth", "w") as file:
        file.writestr("../../outside", "text")


def _run_without_source(bad: Path, good: Path) -> None:
    (bad / "base").mkdir()
    shutil.copy(good / "run" / "config.toml", bad / "base")


def _other_classes(bad: Path, good: Path) -> None:
    for old, new in (("cat", "bat"), ("dog", "fox"), ("owl", "owl")):
        shutil.copytree(good / "source" / old, bad / "data" / new)


def _more_classes(bad: Path, good: Path) -> None:
    shutil.copytree(good / "source", bad / "data")
    shutil.copytree(good / "source" / "cat", bad / "data" / "yak")


HUGE = struct.pack("<Q", 1 << 62) + b"{}"
RAISES = "from torch import nn\n\n\ndef make(num_classes):\n    raise KeyError('size')\n"

SPECS = (
    Case("unknown network", ADAPT + " -m lenett", "model 'lenett' is unknown"),
    Case("empty spec", ADAPT + " -m ''", "model"),
    Case("family without a name", ADAPT + " -m timm:", "timm:"),
    Case("unknown torchvision network", ADAPT + " -m torchvision:resnet5", "resnet5"),
    Case("unknown timm network", ADAPT + " -m timm:resnet5x", "resnet5x"),
    Case("folder of no transformer", ADAPT + " -m hf:{bad}/none", "none"),
    Case("module that is not there", ADAPT + " -m no_such_module:make", "cannot be imported"),
    Case("relative module", ADAPT + " -m .here:make", "cannot be imported"),
    Case("function that is not there", ADAPT + " -m json:make", "has no function 'make'"),
    Case("not a function", ADAPT + " -m math:pi", "has no function 'pi'"),
    Case("factory of something else", ADAPT + " -m builtins:dict", "not a torch.nn.Module"),
    Case("factory with other arguments", ADAPT + " -m json:dumps", "json:dumps"),
    Case("factory that fails", ADAPT + " -m catalogue_raises:make", "KeyError", write("catalogue_raises.py", RAISES)),
    Case(
        "module that fails",
        ADAPT + " -m catalogue_broken:make",
        "ZeroDivisionError",
        write("catalogue_broken.py", "1 / 0\n"),
    ),
)

WEIGHTS = (
    Case("missing", SAFE, "does not exist"),
    Case("a folder", ADAPT + " --weights {good}/source", "source"),
    Case("unknown kind of file", ADAPT + " --weights {bad}/w.h5", "ends in '.h5'", write("w.h5", "")),
    Case("empty .pth", PTH, "cannot be read as plain tensors", write("w.pth", "")),
    Case("text as .pth", PTH, "cannot be read as plain tensors", write("w.pth", "hello")),
    Case("pickle that runs code", PTH, "cannot be read as plain tensors", _attack),
    Case("old pickle that runs code", PTH, "cannot be read as plain tensors", _plain_pickle),
    Case("whole model", PTH, "Save model.state_dict() instead", _whole_model),
    Case("cut .pth", PTH, "cannot be read as plain tensors", _cut),
    Case("zip with a path that leads out", PTH, "cannot be read as plain tensors", _zip_without_tensors),
    Case("no tensors", PTH, "holds no named tensors", _saved({"epoch": 3})),
    Case("a bare tensor", PTH, "holds no named tensors", _saved(torch.zeros(3))),
    Case("empty .safetensors", SAFE, "not a valid safetensors file", write("w.safetensors", "")),
    Case("header of exabytes", SAFE, "not a valid safetensors file", write("w.safetensors", HUGE)),
    Case("other shapes", SAFE, "does not fit LeNet: 'conv1.weight'", _tensors(**{"conv1.weight": torch.zeros(3, 3)})),
    Case("base that is no run", ADAPT + " --base {good}/source", "not a run directory"),
    Case("base missing", ADAPT + " --base {bad}/none.safetensors", "does not exist"),
    Case("base without its source network", BASE, "source training has not ended", _run_without_source),
    Case("base of other classes", ADAPT + " --base {good}/run -s {bad}/data", "has 'cat' where", _other_classes),
    Case(
        "base of fewer classes", ADAPT + " --base {good}/run -s {bad}/data", "another number of classes", _more_classes
    ),
)
