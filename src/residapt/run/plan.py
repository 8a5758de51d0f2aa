"""What a run would do and how long it would take: ``residapt adapt --dry-run``."""

from __future__ import annotations

from pathlib import Path

from residapt.config import ModelConfig
from residapt.report.words import count, duration, plural
from residapt.run.defaults import source_settings
from residapt.run.networks import takes_published_weights
from residapt.run.pace import seconds_in_the_end, trainings
from residapt.run.request import Setup
from residapt.run.size import size_line


def plan_lines(setup: Setup, out: Path | None) -> list[str]:
    """The data, the network, each stage with its time on this machine, and the files, in a few lines."""
    config, size = setup.config, size_line(setup)
    where = f"'{out}'" if out else "a new folder (-o)"
    return [
        *_data(setup),
        f"Network: {config.model.spec}, {_parameters(setup)}, {_weights(config.model)}; input {_input(setup)}.",
        *([f"Frozen: {setup.kept.reason}"] if setup.kept.reason else []),
        f"Method: {config.method}, recipe {config.recipe}, seed {config.seed}, on {setup.device}.",
        *_stages(setup),
        *([size] if size else []),
        *(f"note: {text}" for text in setup.notes),
        f"Nothing was trained or written. Without --dry-run the result will be in {where}.",
    ]


def _data(setup: Setup) -> list[str]:
    held, source = len(setup.held_out.images), len(setup.pair.source.images)
    lines = [
        "Source: no images; the network is as it was trained."
        if setup.source_free
        else f"Source: {plural(source + held, 'image')} of {plural(len(setup.classes), 'class', 'classes')}, "
        f"{count(held)} of them held out.",
        f"Target: {plural(len(setup.target), 'image')}, {count(len(setup.labelled)) or 'none'} with a label.",
    ]
    if setup.evaluation is not None:
        scored = setup.evaluation
        lines.append(f"Scored at the end: {plural(len(scored.data.images), 'image')} of {scored.name}.")
    return lines


def _parameters(setup: Setup) -> str:
    network = setup.whole(setup.network)
    return f"{count(sum(parameter.numel() for parameter in network.parameters()))} parameters"


def _weights(model: ModelConfig) -> str:
    if model.base is not None:
        return f"trained on the source already ({model.base})"
    if model.weights not in (None, "none"):
        return f"weights of {model.weights}"
    hub = model.spec.startswith("hf:") and model.weights is None
    return "published weights" if hub or takes_published_weights(model) else "random weights"


def _input(setup: Setup) -> str:
    form = setup.input
    return f"{form.size} x {form.size} pixels, {plural(form.channels, 'channel')}"


def _stages(setup: Setup) -> list[str]:
    """Each stage with its time, and all of them."""
    config, pace = setup.config, setup.clock.pace
    stages: list[tuple[str, float | None]] = []
    if setup.frozen is not None:
        stages.append(("compute the outputs of the frozen stages", pace.views))
    if setup.train_source:
        training = source_settings(config)
        what = f"train the source network: at most {plural(training.steps, 'step')} of {training.batch_size} images"
        stages.append((what, training.steps * pace.source.mean() or None))
    each = config.train.batch_size
    what = f"adapt: {plural(config.train.steps, 'step')} of {each} + {each} images"
    repeated = trainings(config)
    if repeated > 1:
        what += f", up to {repeated:g} times"
    stages.append((what, repeated * config.train.steps * pace.adapt.mean()))
    stages.append(("score both networks and write the report", seconds_in_the_end(setup, pace)))
    lines = [f"  {number}. {what}{_about(seconds)}" for number, (what, seconds) in enumerate(stages, 1)]
    known = sum(seconds or 0.0 for _, seconds in stages)
    return ["Stages:", *lines, f"Time: about {duration(known)} if this machine stays as busy as it is now."]


def _about(seconds: float | None) -> str:
    return "" if seconds is None else f", about {duration(seconds)}"
