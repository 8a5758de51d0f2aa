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
    Case("unknown network", ADAPT + " -m lenett", "ConfigError", ("'lenett'",)),
    Case("empty spec", ADAPT + " -m ''", "ConfigError", ("package.module",)),
    Case("family without a name", ADAPT + " -m timm:", "ConfigError", ("'timm:'",)),
    Case("unknown torchvision network", ADAPT + " -m torchvision:resnet5", "ConfigError", ("torchvision:resnet5",)),
    Case("unknown timm network", ADAPT + " -m timm:resnet5x", "ConfigError", ("timm:resnet5x",)),
    Case("folder of no transformer", ADAPT + " -m hf:{bad}/none", "ConfigError", ("{bad}/none",)),
    Case("module that is not there", ADAPT + " -m no_such_module:make", "ConfigError", ("'no_such_module'",)),
    Case("relative module", ADAPT + " -m .here:make", "ConfigError", ("'.here'",)),
    Case("function that is not there", ADAPT + " -m json:make", "ConfigError", ("'make'",)),
    Case("not a function", ADAPT + " -m math:pi", "ConfigError", ("'pi'",)),
    Case("factory of something else", ADAPT + " -m builtins:dict", "ModelError", ("torch.nn",)),
    Case("factory with other arguments", ADAPT + " -m json:dumps", "ModelError", ("json:dumps",)),
    Case(
        "factory that fails",
        ADAPT + " -m catalogue_raises:make",
        "ModelError",
        ("'size'",),
        write("catalogue_raises.py", RAISES),
    ),
    Case(
        "module that fails",
        ADAPT + " -m catalogue_broken:make",
        "ConfigError",
        ("'catalogue_broken'",),
        write("catalogue_broken.py", "1 / 0\n"),
    ),
)

WEIGHTS = (
    Case("missing", SAFE, "ConfigError", ("{bad}/w.safetensors",)),
    Case("a folder", ADAPT + " --weights {good}/source", "ModelError", ("{good}/source",)),
    Case("unknown kind of file", ADAPT + " --weights {bad}/w.h5", "ModelError", ("'.h5'",), write("w.h5", "")),
    Case("empty .pth", PTH, "ModelError", ("{bad}/w.pth",), write("w.pth", "")),
    Case("text as .pth", PTH, "ModelError", ("{bad}/w.pth",), write("w.pth", "hello")),
    Case("pickle that runs code", PTH, "ModelError", ("{bad}/w.pth",), _attack),
    Case("old pickle that runs code", PTH, "ModelError", ("{bad}/w.pth",), _plain_pickle),
    Case("whole model", PTH, "ModelError", ("model.state_dict",), _whole_model),
    Case("cut .pth", PTH, "ModelError", ("{bad}/w.pth",), _cut),
    Case("zip with a path that leads out", PTH, "ModelError", ("{bad}/w.pth",), _zip_without_tensors),
    Case("no tensors", PTH, "ModelError", ("{bad}/w.pth",), _saved({"epoch": 3})),
    Case("a bare tensor", PTH, "ModelError", ("{bad}/w.pth",), _saved(torch.zeros(3))),
    Case("empty .safetensors", SAFE, "ModelError", ("{bad}/w.safetensors",), write("w.safetensors", "")),
    Case("header of exabytes", SAFE, "ModelError", ("{bad}/w.safetensors",), write("w.safetensors", HUGE)),
    Case("other shapes", SAFE, "ModelError", ("'conv1.weight'",), _tensors(**{"conv1.weight": torch.zeros(3, 3)})),
    Case("base that is no run", ADAPT + " --base {good}/source", "ConfigError", ("{good}/source",)),
    Case("base missing", ADAPT + " --base {bad}/none.safetensors", "ConfigError", ("{bad}/none.safetensors",)),
    Case("base without its source network", BASE, "ModelError", ("{bad}/base",), _run_without_source),
    Case("base of other classes", ADAPT + " --base {good}/run -s {bad}/data", "ModelError", ("'cat'",), _other_classes),
    Case(
        "base of fewer classes",
        ADAPT + " --base {good}/run -s {bad}/data",
        "ModelError",
        ("{good}/run/source.safetensors",),
        _more_classes,
    ),
)
