"""A network cut in two: first stages that stay as they are, and the rest, which reads their output.

Frozen stages give the same output for the same image every time, so that it is computed once and kept.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import re
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.models.cut_points import Call, single_tensor, traced
from residapt.models.placeholders import TRACED_IMAGES, Feed, Skipped, template_of
from residapt.transform.modes import evaluation_mode


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
            return self._only_tensor(reached.output)
        finally:
            handle.remove()
        raise ModelError(f"'{self.last}' of {type(self.model).__name__} is not called, so nothing can be cut after it.")

    def train(self, mode: bool = True) -> FrozenStages:
        """Evaluation mode, whatever mode is set: the statistics are frozen as well."""
        return super().train(False)

    def digest(self) -> str:
        """A checksum of everything that the output depends on but the images."""
        form = re.sub(r" at 0x[0-9a-f]+", "", str(self.model))  # addresses differ from process to process
        found = hashlib.sha256(f"{type(self.model).__qualname__} {self.last} {form}".encode())
        for name, tensor in self.model.state_dict().items():
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def _only_tensor(self, output: Any) -> Tensor:
        tensor = single_tensor(output)
        if tensor is None:
            raise ModelError(
                f"'{self.last}' of {type(self.model).__name__} gives {type(output).__name__}, not a tensor; "
                "name another stage."
            )
        return tensor


def cut_after(model: nn.Module, last: str, example: Tensor) -> tuple[FrozenStages, nn.Module]:
    """The stages up to the end of ``last``, and a copy of the network that begins after them.

    The copy has the class, the names and the code of the network. Where that code calls a stage that has been cut
    off, it is given an empty tensor of the right shape, and the end of ``last`` gives what the copy was called with.
    So class tokens, position embeddings and other code between modules need no care. Both parts together must give
    what the network gives: one that carries a shortcut past the cut is refused with a :class:`ModelError`.

    Args:
        model: Any network that returns logits; it is not changed.
        last: Name of a module, for instance one that :func:`cut_points` has found.
        example: A batch of images of the size that will be used.

    Example:
        >>> import residapt
        >>> images = torch.rand(8, 1, 28, 28)
        >>> lenet = residapt.models.build_model("lenet", num_classes=10, in_channels=1)
        >>> front, rest = cut_after(lenet, "pool1", images)
        >>> torch.allclose(rest(front(images)), lenet(images), atol=1e-5)
        True
    """
    _require_module(model, last)
    probe = _probe(example)
    with evaluation_mode(model), torch.no_grad():
        calls = traced(model, probe, template_of)
        whole = _logits(model(probe))
        stages = _stages(model, calls, last)
        _refuse_shared(model, stages, last)
        front = FrozenStages(_without_later(model, calls, last), last)
        try:
            given = front(probe)
            rest = _tested_rest(model, stages, last, probe, given, whole)
        except ModelError:
            raise
        except Exception as error:  # the network's own code may raise anything on what it was not made for
            raise _cannot_cut(model, last) from error
        _freeze_unused(model, rest, probe, given)
    for (_, module), (_, kept) in zip(_same_modules(model, rest), _same_modules(rest, rest), strict=True):
        kept.training = module.training
    return front, rest


def join(front: FrozenStages, rest: nn.Module) -> nn.Module:
    """The whole network again: the frozen stages, and the rest as it is now.

    Example:
        >>> import residapt
        >>> lenet = residapt.models.build_model("lenet", num_classes=10, in_channels=1)
        >>> front, rest = cut_after(lenet, "pool1", torch.rand(8, 1, 28, 28))
        >>> join(front, rest).state_dict().keys() == lenet.state_dict().keys()
        True
    """
    whole = copy.deepcopy(rest)
    feeds = {key: hook for key, hook in whole._forward_pre_hooks.items() if isinstance(hook, Feed)}
    if not feeds:
        raise ModelError(f"{type(rest).__name__} is not the rest of a network that was cut. Use cut_after first.")
    for key in feeds:
        del whole._forward_pre_hooks[key]
    for key in [key for key, hook in whole._forward_hooks.items() if isinstance(hook, Feed)]:
        del whole._forward_hooks[key]
        whole._forward_hooks_always_called.pop(key, None)
    stages = copy.deepcopy(front.model)
    for name, module in list(whole.named_modules(remove_duplicate=False)):
        if isinstance(module, Skipped):
            _replace(whole, name, stages.get_submodule(name))
    whole._forward_pre_hooks.update(stages._forward_pre_hooks)
    whole._forward_pre_hooks_with_kwargs.update(stages._forward_pre_hooks_with_kwargs)
    return whole


def cut_off(rest: nn.Module) -> list[str]:
    """Names of the modules that :func:`cut_after` has taken away: what stays fixed in both streams."""
    return [name for name, module in rest.named_modules() if isinstance(module, Skipped)]


class _ReachedError(Exception):
    """Carries the output of the last frozen stage out of the network."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


