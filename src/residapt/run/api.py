"""``residapt.adapt``: the whole way from two domains to a network for the second one."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from residapt.config import Config, from_dotted
from residapt.errors import ConfigError
from residapt.methods.names import SOURCE_FREE
from residapt.run.judge import Finished, finish, write_adapter
from residapt.run.outputs import with_outputs
from residapt.run.prepare import prepare
from residapt.run.recorded import recorded_config
from residapt.run.request import Request, Setup
from residapt.run.restarts import with_restarts
from residapt.run.stages import adapt_stage, begin, source_stage
from residapt.settings import merged
from residapt.storage.hub import push_to_hub
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, Verdict
from residapt.streams import TwoStream
from residapt.train import Callback


class AdaptedRun:
    """A finished adaptation: both networks, what was found, and which of them was selected.

    Example:
        >>> import torch
        >>> x, y = torch.randn(60, 6), torch.arange(60) % 2
        >>> x[:, 0] += 4.0 * y
        >>> run = adapt(nn.Linear(6, 2), source=(x, y), target=x + 0.5, steps=2, verbose=False,
        ...             **{"pretrain.steps": 100, "pretrain.lr": 0.05})
        >>> run.verdict.selected in ("adapted", "source")
        True
        >>> run.save_pretrained("adapter")
        >>> run.merge_and_unload()(x).shape
        torch.Size([60, 2])
    """

    def __init__(self, finished: Finished, directory: RunDirectory | None) -> None:
        self._finished = finished
        self.directory = directory
        """The run directory, if there is one."""

    def __repr__(self) -> str:
        summary = self.summary
        places = [f"out='{self.directory.path}'"] if self.directory else []
        accuracy = [f"{one.stage}={one.percent:.1f} %" for one in summary.accuracies]
        parts = [f"method='{summary.method}'", f"helped={self.verdict.helped}", f"selected='{self.verdict.selected}'"]
        return f"AdaptedRun({', '.join([*parts, *accuracy, *places])})"

    @cached_property
    def network(self) -> nn.Module:
        """The selected network, a plain module in evaluation mode: the adapted one unless that looks worse."""
        return copy.deepcopy(self._finished.selected()).eval()

    @property
    def streams(self) -> TwoStream:
        """The adapted two-stream network, whatever the verdict."""
        return self._finished.streams

    @property
    def source(self) -> nn.Module:
        """The source network that adaptation started from."""
        return self._finished.whole_source

    @property
    def summary(self) -> RunSummary:
        """Scores, ranks, accuracies, changes and notes."""
        return self._finished.summary

    @property
    def verdict(self) -> Verdict:
        """Did it help, judged without target labels?"""
        return self.summary.verdict

    @property
    def setup(self) -> Setup:
        """Data and configuration of the run."""
        return self._finished.setup

    def merge_and_unload(self) -> nn.Module:
        """The adapted streams merged into a plain network for the target, whatever the verdict."""
        return copy.deepcopy(self._finished.adapted()).eval()

    def save_pretrained(self, path: Path | str, overwrite: bool = False) -> None:
        """Write the adapter of the adapted streams, whatever the verdict.

        It carries what training has changed of the source network; with ``freeze="base"`` that is nothing, and
        the adapter is small.

        Args:
            path: A folder; it is created.
            overwrite: Replace an adapter that is there already.
        """
        write_adapter(self._finished, Path(path), overwrite=overwrite)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the adapter of the adapted streams to the Hugging Face Hub; ``residapt.load`` finds it there.

        Args:
            repo_id: Where to: ``"user/name"``. The repository is created if it is not there.
            private: Whether a new repository is private.
            token: Access token; without it the one that ``hf auth login`` has stored.

        Returns:
            The address of the repository.
        """
        with tempfile.TemporaryDirectory() as place:
            self.save_pretrained(Path(place, "adapter"))
            return push_to_hub(Path(place, "adapter"), repo_id, private=private, token=token)


