"""Where a network can be cut in two: after modules through whose output everything goes that later parts read.

The modules are found by watching a call of the network, so neither their names nor the order in which they were
registered matter. Whether everything goes through an output is read from autograd's graph of that call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from residapt.transform.modes import evaluation_mode

Edge = tuple[Any, int]
"""A node of autograd's graph and the number of one of its outputs."""
REPEATS = 10
"""Forward passes that are timed; on a processor every other one with a single thread."""
PATIENCE = 5.0
"""Seconds after which no further pass is timed, once there are two."""


@dataclass(frozen=True)
class CutPoint:
    """The end of a module after which a network can be cut, and what lies before it."""

    name: str
    """Name of the module, the outermost one that ends here."""
    aliases: tuple[str, ...]
    """Other modules that end here, with the same output."""
    parameters: float
    """Share of the network's parameters before the cut."""
    shape: tuple[int, ...]
    """Shape of the output for one image."""
    seconds_before: float
    """Seconds of the forward pass for one image, up to here."""
    seconds_after: float
    """Seconds of the forward pass for one image, from here on."""

    @property
    def time(self) -> float:
        """Share of the forward pass's time before the cut."""
        return self.seconds_before / max(self.seconds_before + self.seconds_after, 1e-12)

    @property
    def names(self) -> tuple[str, ...]:
        """All modules that end here."""
        return (self.name, *self.aliases)


@dataclass(frozen=True)
class Call:
    """One call of a module: when it began and ended, counted in calls, and what was noted of its output."""

    name: str
    entered: int
    left: int
    noted: Any


def cut_points(model: nn.Module, example: Tensor) -> list[CutPoint]:
    """All points at which the network can be cut, in the order of calls; empty if there are none.

    The time of the forward pass is measured on ``example``, a batch of images; eight of them are enough. It is the
    time on an idle machine, so that where a network is cut does not depend on what else runs in that moment.

    Example:
        >>> import torch, residapt
        >>> lenet = residapt.models.build_model("lenet", num_classes=10, in_channels=1)
        >>> [point.name for point in cut_points(lenet, torch.rand(8, 1, 28, 28))]
        ['conv1', 'relu1', 'pool1', 'conv2', 'relu2', 'pool2', 'full3', 'relu3']
    """
    with evaluation_mode(model):
        ends = _ends(model, example)
        if not ends:
            return []
        left, whole = _clock(model, example)
        calls = traced(model, example)
    finished = _finished(model, calls)
    total = sum(p.numel() for p in model.parameters()) or 1
    return [
        CutPoint(
            name=names[0],
            aliases=names[1:],
            parameters=sum(n for n, end in finished if end <= _end(calls, names[-1])) / total,
            shape=shape,
            seconds_before=left[names[-1]] / len(example),
            seconds_after=max(whole - left[names[-1]], 0.0) / len(example),
        )
        for names, shape in ends
    ]


def traced(model: nn.Module, x: Tensor, note: Callable[[Any], Any] = lambda _: None) -> list[Call]:
    """All calls of modules below the root in a forward pass, in the order in which they end."""
    calls: list[Call] = []
    entered: list[int] = []
    clock = iter(range(1 << 62))

    def enter(_module: nn.Module, _inputs: Any) -> None:
        entered.append(next(clock))

    def leave(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: calls.append(Call(name, entered.pop(), next(clock), note(output)))

    handles = []
    for name, module in model.named_modules():
        if name:
            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave(name))]
    try:
        with torch.no_grad() if not x.requires_grad else torch.enable_grad():
            calls.append(Call("", 0, 1 << 62, note(model(x))))
    finally:
        for handle in handles:
            handle.remove()
    return calls


def single_tensor(output: Any) -> Tensor | None:
    """The tensor of an output that holds exactly one."""
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return tensors[0] if len(tensors) == 1 else None


