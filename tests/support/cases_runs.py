"""Bad runs, model files, adapters and checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from support.bad_case import Case, Make, write

RESUME, RUN = "adapt --resume {bad}/run", "predict {bad}/run {good}/target -o {bad}/p.csv"
MODEL = "predict {bad}/m.safetensors {good}/target -o {bad}/p.csv"
ADAPTER = "predict {bad}/adapter {good}/target -o {bad}/p.csv"
NEEDED = ("config.toml", "source.safetensors", "metrics.jsonl")
RECORDS = ("manifest.json", "state.json", "state.safetensors")


def stopped(change: Callable[[Path], object]) -> Make:
    """A run that was stopped after its first checkpoints, with something changed."""

    def make(bad: Path, good: Path) -> None:
        run = bad / "run"
        (run / "checkpoint").mkdir(parents=True)
        for name in NEEDED:
            shutil.copy(good / "run" / name, run)
        shutil.copytree(good / "run" / "checkpoint" / "adapt", run / "checkpoint" / "adapt")
        change(run)

    return make


def _checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoint" / "adapt").iterdir())


def _each(change: Callable[[Path], object]) -> Make:
    return stopped(lambda run: [change(folder) for folder in _checkpoints(run)])


def _each_record(**values: Any) -> Make:
    """Checkpoints whose record was changed by somebody who knows the format."""

    def change(folder: Path) -> None:
        file = folder / "state.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))
        sign(folder)

    return _each(change)


def _other_tensors(folder: Path) -> None:
    tensors = load_file(folder / "state.safetensors")
    save_file({name: tensor.double() for name, tensor in tensors.items()}, folder / "state.safetensors")
    sign(folder)


def sign(folder: Path) -> None:
    """Make the manifest fit the files again."""
    blobs = {name: (folder / name).read_bytes() for name in RECORDS[1:]}
    files = {name: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for name, b in blobs.items()}
    (folder / "manifest.json").write_text(json.dumps({"files": files}))


def _edit_config(old: str, new: str) -> Make:
    def change(run: Path) -> None:
        file = run / "config.toml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return stopped(change)


def adapter(**values: Any) -> Make:
    """A copy of the adapter with other values in its configuration; None takes one away."""

    def make(bad: Path, good: Path) -> None:
        shutil.copytree(good / "run" / "adapter", bad / "adapter")
        file = bad / "adapter" / "adapter_config.json"
        changed = json.loads(file.read_text()) | values
        file.write_text(json.dumps({name: value for name, value in changed.items() if value is not None}))

    return make


def _adapter_file(name: str, content: bytes | None) -> Make:
    def make(bad: Path, good: Path) -> None:
        shutil.copytree(good / "run" / "adapter", bad / "adapter")
        (bad / "adapter" / name).unlink()
        if content is not None:
            (bad / "adapter" / name).write_bytes(content)

    return make


def _cut_adapter(bad: Path, good: Path) -> None:
    shutil.copytree(good / "run" / "adapter", bad / "adapter")
    os.truncate(bad / "adapter" / "adapter_model.safetensors", 1000)


def model(**properties: str | None) -> Make:
    """The model file with other properties; None takes one away."""

    def make(bad: Path, good: Path) -> None:
        own = {
            "classes": '["cat", "dog", "owl"]',
            "model": '"ganin_lenet"',
            "method": '"rpt"',
            "input": INPUT,
            **properties,
        }
        kept = {f"residapt.{name}": text for name, text in own.items() if text is not None}
        save_file(load_file(good / "run" / "model.safetensors"), bad / "m.safetensors", kept)

    return make


def _cut_model(bad: Path, good: Path) -> None:
    shutil.copy(good / "run" / "model.safetensors", bad / "m.safetensors")
    os.truncate(bad / "m.safetensors", 100_000)


INPUT = '{"size": 28, "channels": 1, "mean": [0.5], "std": [0.5]}'
HUGE_INPUT = {"size": 20_000, "channels": 1, "mean": [0.5], "std": [0.5]}
NO_LAYER = {"name": "conv1", "shape": [10**15, 10**15], "before": [1, 1], "ranks": [1, 1], "parameters": 4}

MODELS = (
    Case("run missing", "predict {bad}/none {good}/target", "ConfigError", ("{bad}/none",)),
    Case("run without configuration", RUN, "ConfigError", ("{bad}/run",), write("run/notes.txt", "")),
    Case("run not finished", RUN, "ConfigError", ("{bad}/run",), stopped(lambda run: None)),
    Case("evaluation of no run", "eval {good}/source {good}/scored", "ConfigError", ("{good}/source",)),
    Case("report of no run", "report {good}/source", "ConfigError", ("{good}/source",)),
    Case(
        "report of a broken configuration",
        "report {bad}/run",
        "ConfigError",
        ("{bad}/run/config.toml",),
        write("run/config.toml", "= 1"),
    ),
    Case("inspection of no run", "inspect {bad}/none", "ConfigError", ("{bad}/none",)),
    Case("export of no run", "export {bad}/none -o {bad}/x.onnx", "ConfigError", ("{bad}/none",)),
    Case("model file of text", MODEL, "ModelError", ("{bad}/m.safetensors",), write("m.safetensors", "hello")),
    Case("model file cut short", MODEL, "ModelError", ("{bad}/m.safetensors",), _cut_model),
    Case(
        "model file of somebody else",
        MODEL,
        "ModelError",
        ("{bad}/m.safetensors",),
        model(classes=None, model=None, method=None, input=None),
    ),
    Case("model file without classes", MODEL, "ModelError", ("{bad}/m.safetensors",), model(classes=None)),
    Case("model file with broken properties", MODEL, "ModelError", ("{bad}/m.safetensors",), model(classes="[")),
    Case("model file with a class twice", MODEL, "ModelError", ("'cat'",), model(classes='["cat", "cat", "owl"]')),
    Case(
        "model file of more classes",
        MODEL,
        "ModelError",
        ("{bad}/m.safetensors",),
        model(classes='["a", "b", "c", "d"]'),
    ),
    Case("model file of an unknown network", MODEL, "ConfigError", ("'lenett'",), model(model='"lenett"')),
    Case("model file that names code", MODEL, "ModelError", ("'os:system'",), model(model='"os:system"')),
    Case("model file of another network", MODEL, "ModelError", ("{bad}/m.safetensors",), model(model='"dtn"')),
    Case(
        "model file that reads huge images",
        MODEL,
        "ConfigError",
        ("image_size=20000",),
        model(input=json.dumps(HUGE_INPUT)),
    ),
    Case(
        "model file with a huge bottleneck",
        MODEL,
        "ModelError",
        ("{bad}/m.safetensors",),
        model(bottleneck="900000000000"),
    ),
    Case(
        "model file with odd resizing",
        MODEL,
        "ConfigError",
        ("'magic'",),
        model(input=INPUT.replace("}", ', "interpolation": "magic"}')),
    ),
)

ADAPTERS = (
    Case(
        "no JSON",
        ADAPTER,
        "ModelError",
        ("{bad}/adapter/adapter_config.json",),
        _adapter_file("adapter_config.json", b"{"),
    ),
    Case(
        "a list",
        ADAPTER,
        "ModelError",
        ("{bad}/adapter/adapter_config.json",),
        _adapter_file("adapter_config.json", b"[]"),
    ),
    Case("of another program", ADAPTER, "ModelError", ("{bad}/adapter/adapter_config.json",), adapter(format="peft")),
    Case("of a later version", ADAPTER, "ModelError", ("2",), adapter(format_version=2)),
    Case(
        "weights missing",
        ADAPTER,
        "ModelError",
        ("{bad}/adapter/adapter_model.safetensors",),
        _adapter_file("adapter_model.safetensors", None),
    ),
    Case(
        "weights changed",
        ADAPTER,
        "ModelError",
        ("{bad}/adapter/adapter_model.safetensors",),
        _adapter_file("adapter_model.safetensors", b"hello"),
    ),
    Case("weights cut short", ADAPTER, "ModelError", ("{bad}/adapter/adapter_model.safetensors",), _cut_adapter),
    Case("unknown key", ADAPTER, "ModelError", ("'pickle'",), adapter(pickle="x")),
    Case("layers of wrong type", ADAPTER, "ModelError", ("'all'",), adapter(layers="all")),
    Case("layers missing", ADAPTER, "ModelError", ("'layers'",), adapter(layers=None)),
    Case("no layers", ADAPTER, "ModelError", ("{bad}/adapter",), adapter(layers=[])),
    Case(
        "layers beyond memory",
        ADAPTER,
        "ModelError",
        ("layers.0.shape.0 = 1000000000000000",),
        adapter(layers=[NO_LAYER]),
    ),
    Case("no tensors", ADAPTER, "ModelError", ("{bad}/adapter",), adapter(tensors={})),
    Case("huge input", ADAPTER, "ConfigError", ("image_size=20000",), adapter(input=HUGE_INPUT)),
    Case(
        "nonlinearity of its own",
        ADAPTER,
        "ModelError",
        ("{bad}/adapter/adapter_config.json",),
        adapter(transform={"nonlinearity": "os.system"}),
    ),
    Case("network not named", ADAPTER, "ModelError", ("{bad}/adapter",), adapter(model=None)),
    Case("network that is code", ADAPTER, "ModelError", ("'os:system'",), adapter(model="os:system")),
    Case("inspected", "inspect {bad}/adapter", "ModelError", ("2",), adapter(format_version=2)),
)

CHECKPOINTS = (
    Case("no run", "adapt --resume {bad}/none", "ConfigError", ("{bad}/none",)),
    Case(
        "no configuration", RESUME, "ConfigError", ("{bad}/run",), stopped(lambda run: (run / "config.toml").unlink())
    ),
    Case("another model", RESUME + " -m dtn", "ConfigError", ("{bad}/run",), stopped(lambda run: None)),
    Case("broken configuration", RESUME, "ConfigError", ("'sed'",), _edit_config("seed = 0\nd", "sed = 0\nd")),
    Case(
        "network that is code",
        RESUME,
        "ModelError",
        ("'os:system'",),
        _edit_config('spec = "ganin_lenet"', 'spec = "os:system"'),
    ),
    Case("data that vanished", RESUME, "DataError", ("{good}/gone",), _edit_config("/target", "/gone")),
    Case(
        "summary broken",
        RESUME,
        "DataError",
        ("{bad}/run/summary.json",),
        stopped(lambda run: (run / "summary.json").write_text("{")),
    ),
    Case(
        "summary a list",
        RESUME,
        "DataError",
        ("summary.json",),
        stopped(lambda run: (run / "summary.json").write_text("[1]")),
    ),
    Case(
        "source network damaged",
        RESUME,
        "ModelError",
        ("source.safetensors",),
        stopped(lambda run: os.truncate(run / "source.safetensors", 3000)),
    ),
    Case("manifests missing", RESUME, "ModelError", ("manifest.json",), _each(lambda f: (f / RECORDS[0]).unlink())),
    Case(
        "manifests a list",
        RESUME,
        "ModelError",
        ("manifest.json",),
        _each(lambda f: (f / RECORDS[0]).write_text("[1]")),
    ),
    Case(
        "manifests of other files",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/manifest.json",),
        _each(lambda f: (f / RECORDS[0]).write_text('{"files": {}}')),
    ),
    Case(
        "tensors cut short",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/state.safetensors",),
        _each(lambda f: os.truncate(f / RECORDS[2], 500)),
    ),
    Case(
        "records changed",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/state.json",),
        _each(lambda f: (f / RECORDS[1]).write_text("{}")),
    ),
    Case(
        "records of another program",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/state.json",),
        _each_record(format="lightning"),
    ),
    Case("records of another method", RESUME, "ModelError", ("'dann'",), _each_record(method="dann")),
    Case("records of a negative step", RESUME, "ModelError", ("1",), _each_record(step=-1)),
    Case(
        "records of another step",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/state.json",),
        _each_record(step=10**30),
    ),
    Case(
        "optimiser of other parameters",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002",),
        _each_record(optimizer={"nobody": {"step": 1}}),
    ),
    Case(
        "callbacks of wrong type",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002/state.json",),
        _each_record(callbacks={"Notes": 3}),
    ),
    Case(
        "callbacks without values",
        RESUME,
        "ModelError",
        ("'s record of the run so far cannot be read: KeyError('",),
        _each_record(callbacks={"Notes": {}}),
    ),
    Case(
        "tensors of another type",
        RESUME,
        "ModelError",
        ("{bad}/run/checkpoint/adapt/step-00000002",),
        _each(_other_tensors),
    ),
)
