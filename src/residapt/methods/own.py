"""Which parameters ``transform.own`` names: its words ``norm``, ``bias`` and ``head`` as names of parameters."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from residapt.errors import ModelError
from residapt.models.heads import head_names
from residapt.transform import TransformConfig

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)


def with_own_names(config: TransformConfig, model: nn.Module, example: Tensor) -> TransformConfig:
    """The settings with words of ``own`` as names of parameters, which an adapter's reader finds without a pass."""
    if not config.own:
        return config
    names: dict[str, None] = {}
    for word in config.own:
        found = list(_named(word, model, example))
        if not found:
            raise ModelError(f"transform.own: {type(model).__name__} has no parameters of the kind '{word}'.")
        names.update(dict.fromkeys(found))
    return config.model_copy(update={"own": tuple(names)})


def _named(word: str, model: nn.Module, example: Tensor) -> Iterator[str]:
    if word == "norm":
        for path, module in model.named_modules():
            if isinstance(module, _NORMS) or type(module).__name__.endswith("Norm"):
                yield from (f"{path}.{name}".lstrip(".") for name, _ in module.named_parameters(recurse=False))
    elif word == "bias":
        yield from (name for name, _ in model.named_parameters() if name.rpartition(".")[2].endswith("bias"))
    elif word == "head":
        for layer in head_names(model, example):
            yield from (f"{layer}.{name}".lstrip(".") for name, _ in model.get_submodule(layer).named_parameters())
    else:
        yield word
