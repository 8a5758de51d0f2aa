"""``residapt doctor``: what is installed, what this machine has, and whether a small adaptation works on it."""

from __future__ import annotations

import logging
import os
import platform
import time
from importlib import import_module, metadata, util
from typing import Any

from residapt.settings import Settings
from residapt.version import __version__

PACKAGES = ("torch", "torchvision", "accelerate", "safetensors", "pydantic", "typer", "numpy", "scikit-learn", "plotly")
EXTRAS = {
    "timm": ("timm",),
    "hf": ("transformers",),
    "hub": ("huggingface_hub",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "tune": ("optuna",),
    "ray": ("ray",),
    "tensorboard": ("tensorboard",),
    "parquet": ("pyarrow",),
    "datasets": ("datasets",),
}
"""The modules that each extra brings."""
_log = logging.getLogger(__name__)


class SelfTest(Settings):
    """A small adaptation on each device."""

    device: str
    """Where it ran."""
    passed: bool
    """Whether the adapted network classifies, and is the same after merging."""
    seconds: float
    """How long it took."""
    problem: str = ""
    """What went wrong."""


class Checkup(Settings):
    """What was found."""

    residapt: str
    """Version of residapt."""
    python: str
    """Version of Python."""
    system: str
    """Operating system and processor."""
    packages: dict[str, str | None]
    """Versions of what residapt needs; none if it is missing."""
    devices: dict[str, str]
    """What can compute, by the name that ``--device`` takes."""
    extras: dict[str, bool]
    """Which extras are installed."""
    tests: tuple[SelfTest, ...]
    """The self-tests that ran."""
    problems: tuple[str, ...]
    """What should be mended, with what to do."""


def examine(*, test: bool = True) -> Checkup:
    """Check everything; what is found is reported, not raised.

    Args:
        test: Whether to run the self-test on each device as well.
    """
    packages = {name: _version(name) for name in PACKAGES}
    problems = [
        f"{name} is not installed. Install residapt again: pip install --force-reinstall residapt"
        for name, found in packages.items()
        if found is None
    ]
    broken = _torch_problem()
    devices = {} if broken else _devices()
    tests = tuple(_self_test(device) for device in devices) if test else ()
    failed = [f"the self-test on {one.device} failed: {one.problem}" for one in tests if not one.passed]
    return Checkup(
        residapt=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        packages=packages,
        devices=devices,
        extras={extra: all(util.find_spec(name) for name in names) for extra, names in EXTRAS.items()},
        tests=tests,
        problems=(*problems, *([broken] if broken else []), *failed),
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _torch_problem() -> str:
    """Why torch or torchvision cannot be used; nothing if they can."""
    for name in ("torch", "torchvision"):
        try:
            import_module(name)
        except Exception as error:  # a build that does not fit fails in its own way
            return (
                f"{name} cannot be used: {type(error).__name__}: {error}. torch and torchvision have to be of the same "
                "build: install both again in one call, pip install --force-reinstall torch torchvision"
            )
    return ""


def _devices() -> dict[str, str]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {"cpu": f"{cores} cores, {torch.get_num_threads()} threads"}
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(number)
            name = "cuda" if number == 0 else f"cuda:{number}"
            found[name] = f"{about.name}, {about.total_memory / 1e9:.1f} GB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found


def _self_test(device: str) -> SelfTest:
    import torch

    started = time.monotonic()
    logger = logging.getLogger("residapt")
    level = logger.level
    logger.setLevel(logging.ERROR)  # notes on so short a training help nobody
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for each other at every small step on a busy machine
    try:
        problem = _adapt_small(device)
    except Exception as error:  # whatever it is, it is the finding
        _log.debug("self-test on %s", device, exc_info=True)
        problem = f"{type(error).__name__}: {error}"
    finally:
        logger.setLevel(level)
        torch.set_num_threads(threads)
    return SelfTest(device=device, passed=not problem, seconds=time.monotonic() - started, problem=problem)


def _adapt_small(device: str) -> str:
    """Two classes, the target shifted against the source; what is wrong with the result, or nothing."""
    import torch
    from torch import nn

    from residapt.run import adapt

    random = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    source = torch.randn(200, 8, generator=random)
    source[:, 0] += 4.0 * labels
    target = source + 0.5
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    settings: dict[str, Any] = {"pretrain": {"steps": 100, "lr": 0.05}, "device": device, "recipe": "paper"}
    run = adapt(network, source=(source, labels), target=target, steps=20, verbose=False, **settings)
    streams = run.streams
    inputs = target.to(next(streams.parameters()).device)
    with torch.no_grad():
        live = streams.eval()(inputs, stream="target").cpu()
        merged = run.merge_and_unload().to(inputs.device)(inputs).cpu()
    right = float((live.argmax(1) == labels).double().mean())
    if right < 0.8:
        return f"the adapted network is right on {100 * right:.0f} % of an easy problem only"
    difference = float((live - merged).abs().max())
    return f"the merged network differs from the streams by {difference:.1e}" if not difference < 1e-3 else ""
