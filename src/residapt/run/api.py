"""``residapt.adapt``: the whole way from two domains to a network for the second one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from residapt.config import Config, from_dotted
from residapt.errors import ConfigError
from residapt.run.judge import Finished, finish, write_adapter
from residapt.run.prepare import prepare
from residapt.run.request import Plan, Request
from residapt.run.resume import recorded_config
from residapt.run.stages import adapt_stage, begin, source_stage
from residapt.settings import merged
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, Verdict
from residapt.streams import TwoStream


class AdaptedRun:
    """A finished adaptation."""

    def __init__(self, finished: Finished, run: RunDirectory | None) -> None:
        self._finished = finished
        self.run = run
        """The run directory, if one was asked for."""

    @property
    def two(self) -> TwoStream:
        """The adapted two-stream network, whatever the verdict."""
        return self._finished.method.two

    @property
    def source(self) -> nn.Module:
        """The source network that adaptation started from."""
        return self._finished.source

    @property
    def summary(self) -> RunSummary:
        """Scores, ranks, accuracies, changes and notes."""
        return self._finished.summary

    @property
    def verdict(self) -> Verdict:
        """Did it help, judged without target labels?"""
        return self.summary.verdict

    @property
    def plan(self) -> Plan:
        """Data and configuration of the run."""
        return self._finished.plan

    def merge_and_unload(self) -> nn.Module:
        """A plain network for the target: the adapted one, or the source network where that looks better."""
        return copy.deepcopy(self._finished.handed_out()).eval()

    def save_pretrained(self, path: Path | str) -> None:
        """Write the adapter: small where the source network was left as it is (``train_source=False``)."""
        write_adapter(self._finished, Path(path))


def adapt(
    model: nn.Module | str,
    *,
    source: Any,
    target: Any,
    target_labels: Any = None,
    evaluate: Any = None,
    out: Path | str | None = None,
    method: str | None = None,
    steps: int | None = None,
    config: Config | None = None,
    resume: bool = False,
    classes: Sequence[str] | None = None,
    train_source_first: bool | None = None,
    tensorboard: bool = False,
    trust_code: bool = False,
    console: Console | None = None,
    **settings: Any,
) -> AdaptedRun:
    """Adapt a classifier to a target domain with no target labels, or a few.

    ``model`` is any network that returns logits, or a model spec such as ``timm:resnet50``. ``source`` is labelled:
    a folder of class folders, a DataLoader, a data set with (image, label) or dictionary rows, or (images, labels).
    ``target`` is unlabelled: a folder of images or any of these; labels beside its images are not read.
    ``target_labels`` are a few labelled target images: whatever source can be, or a CSV file of paths and classes; all
    methods but ``source_only`` then learn from them as well. ``evaluate`` is labelled and scored at the end, never
    trained on: images that are among ``target_labels`` are left out of it. ``out`` is a new run directory for
    configuration, metrics, adapter, network and report; without it nothing is written. With ``resume`` the run in
    ``out`` goes on where it was stopped, with the configuration that is recorded there; give the same model and data.

    A network given as an object is copied. It is trained on the source first if it does hardly better than guessing
    there; ``train_source_first`` decides otherwise. ``method`` is ``rpt`` unless it is given here or in ``config``.
    A spec ``package.module:factory`` runs that code; where the files of a run say so, ``trust_code`` must allow it.
    ``settings`` are those of the configuration, by groups or with dots, as in
    ``adapt(..., seed=1, rank={"weight": 0.5}, **{"source.steps": 500})``.
    """
    if resume:
        given = _recorded(out, method, steps, config, settings)
    else:
        given = _config(model, method, steps, config, settings)
    request = Request(
        config=given,
        source=source,
        target=target,
        target_labels=target_labels,
        evaluate=evaluate,
        model=model if isinstance(model, nn.Module) else None,
        classes=classes,
        train_source=train_source_first,
        out=None if out is None else Path(out),
        resume=resume,
        console=console or Console(stderr=True),
        tensorboard=tensorboard,
        trust_code=trust_code or given.model.spec == model,
    )
    return run_request(request)


def run_request(request: Request) -> AdaptedRun:
    """Check everything, then make the run directory and go through the stages."""
    plan = prepare(request)
    run = None
    if request.out is not None:
        new = plan.engine.is_main and not request.resume
        run = RunDirectory.create(request.out) if new else RunDirectory(request.out)
    plan.engine.wait()
    begin(plan, run)
    network = source_stage(plan, run)
    adapted = adapt_stage(plan, run, network)
    return AdaptedRun(finish(plan, run, network, adapted), run)


def _recorded(
    out: Path | str | None, method: str | None, steps: int | None, config: Config | None, settings: dict[str, Any]
) -> Config:
    if out is None or method is not None or steps is not None or config is not None or settings:
        raise ConfigError("adapt(resume=True): give out, the folder of the run, and no settings: it has its own.")
    return recorded_config(Path(out))


def _config(
    model: nn.Module | str, method: str | None, steps: int | None, config: Config | None, settings: dict[str, Any]
) -> Config:
    values = dict(settings)
    if isinstance(model, str):
        values["model.spec"] = model
    if method is not None:
        values["method"] = method
    if steps is not None:
        values["train.steps"] = steps
    if config is None:
        return Config.parse(from_dotted(values), where="adapt")
    if settings:
        raise ConfigError(f"adapt: give either config or single settings, got both (settings {sorted(settings)}).")
    base = config.model_dump(exclude_unset=True)
    return Config.parse(merged(base, from_dotted(values)), where="adapt")
