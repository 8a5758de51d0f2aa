"""Which first stages of the network stay as they are, by ``freeze``; what follows them is what is trained."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from residapt.data.views import VIEWS
from residapt.errors import ModelError, ResidaptError
from residapt.methods.registry import build_method
from residapt.models.cut_choice import VIEWS_SHARE, CutChoice, Work, choose_cut
from residapt.models.cut_points import CutPoint, cut_points
from residapt.models.stages import cut_after, cut_off
from residapt.run.frozen import Frozen
from residapt.run.request import Setup
from residapt.storage.summary import FrozenPart
from residapt.transform.names import is_inside, matching, module_names

TIMED = 8
"""Images in the forward passes that are timed."""
VIEW_COST = 1.25
"""Time of a step with a second view of the target images in its second half, to one without."""
HALF = 65_504 / 8
"""Outputs of a few images from this size on are not kept in half precision: other images may give larger ones."""
EXACT = 1e-6
"""Shares of parameters within this are equal."""


def with_frozen_stages(setup: Setup, *, pretrained: bool) -> Setup:
    """The setup with the network cut where ``freeze`` says, or where the time allowed asks for it."""
    freeze = setup.config.freeze
    if isinstance(freeze, tuple):
        return _where_named(setup, freeze)
    if freeze == "auto":
        return _where_time_asks(setup, pretrained)
    kept = "the source network stays as it is." if freeze == "base" else "nothing is frozen, as freeze = none says."
    return replace(setup, kept=FrozenPart(reason=kept))


def _where_time_asks(setup: Setup, pretrained: bool) -> Setup:
    config, work = setup.config, _work(setup)
    points: list[CutPoint] = []
    if pretrained and config.minutes:
        example = _example(setup)
        points = _timed(setup, example)
    choose = partial(choose_cut, work=work, minutes=config.minutes, accelerated=setup.device.type != "cpu")
    choice = choose(points, pretrained=pretrained)
    while choice.point is not None:
        try:
            return _cut(setup, choice, choice.point, example)
        except ResidaptError as error:
            points = [point for point in points if point.time < choice.point.time]
            choice = choose(points, pretrained=True)
            note = f"{type(setup.network).__name__} is trained whole, since it cannot be cut: {error}"
            if choice.point is None:
                setup = replace(setup, notes=(*setup.notes, note))
    if pretrained and config.minutes and not points:
        setup = replace(setup, notes=(*setup.notes, f"{type(setup.network).__name__}: {choice.reason}"))
    return replace(setup, config=config.model_copy(update={"freeze": "none"}), kept=FrozenPart(reason=choice.reason))


def _where_named(setup: Setup, patterns: tuple[str, ...]) -> Setup:
    """Patterns name what stays as it is. Where these modules are all that the network begins with, they are cut off."""
    reason = f"{', '.join(patterns[:4])}{' and others' if len(patterns) > 4 else ''} were named."
    names = matching(patterns, module_names(setup.network), setting="freeze", what="modules")
    example = _example(setup)
    share, work = _parameters(setup.network, names), _work(setup)
    found: Setup | None = None
    for point in reversed(cut_points(setup.network, example)):
        if not 0 < point.parameters <= share + EXACT or (found and point.parameters < share - EXACT):
            continue
        if setup.config.minutes:
            work = work.with_views_for(point, 60 * VIEWS_SHARE * setup.config.minutes)
        try:
            cut = _cut(setup, CutChoice(point, reason, work.views), point, example, names)
        except ResidaptError:  # the next one may do; without any they are frozen in the whole network
            continue
        if cut.frozen and set(cut.frozen.names) == set(names):  # as recorded by a run that is resumed or repeated
            return cut
        found = found or cut
    return found or replace(setup, kept=FrozenPart(last=patterns[-1], reason=reason, parameters=share))


def _cut(
    setup: Setup, choice: CutChoice, point: CutPoint, example: Tensor, names: tuple[str, ...] | None = None
) -> Setup:
    """The setup for what follows the cut; with ``names``, no weights of other modules may be cut off."""
    stages, rest = cut_after(setup.network, point.name, example)
    gone = tuple(cut_off(rest))
    _refuse_others(setup.network, gone, gone if names is None else names)
    outputs = stages(example)
    left = tuple(name for name in names or () if not is_inside(name, gone))
    frozen = Frozen(stages, gone, left, example, outputs)
    _check_method(setup, frozen, rest)
    config = setup.config if names is not None else setup.config.with_frozen(gone)
    views = config.views.count or choice.views
    small = float(outputs.abs().max()) < HALF or config.is_set("views", "precision")
    precision = config.views.precision if small else "float32"
    config = config.with_group("views", count=views, precision=precision)
    kept = FrozenPart(
        last=point.name, reason=choice.reason, parameters=point.parameters, views=views, precision=precision
    )
    return replace(setup, config=config, network=rest, frozen=frozen, kept=kept)


def _check_method(setup: Setup, frozen: Frozen, rest: nn.Module) -> None:
    """Refuse a cut after which the method cannot be built: a setting may name a layer that is gone."""
    method = frozen.settings(setup.config.method_config)
    layers = (method.transform.features, method.discrepancy.layer, method.dsn.layer)
    for layer in layers:
        if layer and is_inside(layer.partition(":")[0], frozen.names):
            raise ModelError(f"'{layer}' is read by the method, and lies before the cut.")
    build_method(setup.config.method, copy.deepcopy(rest), method, example=frozen.example[:2])


def _refuse_others(model: nn.Module, gone: tuple[str, ...], named: tuple[str, ...]) -> None:
    """Refuse to cut off weights that are not named."""
    for outer in gone:
        for name, module in model.get_submodule(outer).named_modules():
            full = f"{outer}.{name}".rstrip(".")
            own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if own and not is_inside(full, named):
                raise ModelError(f"'{full}' lies before the cut, and is not named.")


def _parameters(model: nn.Module, names: tuple[str, ...]) -> float:
    """Share of the parameters in modules of these names."""
    whole = dict(model.named_parameters())
    inside = sum(p.numel() for name, p in whole.items() if is_inside(name.rpartition(".")[0], names))
    return inside / max(1, sum(p.numel() for p in whole.values()))


def _example(setup: Setup) -> Tensor:
    images = setup.target.plain
    index = torch.arange(TIMED) % len(images)
    return images.fetch(index, torch.Generator().manual_seed(0)).to(setup.device)


def _timed(setup: Setup, example: Tensor) -> list[CutPoint]:
    """The places where the network can be cut, with the same times in every process."""
    if example.ndim == 4 and setup.config.train.channels_last:
        example = example.contiguous(memory_format=torch.channels_last)
        setup.network.to(memory_format=torch.channels_last)
    points = cut_points(setup.network, example)
    times = {f"before {p.name}": p.seconds_before for p in points} | {
        f"after {p.name}": p.seconds_after for p in points
    }
    mean = setup.engine.average_values(times)
    return [replace(p, seconds_before=mean[f"before {p.name}"], seconds_after=mean[f"after {p.name}"]) for p in points]


def _work(setup: Setup) -> Work:
    """What there is to do: source steps have images of one domain, those of the adaptation of both."""
    config = setup.config
    batch = 2 * config.train.batch_size
    source = (config.pretrain.steps or 0) * config.train.batch_size / batch if setup.train_source else 0.0
    adapt = config.train.steps * (VIEW_COST if config.method_config.consistency.weight > 0 else 1.0)
    return Work(
        images=sum(len(images) for images in setup.opened.values()),
        steps=round(source + adapt),
        batch=batch,
        views=config.views.count or VIEWS,
        bytes_per_value=2 if config.views.precision == "float16" else 4,
    )
