"""Where training starts from: the nearest of the adapters that the base has already, chosen without labels.

Nearest is the adapter whose predictions on the new images are the most confident and diverse (InfoMax); the base itself
competes too. The adapter is only read: the run has transforms of its own, which start as a copy.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.evaluate.predict import predict_logits
from residapt.losses.information import information_maximisation
from residapt.methods.fit import example_of
from residapt.methods.registry import build_method
from residapt.methods.start import can_start
from residapt.run.networks import logits_in
from residapt.run.request import Setup
from residapt.storage import AdapterSet, read_config
from residapt.storage.adapters_in import adapters_in
from residapt.storage.hub import CONFIG
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream

MARGIN = 0.01
"""An adapter must be better than the base by more than this, since it has fewer ranks to learn with than a new one."""


def nearest_adapter(setup: Setup, source: nn.Module) -> tuple[TwoStream | None, tuple[str, ...]]:
    """The streams to start from, if there are any, and what a person should know about the choice."""
    known = _known(setup)
    if not known:
        return None, ()
    fitting, notes = _fitting(setup, source, known)
    if not len(fitting):
        return None, notes
    scores = {name: _infomax(setup, fitting.network(name)) for name in ("source", *fitting)}
    best = max(scores, key=lambda name: scores[name] - (0.0 if name == "source" else MARGIN))
    text = ", ".join(f"{'the base' if name == 'source' else name} {value:.3f}" for name, value in scores.items())
    if best == "source":
        note = f"training starts from the base: no adapter predicts the new images better than it (InfoMax: {text})."
        return None, (*notes, note)
    note = f"training starts from the adapter '{best}', the nearest to the new images (InfoMax: {text})."
    return fitting[best], (*notes, note)


def _known(setup: Setup) -> dict[str, Path]:
    """The adapters of the base: of the run that it is, and of the folder that is named."""
    model = setup.config.model
    if setup.config.freeze != "base" or model.base is None or model.adapters == "none":
        return {}
    found = {} if model.adapters is None else adapters_in(Path(model.adapters))
    own = RunDirectory(Path(model.base)).adapter
    return {Path(model.base).name: own, **found} if (own / CONFIG).is_file() else found


def _fitting(setup: Setup, source: nn.Module, known: dict[str, Path]) -> tuple[AdapterSet, tuple[str, ...]]:
    """Those that are made for this very base and these classes, with the layers that are learned here."""
    example = example_of(setup.pair.target).to(setup.device)
    wanted = build_method(setup.config.method, copy.deepcopy(source), setup.method_config, example=example).streams
    found, notes = AdapterSet(source, cached=1), []
    for name, path in known.items():
        try:
            if (classes := read_config(path).classes) != setup.classes:
                raise ModelError(f"it is for other classes ({', '.join(classes[:4])}).")
            found.add(name, path)
            if not can_start(found[name], wanted):
                found.remove(name)
                raise ModelError("it changes other layers or parameters than this run, or nothing.")
        except ModelError as error:
            notes.append(f"training cannot start from adapter '{name}': {error}")
    return found, tuple(notes)


@torch.no_grad()
def _infomax(setup: Setup, network: nn.Module) -> float:
    def predict(x: Tensor) -> Tensor:
        return logits_in(network(x))

    logits = predict_logits(predict, setup.seen, batch_size=64, device=setup.device)
    return -float(information_maximisation(logits.double()))