def _stages(model: nn.Module, calls: list[Call], last: str) -> dict[str, list[Any]]:
    """Outermost modules whose calls have all ended at the cut, and the form of their outputs."""
    ends = [call.left for call in calls if call.name == last]
    if len(ends) != 1:
        raise ModelError(
            f"'{last}' of {type(model).__name__} is called {len(ends)} times; a network is cut after a module that is "
            "called once."
        )
    cut = ends[0]
    outputs: dict[str, list[Any]] = {}
    for call in calls:
        outputs.setdefault(call.name, []).append(call)
    found: dict[str, list[Any]] = {}
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found)
        if inside or name not in outputs:
            continue
        before = [call.left <= cut for call in outputs[name]]
        if all(before):
            found[name] = [call.noted for call in outputs[name]]
        elif any(before) and (any(True for _ in module.parameters()) or any(True for _ in module.buffers())):
            raise _cannot_cut(model, last)  # the same weights would be frozen and trained
    return found


def _tested_rest(
    model: nn.Module, stages: dict[str, list[Any]], last: str, probe: Tensor, given: Tensor, whole: Tensor
) -> nn.Module:
    """The rest; where the network's own code writes into the output of stages, with tensors that allow it."""
    for dense in (False, True):
        feed = Feed(template_of(probe), dense=dense)
        rest, fed = _rest(model, stages, last, feed), given.clone()
        try:
            parts = _logits(rest(fed))
        except RuntimeError:
            if dense:
                raise
            continue
        feed.copies = fed._version > 0
        exact = 1e-5 if probe.dtype in (torch.float32, torch.float64) else 1e-2
        scale = max(1.0, float(whole.abs().max()))
        if parts.shape != whole.shape or not float((parts - whole).abs().max()) <= exact * scale:
            raise _cannot_cut(model, last)
        return rest
    raise AssertionError


def _rest(model: nn.Module, stages: dict[str, list[Any]], last: str, feed: Feed) -> nn.Module:
    rest = copy.deepcopy(model)
    aliases: dict[int, list[str]] = {}
    for name, module in rest.named_modules(remove_duplicate=False):
        aliases.setdefault(id(module), []).append(name)
    for name, templates in stages.items():
        stage = rest.get_submodule(name)
        skipped = Skipped(feed, templates, stage, last=name == last)
        for alias in aliases[id(stage)]:
            _replace(rest, alias, skipped)
    rest._forward_pre_hooks = OrderedDict()  # they change images, which the frozen stages have read already
    rest._forward_pre_hooks_with_kwargs = OrderedDict()
    rest.register_forward_pre_hook(feed)
    rest.register_forward_hook(feed, always_call=True)
    return rest


def _without_later(model: nn.Module, calls: list[Call], last: str) -> nn.Module:
    """A copy of the network without the modules that are called only after the cut."""
    cut = next((call.left for call in calls if call.name == last), 0)
    early = {call.name for call in calls if call.entered < cut}
    front = copy.deepcopy(model)
    called = {call.name for call in calls}
    gone: list[str] = []
    for name, _ in front.named_modules():
        if name in called and name not in early and not any(name.startswith(f"{outer}.") for outer in gone):
            gone.append(name)
    for name in gone:
        _replace(front, name, nn.Identity())
    return front


def _freeze_unused(model: nn.Module, rest: nn.Module, probe: Tensor, given: Tensor) -> None:
    """No gradients for parameters whose only use lies before the cut, as that of a class token has."""
    own = {name.rpartition(".")[0] for name, p in rest.named_parameters() if p.requires_grad}
    outer = {name for name in own if any(isinstance(m, Skipped) for m in rest.get_submodule(name).modules())}
    suspects = {name: p for name, p in rest.named_parameters() if p.requires_grad and name.rpartition(".")[0] in outer}
    if not suspects:
        return
    with torch.enable_grad():
        logits = _logits(rest(given.clone()))
        found = torch.autograd.grad(logits.sum(), list(suspects.values()), allow_unused=True)
        unused = [name for name, gradient in zip(suspects, found, strict=True) if gradient is None]
        inside = dict(model.named_parameters())
        also = [inside[name] for name in unused if inside[name].requires_grad]
        if also:
            whole = torch.autograd.grad(_logits(model(probe)).sum(), also, allow_unused=True)
            used = {id(p) for p, gradient in zip(also, whole, strict=True) if gradient is not None}
            for name in unused:
                suspects[name].requires_grad_(id(inside[name]) not in used)


def _refuse_shared(model: nn.Module, stages: dict[str, list[Any]], last: str) -> None:
    """A tensor on both sides of the cut would be frozen and trained."""
    sides: dict[int, set[bool]] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        before = any(name.startswith(f"{stage}.") for stage in stages)
        sides.setdefault(id(tensor), set()).add(before)
    if any(len(side) > 1 for side in sides.values()):
        raise _cannot_cut(model, last)


def _same_modules(first: nn.Module, second: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules of the first network under the names that the second one has as well."""
    return [(name, first.get_submodule(name)) for name, _ in second.named_modules(remove_duplicate=False)]


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, module)


def _probe(example: Tensor) -> Tensor:
    """Noise in the shape of the images: on a constant image a shortcut could go unnoticed."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(TRACED_IMAGES, *example.shape[1:], generator=generator, dtype=torch.float64)
    return noise.to(device=example.device, dtype=example.dtype)


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


def _logits(result: Any) -> Tensor:
    logits: Tensor = getattr(result, "logits", result)
    return logits