def adapt(
    model: nn.Module | str,
    *,
    source: Any = None,
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
    callbacks: Sequence[Callback] = (),
    tensorboard: bool = False,
    trust_code: bool = False,
    verbose: bool = True,
    console: Console | None = None,
    **settings: Any,
) -> AdaptedRun:
    """Adapt a classifier to a target domain with no target labels, or few.

    Args:
        model: Any network that returns logits, or a model spec such as ``"timm:resnet50"``. An object is copied. It
            is trained on the source first if it is hardly better than guessing there. A spec
            ``package.module:factory`` runs that code.
        source: Labelled images: a folder of class folders, a DataLoader, a data set of (image, label) or dictionary
            rows, or (images, labels). None adapts a network that is trained already from target images alone.
        target: Unlabelled images: a folder of images, or any of the above; labels beside the images are not read.
        target_labels: Labelled target images: whatever ``source`` can be, or a CSV file of paths and classes. All
            methods but ``source_only`` learn from them as well.
        evaluate: Labelled images that score the result and are never trained on; images that are among
            ``target_labels`` are left out.
        out: A new run directory for configuration, metrics, adapter, network and report. None writes nothing.
        method: How to adapt; ``"rpt"`` unless given here or in ``config``.
        steps: Steps of the adaptation; chosen by the size of the data if not given.
        config: All settings as one object, instead of ``settings``.
        resume: Resume the stopped run in ``out`` with the configuration recorded there; give the same model,
            data and callbacks.
        classes: Names of the classes, in the order of the network's outputs.
        train_source_first: Whether to train the network on the source first; None finds out whether it needs it.
        callbacks: Callbacks of the adaptation (:class:`residapt.Callback`).
        tensorboard: Write event files into ``out``.
        trust_code: Allow code that the files of a run name as their network.
        verbose: Show progress and messages on the standard error stream. If False, messages go to the logger
            ``residapt`` instead.
        console: A ``rich`` console to show them on instead.
        **settings: Settings of the configuration, by groups or with dots:
            ``seed=1, rank={"weight": 0.5}, **{"pretrain.steps": 500}``.

    Returns:
        The finished run.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> x, y = torch.randn(60, 6), torch.arange(60) % 2
        >>> x[:, 0] += 4.0 * y
        >>> run = adapt(nn.Linear(6, 2), source=(x, y), target=x + 0.5, steps=2, verbose=False,
        ...             **{"pretrain.steps": 100, "pretrain.lr": 0.05})
        >>> run.network(x).shape
        torch.Size([60, 2])
    """
    if not isinstance(model, (nn.Module, str)):
        raise ConfigError(
            f"adapt: model is a {type(model).__name__}. Give a torch.nn.Module (of a state dict: build the network and "
            "load it first) or a model spec such as 'timm:resnet50'."
        )
    given = (
        _recorded(out, method, steps, config, settings) if resume else _config(model, method, steps, config, settings)
    )
    trained = isinstance(model, nn.Module) or given.model.base is not None
    if source is None and given.data.source is None and trained and "method" not in given.model_fields_set:
        given = _config(model, SOURCE_FREE[0], steps, config, settings)
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
        console=console or Console(stderr=True, quiet=not verbose),
        callbacks=callbacks,
        tensorboard=tensorboard,
        trust_code=trust_code or given.model.spec == model,
    )
    return run_request(request)


def run_request(request: Request) -> AdaptedRun:
    """Check everything, then create the run directory and go through the stages, once or for each restart."""
    finished = _go(request) if request.config.restarts == 1 else with_restarts(request, _go)
    return AdaptedRun(finished, None if request.out is None else RunDirectory(request.out))


def _go(request: Request, ready: Callable[[], None] = lambda: None) -> Finished:
    setup = prepare(request)
    run = None
    if setup.engine.is_main:
        ready()
    if request.out is not None:
        new = setup.engine.is_main and not request.resume
        run = RunDirectory.create(request.out) if new else RunDirectory(request.out)
    setup.engine.wait()
    setup = with_outputs(begin(setup, run))
    network = source_stage(setup, run)
    return finish(setup, run, network, adapt_stage(setup, run, network))


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
