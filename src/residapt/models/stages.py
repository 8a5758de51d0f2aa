"""A network cut in two: first stages that stay as they are, and the rest, which reads their output.

Frozen stages give the same output for the same image every time, so that it is computed once and kept.
"""

from __future__ import annotations

import copy
import difflib
from typing import Any

import torch
from torch import Tensor, nn

from residapt.errors import ModelError


class FrozenStages(nn.Module):
    """A network up to the end of one of its modules, in evaluation mode and without gradients."""

    def __init__(self, model: nn.Module, last: str) -> None:
        super().__init__()
        self.model, self.last = model.eval().requires_grad_(False), last

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """The output of the module ``last``; what comes after it is not computed."""

        def stop(_module: nn.Module, _inputs: Any, output: Any) -> None:
            raise _ReachedError(output)

        handle = self.model.get_submodule(self.last).register_forward_hook(stop)
        try:
            self.model(x)
        except _ReachedError as reached:
            return _tensor(reached.output, self.last, self.model)
        finally:
            handle.remove()
        raise ModelError(f"'{self.last}' of {type(self.model).__name__} is not called, so nothing can be cut after it.")

    def train(self, mode: bool = True) -> FrozenStages:
        """Evaluation mode, whatever is asked: the statistics are frozen as well."""
        return super().train(False)


class _ReachedError(Exception):
    """Carries the output of the last frozen stage out of the network."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


def cut_after(model: nn.Module, last: str, example: Tensor) -> tuple[FrozenStages, nn.Module]:
    """The stages up to the end of ``last``, and a copy of the network that begins after them.

    The copy has the names and the code of the network, with nothing in place of the stages. Both together must give
    what the network gives on ``example``: one that carries a shortcut past the cut is refused.
    """
    _require_module(model, last)
    rest = copy.deepcopy(model)
    _empty_up_to(rest, last.split("."))
    front = FrozenStages(copy.deepcopy(model), last)
    modes = {module: module.training for module in rest.modules()}
    rest.eval()
    try:
        _check_cut(model, front, rest, example)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return front, rest


def stages_up_to(model: nn.Module, last: str) -> list[str]:
    """Names of the modules that :func:`cut_after` takes away, the outermost ones only."""
    _require_module(model, last)
    names: list[str] = []
    prefix = ""
    for part in last.split("."):
        children = [name for name, _ in model.get_submodule(prefix.rstrip(".")).named_children()]
        names += [f"{prefix}{child}" for child in children[: children.index(part)]]
        prefix = f"{prefix}{part}."
    return [*names, last]


def _empty_up_to(model: nn.Module, path: list[str]) -> None:
    """Identities for the children before the first of ``path``, and so on inwards; the last of it included."""
    for name in [child for child, _ in model.named_children()]:
        if name == path[0] and len(path) > 1:
            _empty_up_to(model.get_submodule(name), path[1:])
        else:
            setattr(model, name, nn.Identity())
        if name == path[0]:
            return


@torch.no_grad()
def _check_cut(model: nn.Module, front: FrozenStages, rest: nn.Module, example: Tensor) -> None:
    training = model.training
    model.eval()
    try:
        whole, parts = _logits(model(example)), _logits(rest(front(example)))
        fits = whole.shape == parts.shape and torch.allclose(whole, parts, rtol=1e-3, atol=1e-4)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _cannot_cut(model, front.last) from error
    finally:
        model.train(training)
    if not fits:
        raise _cannot_cut(model, front.last)


def _cannot_cut(model: nn.Module, last: str) -> ModelError:
    return ModelError(
        f"{type(model).__name__} cannot be cut after '{last}': what comes later needs more than its output. "
        "Name the end of a whole stage."
    )


def _require_module(model: nn.Module, name: str) -> None:
    names = [child for child, _ in model.named_modules() if child]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.3) or names[:3]
        raise ModelError(f"'{name}' is not a module of {type(model).__name__}. Did you mean {', '.join(near)}?")


def _tensor(output: Any, name: str, model: nn.Module) -> Tensor:
    if not isinstance(output, Tensor):
        raise ModelError(
            f"'{name}' of {type(model).__name__} gives {type(output).__name__}, not a tensor; name another stage."
        )
    return output


def _logits(result: Any) -> Tensor:
    logits: Tensor = getattr(result, "logits", result)
    return logits
