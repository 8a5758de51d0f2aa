"""Methods by name: the same name on the command line, in configurations and in records."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError
from residapt.methods import names
from residapt.methods.config import MethodConfig
from residapt.methods.names import check_method
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Method
from residapt.transform.modes import evaluation_mode

Factory = Callable[[nn.Module, MethodConfig, Tensor], Method]


class _Entry(NamedTuple):
    factory: Factory
    summary: str


_METHODS: dict[str, _Entry] = {}


def add_method(name: str, factory: Factory, summary: str) -> None:
    """Make a factory known under a name, with one line about it; a name is taken once."""
    if name in _METHODS:
        raise ConfigError(f"method '{name}' is registered twice; give the new one another name.")
    _METHODS[name] = _Entry(factory, summary)
    names.known.add(name)


def _load_built_in() -> None:
    """Import the methods of this library when the first one is needed, which registers them."""
    for file in ("shared", *names.FILES):
        import_module(f"residapt.methods.{file}")


def register(name: str) -> Callable[[Factory], Factory]:
    """Register a factory of methods under a name, as a decorator.

    Args:
        name: What ``method="..."`` selects; each name can be registered once.

    Example:
        >>> @register("mine")
        ... def mine(model, config, example):
        ...     return build_method("rpt", model, config, example=example)
        >>> "mine" in method_names()
        True
        >>> del _METHODS["mine"]; names.known.remove("mine")
    """

    def add(factory: Factory) -> Factory:
        _load_built_in()
        add_method(name, factory, (factory.__doc__ or "").strip().partition("\n")[0])
        return factory

    return add


def method_names() -> tuple[str, ...]:
    """Names of all registered methods."""
    _load_built_in()
    return tuple(sorted(_METHODS))


def describe_methods() -> tuple[tuple[str, str], ...]:
    """(name, one line) of every method."""
    return tuple((name, _METHODS[name].summary) for name in method_names())


def build_method(name: str, model: nn.Module, config: MethodConfig | None = None, *, example: Tensor) -> Method:
    """A method around a network; ``example`` is a small batch of input, used to find the features' width."""
    _load_built_in()
    check_method(name)
    config = config or MethodConfig()
    method = _METHODS[name].factory(model, config, example)
    if not config.train_source:
        _require_fixed(name, method)
    return method


def _require_fixed(name: str, method: Method) -> None:
    """Refuse a method that would train the network itself, which is to stay as it is."""
    streams = method.streams
    learns = bool(streams.target_only_parameters() or streams.statistics.named())
    if not streams.fixed or not learns:
        raise ConfigError(
            f"method '{name}' learns by changing the network itself, but it is to stay as it is (freeze = 'base'). "
            f"Leave freeze out, or use a method with parameters for the target alone, such as rpt."
        )


def shared_streams(model: nn.Module, config: MethodConfig) -> TwoStream:
    """Both domains through the same weights; only batch norm may differ, by the same policy as for RPT."""
    return TwoStream(model, config.transform.model_copy(update={"include": ()}))


@torch.no_grad()
def probe(streams: TwoStream, example: Tensor, inner: tuple[str, ...] = ()) -> Outputs:
    """One evaluation pass, to learn the widths of features and logits; nothing in the model changes."""
    with evaluation_mode(streams):
        return streams.outputs(example[:2], stream="source", inner=inner)
