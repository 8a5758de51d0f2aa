"""Weights from a file into a network, with everything but the classifier checked."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.models.heads import head_names

# Where training scripts put the weights inside a checkpoint, and what wrappers put before each name.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "network", "net")
_PREFIXES = ("module.", "_orig_mod.", "model.", "network.", "net.")
# Auxiliary classifiers that only help training (GoogLeNet, Inception); they are built without them here.
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
_COUNTER = "num_batches_tracked"
# First convolutions (SHA-256 of their float32 bytes) of published ResNets with the stride in a stage's first 1x1
# convolution, as in He et al. (2016).
_ORIGINAL_RESNETS = frozenset({"63132d4ebd1e202e14ec8a1f50541069d05629cb34312e95a6888be492b65b14"})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Named tensors of a ``.safetensors`` file, or of a ``.pth``/``.pt`` file, whose pickle runs no code."""
    if not path.is_file():
        raise ModelError(f"weights file {path} does not exist. Check the path.")
    if path.suffix == ".safetensors":
        try:
            return dict(load_file(path))
        except Exception as error:  # safetensors raises its own untyped SafetensorError
            raise ModelError(f"weights file {path} is not a valid safetensors file: {error}") from error
    if path.suffix in {".pth", ".pt"}:
        return _unwrap(_torch_load(path), path)
    raise ModelError(f"weights file {path} ends in {path.suffix!r}. Give a .safetensors, .pth or .pt file.")


def load_weights(model: nn.Module, path: Path) -> tuple[str, ...]:
    """Load the file into ``model`` and return the names of classifier tensors that did not fit and stay new.

    A file with another number of classes is fine; any other tensor that is missing, left over, or of another
    shape is rejected.
    """
    return load_state(model, read_weights(path), f"weights file {path}")


def load_state(model: nn.Module, tensors: dict[str, Tensor], what: str) -> tuple[str, ...]:
    """The same with tensors that were read already; ``what`` names them in errors."""
    own = model.state_dict()
    given = _plain_counters(_strip_prefixes(tensors, own))
    _require_layout(model, given, what)
    heads = head_names(model)
    problems = difference(
        {name: tuple(t.shape) for name, t in own.items()},
        {name: tuple(t.shape) for name, t in given.items()},
        heads,
    )
    if problems:
        raise ModelError(misfit_message(what, type(model).__name__, problems))
    fitting = {name: t for name, t in given.items() if name in own and t.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)
    return tuple(name for name in own if name not in fitting and _inside(name, heads))


def difference(
    own: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]], heads: Iterable[str]
) -> list[str]:
    """One line for each tensor outside the heads whose name or shape differs, in the network's order."""
    heads = tuple(heads)
    lines = []
    for name, shape in own.items():
        if _inside(name, heads) or given.get(name) == shape:
            continue
        if name in given:
            lines.append(f"{name!r} is {_show(given[name])} in the file and {_show(shape)} in the network")
        elif not name.endswith(_COUNTER):  # files older than torch 0.4.1 lack it, and it starts at 0
            lines.append(f"{name!r} ({_show(shape)} in the network) is not in the file")
    for name, shape in given.items():
        if name not in own and not _inside(name, heads) and not name.startswith(_AUXILIARY):
            lines.append(f"{name!r} ({_show(shape)} in the file) is not in the network")
    return lines


def misfit_message(what: str, network: str, problems: list[str]) -> str:
    """The error: the first differing layer, how many more, and what to do."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{what} does not fit {network}: {problems[0]}{more}. Give the weights of this very model."


def _torch_load(path: Path) -> object:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol")  # of a damaged file the error says enough
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can make the reader raise almost anything
        # What torch says advises to run the code in the file, so that it is not repeated.
        raise ModelError(
            f"weights file {path} cannot be read as plain tensors ({type(error).__name__}): it is damaged, or holds a "
            "whole model. Save model.state_dict() instead."
        ) from error


def _unwrap(content: object, path: Path) -> dict[str, Tensor]:
    while isinstance(content, Mapping):
        inner = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    tensors = {}
    if isinstance(content, Mapping):
        tensors = {str(name): t for name, t in content.items() if isinstance(t, Tensor)}
    if not tensors:
        raise ModelError(f"weights file {path} holds no named tensors. Save model.state_dict() into it.")
    return tensors


def _strip_prefixes(given: dict[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Drop wrapper prefixes that every name of the file carries and no name of the network does."""
    stripped = True
    while stripped:
        stripped = False
        for prefix in _PREFIXES:
            if given and all(n.startswith(prefix) for n in given) and not any(n.startswith(prefix) for n in own):
                given = {name[len(prefix) :]: t for name, t in given.items()}
                stripped = True
    return given


def _plain_counters(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Batch counters that a file has as vectors of one number, as plain numbers."""
    return {name: t.reshape(()) if name.endswith(_COUNTER) and t.numel() == 1 else t for name, t in given.items()}


def _require_layout(model: nn.Module, given: Mapping[str, Tensor], what: str) -> None:
    """Refuse weights that would load and compute something else.

    The original ResNet-50 and torchvision's have the same tensors, but the stride of a stage in another convolution.
    Nothing in a file says which one it is, so that files are recognised by their first convolution.
    """
    first, second = given.get("conv1.weight"), dict(model.named_modules()).get("layer2.0.conv1")
    if first is None or not isinstance(second, nn.Conv2d) or second.stride != (1, 1):
        return
    if hashlib.sha256(first.contiguous().view(torch.uint8).numpy().data).hexdigest() in _ORIGINAL_RESNETS:
        raise ModelError(
            f"{what} is the original ResNet-50, with the stride of a stage in its first 1x1 convolution; this "
            f"{type(model).__name__} has it in the 3x3 one, where the same weights give worse features without an "
            "error. Give a factory of your own that builds the original layout (--model module:function), or weights "
            "that were trained in this one."
        )


def _inside(name: str, heads: tuple[str, ...]) -> bool:
    return any(name.startswith(head + ".") for head in heads)


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
