"""The adapter as a file: what turns one base network into the network of one domain.

A folder with ``adapter_model.safetensors`` (the transforms with their pruned shapes, batch-norm statistics of
both streams, source weights where they have changed), ``adapter_config.json`` (everything needed to use them)
and ``README.md`` (a model card). Each tensor of the source network is either carried, or referred to by hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, overload

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError
from residapt.models.standardise import standardised
from residapt.storage.adapter_format import AdapterConfig, Base, LayerRecord, read_config
from residapt.storage.atomic import write_folder
from residapt.storage.base_network import (
    TensorRecord,
    check_base,
    describe_tensor,
    named_tensors,
    tensor_hash,
    with_tensors,
)
from residapt.storage.hub import CARD, CONFIG, WEIGHTS, adapter_folder
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.model_card import model_card
from residapt.streams.norm import batch_norms
from residapt.streams.peft_streams import PeftStreams
from residapt.streams.two_stream import TwoStream
from residapt.transform import build_transform

if TYPE_CHECKING:
    from residapt.storage.adapter_set import AdapterSet


def save_pretrained(
    streams: TwoStream,
    path: Path | str,
    *,
    metadata: AdapterMetadata,
    base: Base = "reference",
    original: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write the adapter of a two-stream model into a folder.

    Args:
        streams: The streams.
        path: The folder; it is created.
        metadata: Method, classes and input of the network.
        base: ``"reference"`` refers to the source weights by hash: the adapter is small, for that network alone.
            ``"included"`` carries them: all, or those that differ from the ``original``.
        original: Hashes of the tensors of the original network (see ``base_hashes``); what still has them is referred
            to, batch-norm statistics included.
        overwrite: Replace an adapter that is there already.

    Example:
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        >>> streams = TwoStream(network, left_rank=2, right_rank=2)
        >>> metadata = AdapterMetadata(method="rpt", classes=("a", "b", "c"))
        >>> save_pretrained(streams, "camera-7", metadata=metadata)
        >>> load(network, "camera-7").ranks() == streams.ranks()
        True
    """
    if not has_adapter(streams):
        raise ModelError(
            f"{type(streams).__name__} keeps whole target weights instead of transforms, so it has no adapter. "
            "Save the merged network: streams.merge_and_unload()."
        )
    path = Path(path)
    if path.exists() and not overwrite and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"adapter '{path}' exists already. Choose another folder, or give overwrite=True.")
    streams = streams.eval_model()
    records = _describe_source(streams.model, base, original)
    blob = safetensors.torch.save(_collect(streams, records))
    config = AdapterConfig(
        **{name: getattr(metadata, name) for name in AdapterMetadata.model_fields},
        base=base,
        weights_sha256=hashlib.sha256(blob).hexdigest(),
        transform=streams.config,
        low_rank=streams.low_rank if isinstance(streams, PeftStreams) else None,
        layers=tuple(_describe_layer(streams, name) for name in streams.layers),
        tensors=records,
    )
    text = config.model_dump_json(indent=1)
    # The configuration comes last: it holds the hash of the weights, so that a torn pair of files is noticed.
    write_folder(path, {WEIGHTS: blob, CARD: model_card(config).encode(), CONFIG: text.encode()})


@overload
def load(model: nn.Module, path: Path | str, *, revision: str | None = ...) -> TwoStream: ...


@overload
def load(model: nn.Module, path: Mapping[str, Path | str], *, cached: int = ...) -> AdapterSet: ...


