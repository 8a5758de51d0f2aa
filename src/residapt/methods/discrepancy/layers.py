"""What a loss reads: a module's output, its input, or the last features before the classifier."""

from __future__ import annotations

import difflib

from torch import Tensor

from residapt.errors import ModelError
from residapt.models.heads import head_names, is_head
from residapt.streams import TwoStream

PENULTIMATE = "penultimate"


def resolve_layer(streams: TwoStream, name: str | None, example: Tensor) -> str | None:
    """``name`` as :meth:`TwoStream.outputs` knows it; ``penultimate`` becomes the classifier's input."""
    if name is None:
        return None
    if name == PENULTIMATE:
        return classifier_input(streams, example)
    modules = dict(streams.model.named_modules())
    if name.removesuffix(":input") not in modules:
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.3) or list(modules)[1:4]
        raise ModelError(
            f"layer '{name}' is not a module of {type(streams.model).__name__}. Did you mean {', '.join(near)}? "
            f"'{PENULTIMATE}' names the input of the classifier."
        )
    return name


def classifier_input(streams: TwoStream, example: Tensor) -> str:
    """The input of the classifier, found as everywhere else; of two classifiers, that of the last."""
    if is_head(streams.model):  # a network that is one layer has no name for it
        return ":input"
    try:
        return f"{head_names(streams.model, example)[-1]}:input"
    except ModelError as error:
        raise ModelError(f"{error} Name a layer with discrepancy.layer (and dsn.layer for DSN).") from None
