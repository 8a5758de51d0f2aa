"""The classifier at the end of a network: finding it, and putting a bottleneck before it.

:func:`head_names` is the one place that decides which layers are the classifier. What the network itself declares comes
first (timm's configuration, the twins of distilled transformers); then, where an example of the input is at hand, the
layer that is called last; without an example the layer that is registered last, which by custom is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError
from residapt.transform.calls import Calls, record_calls

# Distilled Hugging Face vision transformers average these two.
_TWINS = ("cls_classifier", "distillation_classifier")


class Bottleneck(nn.Module):
    """``classifier(bottleneck(x))``: two layers with nothing between them, as in Ganin's and CDAN's code."""

    def __init__(self, bottleneck: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.bottleneck = bottleneck
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        """Logits; hook ``bottleneck`` for the features."""
        logits: Tensor = self.classifier(self.bottleneck(x))
        return logits


def find_head(model: nn.Module, example: Tensor | None = None) -> str:
    """Dotted name of the layer that gives the logits: a Linear, or a convolution with a 1x1 kernel."""
    names = head_names(model, example)
    if len(names) > 1:
        raise ModelError(
            f"{type(model).__name__} has {len(names)} classifiers ({', '.join(names)}), not one. "
            "Use a model without a distillation head."
        )
    return names[0]


def head_names(model: nn.Module, example: Tensor | None = None) -> tuple[str, ...]:
    """Names of all classifier layers; more than one only for distilled transformers.

    ``example`` is a small batch of input: with it the order of calls decides, not that of registration.
    """
    calls = None if example is None else record_calls(model, example)
    names = tuple(_last_layer(model, name, calls) for name in _declared(model))
    if not all(names) or not names:
        names = (_last_layer(model, "", calls),)
    if not names[0]:
        raise ModelError(
            f"{type(model).__name__} has no Linear layer and no 1x1 convolution, so no classifier was found. "
            "Give a network whose last layer is one of them."
        )
    return names


def new_layers(model: nn.Module, example: Tensor | None = None) -> tuple[str, ...]:
    """Names of the classifiers, each with the bottleneck before it where there is one: what pre-training lacks."""
    parents = [(name, name.rpartition(".")[0]) for name in head_names(model, example)]
    return tuple(parent if isinstance(model.get_submodule(parent), Bottleneck) else name for name, parent in parents)


def with_bottleneck(
    model: nn.Module, *, num_classes: int, width: int = 256, example: Tensor | None = None
) -> nn.Module:
    """Replace the head by a :class:`Bottleneck` of this width, in place, and return the model."""
    if width < 1 or num_classes < 1:
        raise ConfigError(f"width and num_classes must be 1 or more, got width={width}, num_classes={num_classes}.")
    name = find_head(model, example)
    parent_name, _, attribute = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    if isinstance(parent, Bottleneck):
        raise ModelError(f"{parent_name!r} of {type(model).__name__} is a bottleneck already. Add it only once.")
    old = model.get_submodule(name)
    new = Bottleneck(_like(old, _in_features(old), width), _like(old, width, num_classes))
    # Sequential and ModuleList keep their children under numbers, which setattr accepts as well.
    setattr(parent, attribute, new)
    if hasattr(model, "num_classes"):
        setattr(model, "num_classes", num_classes)  # noqa: B010  (nn.Module's attributes are typed as modules)
    return model


def _declared(model: nn.Module) -> tuple[str, ...]:
    """What the model says its classifier is: timm's configuration, or the twin heads of transformers."""
    cfg = getattr(model, "pretrained_cfg", None)
    names = cfg.get("classifier") if isinstance(cfg, Mapping) else None
    if isinstance(names, str):
        names = (names,)
    if not names and all(hasattr(model, twin) for twin in _TWINS):
        names = _TWINS
    return tuple(names or ())


def _last_layer(model: nn.Module, name: str, calls: Calls | None) -> str:
    """Name of the last candidate at or below ``name``, or ""; last in the order of calls, or else of registration."""
    try:
        root = model.get_submodule(name)
    except AttributeError:
        return ""
    below = [child for child, layer in root.named_modules(prefix=name) if is_head(layer)]
    if calls is not None:
        below = sorted((child for child in below if child in calls.last), key=lambda child: calls.last[child])
    return below[-1] if below else ""


def is_head(layer: nn.Module) -> bool:
    """Whether a layer can be a classifier: a Linear, or a convolution with a 1x1 kernel."""
    if isinstance(layer, nn.Conv2d):
        return all(k == 1 for k in layer.kernel_size) and layer.groups == 1
    return isinstance(layer, nn.Linear)


def _in_features(layer: nn.Module) -> int:
    return layer.in_channels if isinstance(layer, nn.Conv2d) else int(layer.in_features)  # type: ignore[arg-type]


def _like(old: nn.Module, in_features: int, out_features: int) -> nn.Module:
    """A new layer of the head's kind, on its device and in its precision; Xavier normal as in CDAN's code."""
    weight = old.weight
    assert isinstance(weight, Tensor)
    place = {"device": weight.device, "dtype": weight.dtype}
    new: nn.Linear | nn.Conv2d
    if isinstance(old, nn.Conv2d):
        new = nn.Conv2d(in_features, out_features, 1, **place)  # type: ignore[arg-type]
    else:
        new = nn.Linear(in_features, out_features, **place)  # type: ignore[arg-type]
    nn.init.xavier_normal_(new.weight)
    assert new.bias is not None
    nn.init.zeros_(new.bias)
    return new