def load(
    model: nn.Module,
    path: Path | str | Mapping[str, Path | str],
    *,
    cached: int | None = None,
    revision: str | None = None,
) -> TwoStream | AdapterSet:
    """The two-stream model of an adapter on its base network, in evaluation mode; another network is rejected.

    The given model is not changed. Its parameters are shared with the result: adapters of many domains on one
    base cost little more memory than the base. Batch-norm statistics are each adapter's own.

    Args:
        model: The base network.
        path: The folder of the adapter, or its name on the Hugging Face Hub, ``"user/name"``; or several of them by
            names of your own, which give an :class:`residapt.AdapterSet`.
        cached: How many networks of an ``AdapterSet`` are kept formed; 4 if not given.
        revision: Branch, tag or commit on the Hub.

    Example:
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        >>> metadata = AdapterMetadata(method="rpt", classes=("a", "b", "c"))
        >>> save_pretrained(TwoStream(network, left_rank=2, right_rank=2), "camera-8", metadata=metadata)
        >>> streams = load(network, "camera-8")
        >>> streams.ranks()
        {'0': (2, 2), '2': (2, 2)}
    """
    if isinstance(path, Mapping):
        from residapt.storage.adapter_set import AdapterSet

        return AdapterSet(model, path) if cached is None else AdapterSet(model, path, cached=cached)
    return load_one(model, adapter_folder(path, revision=revision))


def load_one(model: nn.Module, path: Path, shared: nn.Module | None = None) -> TwoStream:
    """One adapter; ``shared`` is a body that several adapters have in common, where the file carries no part of it."""
    config = read_config(path)
    tensors = _read_tensors(path / WEIGHTS, config)
    what = f"adapter '{path}'"
    check_base(model, config.tensors, what)
    carried = {f"source.{name}": (name, config.tensors[name]) for name in config.carried}
    for key, (_, record) in carried.items():
        _require(tensors, key, record.shape, what, record.dtype)
    body = shared or with_tensors(model, {name: tensors[key] for key, (name, _) in carried.items()})
    if config.standardise and shared is None:
        standardised(body)
    # Built with ranks 0, since the starting factors would be replaced.
    trained = [parameter for parameter in body.parameters() if parameter.requires_grad]
    streams = _empty_streams(body, config)
    for parameter in trained:  # shared with the given model, which frozen stages must not change
        parameter.requires_grad_(True)
    streams.config = config.transform
    _check_layers(streams, config, what)
    used = {*carried, *_load_own(streams, tensors, what), *_load_transforms(streams, config, tensors, what)}
    if unknown := sorted(set(tensors) - used):
        raise ModelError(f"{what}: unexpected tensor '{unknown[0]}': adapter_config.json lists no layer for it.")
    return streams.eval()


def _empty_streams(body: nn.Module, config: AdapterConfig) -> TwoStream:
    if config.low_rank is not None:
        return PeftStreams(body, config.transform, config.low_rank)
    return TwoStream(body, config.transform.model_copy(update={"left_rank": 0, "right_rank": 0, "ranks": {}}))


def _read_tensors(file: Path, config: AdapterConfig) -> dict[str, Tensor]:
    try:
        blob = file.read_bytes()
    except OSError as error:
        raise ModelError(f"'{file}' cannot be read: {error.strerror}. Get the adapter again.") from None
    if hashlib.sha256(blob).hexdigest() != config.weights_sha256:
        raise ModelError(f"'{file}' is damaged, or belongs to another {CONFIG}. Get the adapter again.")
    try:
        return dict(safetensors.torch.load(blob))
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"'{file}' is not a valid safetensors file: {error}. Get the adapter again.") from None


def _collect(streams: TwoStream, records: Mapping[str, TensorRecord]) -> dict[str, Tensor]:
    own = named_tensors(streams.model)
    tensors = {f"source.{name}": own[name] for name, record in records.items() if record.sha256 is None}
    tensors |= {f"target.{name}": tensor for name, tensor in own_tensors(streams).items()}
    for name in streams.layers:
        tensors |= {f"transform.{name}.{key}": factor for key, factor in streams.transform(name).named_parameters()}
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _describe_source(model: nn.Module, base: Base, original: Mapping[str, str] | None) -> dict[str, TensorRecord]:
    # Source statistics move even where the weights are frozen, so they are carried unless they are known not to have.
    statistics = {id(buffer) for _, norm in batch_norms(model) for buffer in norm.buffers(recurse=False)}
    records = {}
    for name, tensor in named_tensors(model).items():
        sha256: str | None = tensor_hash(tensor)
        if base == "included" or id(tensor) in statistics:
            sha256 = sha256 if original is not None and original.get(name) == sha256 else None
        records[name] = describe_tensor(tensor, sha256)
    return records