def _ends(model: nn.Module, example: Tensor) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Names of the modules that end at each point, the outermost first, and the shape of an image's output."""
    images = example.detach().clone().requires_grad_()
    noted: dict[int, tuple[Tensor, int]] = {}

    def note(output: Any) -> tuple[Edge, tuple[int, ...]] | None:
        tensor = single_tensor(output)
        if tensor is None or tensor.grad_fn is None or tensor.ndim < 2 or len(tensor) != len(images):
            return None
        noted[id(tensor)] = (tensor, tensor._version)
        return (tensor.grad_fn, tensor.output_nr), tuple(tensor.shape[1:])

    with torch.enable_grad():
        calls = traced(model, images * 1, note)  # the product may be written to in place, the leaf may not
    *inner, root = calls
    if root.noted is None:
        return []
    through = _on_every_path(root.noted[0], images)
    once = {call.name for call in inner} - _called_again(inner)
    found: dict[Edge, tuple[list[str], tuple[int, ...]]] = {}
    for call in inner:
        # Classifiers whose output is the network's are no place for a cut: nothing would be left to train.
        if call.name in once and call.noted and call.noted[0] in through and call.noted[0] != root.noted[0]:
            found.setdefault(call.noted[0], ([], call.noted[1]))[0].append(call.name)
    return [(tuple(sorted(names, key=lambda n: n.count("."))), shape) for names, shape in found.values()]


def _called_again(calls: list[Call]) -> set[str]:
    names = [call.name for call in calls]
    return {name for name in names if names.count(name) > 1}


def _on_every_path(output: Edge, images: Tensor) -> set[Edge]:
    """The edges of the graph that all paths from the output to the images take.

    An edge is on all of them if the number of paths to it times the number of paths from it is the number of all.
    """
    order = _sorted(output[0])
    leaf = images.grad_fn or torch.autograd.graph.get_gradient_edge(images).node
    below: dict[Any, int] = {}
    for node in reversed(order):
        nexts = [following for following, _ in node.next_functions if following is not None]
        below[node] = 1 if node is leaf else sum(below[following] for following in nexts)
    above: dict[Any, int] = {output[0]: 1}
    arriving: dict[Edge, int] = {output: 1}
    for node in order:
        for following, number in node.next_functions:
            if following is not None:
                above[following] = above.get(following, 0) + above[node]
                arriving[following, number] = arriving.get((following, number), 0) + above[node]
    paths = below[output[0]]
    return {edge for edge, count in arriving.items() if paths and count * below[edge[0]] == paths}


def _sorted(root: Any) -> list[Any]:
    """The nodes of a graph, each before those that it leads to."""
    done: list[Any] = []
    seen: set[Any] = set()
    stack = [(root, False)]
    while stack:
        node, finished = stack.pop()
        if finished:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(following, False) for following, _ in node.next_functions if following is not None]
    return done[::-1]


def _finished(model: nn.Module, calls: list[Call]) -> list[tuple[int, int]]:
    """For each module with parameters of its own: how many, and when its last call has ended."""
    ends = {call.name: call.left for call in calls}
    found = []
    seen: set[nn.Parameter] = set()
    for name, module in model.named_modules():
        own = set(module.parameters(recurse=False)) - seen
        seen |= own
        while name not in ends:  # used by its parent without a call
            name = name.rpartition(".")[0]
        found.append((sum(p.numel() for p in own), ends[name]))
    return found


def _end(calls: list[Call], name: str) -> int:
    return next(call.left for call in calls if call.name == name)


def _clock(model: nn.Module, example: Tensor) -> tuple[dict[str, float], float]:
    """Seconds from the start of a forward pass to the end of each module, and to its own end.

    Of each stretch between two ends the quickest pass counts, so that what disturbs one pass does not move the others.
    Where other programs keep threads from their processors, those that wait for them take longer than a single thread.
    """
    threads, quickest, started = torch.get_num_threads(), list[float](), time.monotonic()
    try:
        for repeat in range(1 + REPEATS):  # the first one warms up
            torch.set_num_threads(threads if repeat % 2 == 0 else 1)
            begin = _now(example)
            calls = traced(model, example, lambda _: _now(example))
            ends = [begin, *(call.noted for call in calls)]
            taken = [end - before for before, end in pairwise(ends)]
            quickest = list(map(min, quickest, taken)) if repeat > 1 else taken
            if repeat > 1 and time.monotonic() - started > PATIENCE:
                break
    finally:
        torch.set_num_threads(threads)
    left = {call.name: end for call, end in zip(calls, accumulate(quickest), strict=True)}
    return left, left[""]


def _now(example: Tensor) -> float:
    """Seconds on a machine with nothing else to do: on a processor, those that this thread was given."""
    if not example.is_cuda:
        return time.thread_time()
    torch.cuda.synchronize(example.device)
    return time.perf_counter()