def _describe_layer(streams: TwoStream, name: str) -> LayerRecord:
    layer, transform = streams.layers[name], streams.transform(name)
    start = build_transform(layer, streams.model.get_parameter(layer.weight).to("meta"), streams.config)
    outputs, inputs = streams.source_tensors(name)[0].shape
    return LayerRecord(
        name=name,
        shape=(outputs, inputs),
        before=start.ranks,
        ranks=transform.ranks,
        bias_rank=getattr(transform, "bias_rank", 0),
        has_bias=transform.has_bias,
        parameters=sum(factor.numel() for factor in transform.parameters()),
    )


def _check_layers(streams: TwoStream, config: AdapterConfig, what: str) -> None:
    found, listed = list(streams.layers), [record.name for record in config.layers]
    if found != listed:
        one_sided = [n for n in found if n not in listed] + [n for n in listed if n not in found]
        odd = (one_sided + found + listed)[0]  # the same names in another order, or one of them twice
        raise ModelError(
            f"{what}: its list of layers does not follow from its settings; the first to differ is '{odd}'."
        )
    for record in config.layers:
        shape, has_bias = tuple(streams.source_tensors(record.name)[0].shape), streams.transform(record.name).has_bias
        if (shape, has_bias) != (record.shape, record.has_bias):
            raise ModelError(
                f"{what}: layer '{record.name}' is listed as {record.shape}, but the network's is {shape}."
            )


def _load_transforms(streams: TwoStream, config: AdapterConfig, tensors: Mapping[str, Tensor], what: str) -> set[str]:
    used = set()
    for record in config.layers:
        transform, like = streams.transform(record.name), streams.source_tensors(record.name)[0]
        for key, shape in record.shapes(config.transform.form).items():
            name = f"transform.{record.name}.{key}"
            setattr(transform, key, nn.Parameter(_require(tensors, name, shape, what).to(like)))
            used.add(name)
    return used


@torch.no_grad()
def _load_own(streams: TwoStream, tensors: Mapping[str, Tensor], what: str) -> set[str]:
    named = own_tensors(streams)
    for name, own in named.items():
        own.copy_(_require(tensors, f"target.{name}", tuple(own.shape), what, str(own.dtype).removeprefix("torch.")))
    return {f"target.{name}" for name in named}


def has_adapter(streams: TwoStream) -> bool:
    """Whether what the target stream has for itself can be a file of its own."""
    return type(streams) in (TwoStream, PeftStreams)


def own_tensors(streams: TwoStream) -> dict[str, Tensor]:
    """Batch-norm statistics and parameters that the target stream has for itself."""
    if isinstance(streams, PeftStreams):
        return {**streams.statistics.named(), **streams.additions()}
    return {**streams.statistics.named(), **streams.target_parameters.named()}


def _require(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], what: str, dtype: str | None = None
) -> Tensor:
    """A tensor of the file, rejected unless it is as the configuration says."""
    tensor = tensors.get(name)
    if tensor is None:
        raise ModelError(f"{what}: tensor '{name}' is not in {WEIGHTS}. Get the adapter again.")
    if tuple(tensor.shape) != shape:
        raise ModelError(f"{what}: tensor '{name}' has shape {tuple(tensor.shape)}, but {CONFIG} says {shape}.")
    own = str(tensor.dtype).removeprefix("torch.")
    if own != dtype if dtype is not None else not tensor.is_floating_point():
        raise ModelError(f"{what}: tensor '{name}' is {own}, but should be {dtype or 'floating point'}.")
    return tensor
