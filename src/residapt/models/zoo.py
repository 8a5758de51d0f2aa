"""Networks of torchvision, timm and transformers; only a Hugging Face hub name downloads anything."""

from __future__ import annotations

import difflib
import importlib
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError, first_line
from residapt.models.heads import head_names
from residapt.models.weights import load_state, misfit_message


def torchvision_models() -> Any:
    """The module ``torchvision.models``; imported late, because it takes a second."""
    return importlib.import_module("torchvision.models")


def timm_module() -> Any:
    """The module ``timm``, or a ConfigError that names the extra."""
    return _extra("timm", "timm")


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """`` Did you mean ...?`` with up to three similar names, or nothing."""
    return _did_you_mean(name, {known: prefix + known for known in names})


def unknown_spec(spec: str, native: Sequence[str]) -> str:
    """The message for a spec of no known form."""
    models = torchvision_models()
    specs = {name: f"torchvision:{name}" for name in models.list_models(module=models)}
    specs |= {name: name for name in native}
    hint = _did_you_mean(spec, specs)
    return (
        f"model {spec!r} is unknown.{hint} Choose one of {', '.join(native)}, or torchvision:NAME, "
        "timm:NAME, hf:NAME_OR_DIRECTORY or package.module:factory."
    )


def require_known(family: str, name: str, names: Sequence[str], *, known: bool | None = None) -> None:
    """Reject a name that the library does not have, with the nearest ones."""
    if not (name in names if known is None else known):
        hint = nearest(name, names, f"{family}:") or f" Choose one of {family}'s {len(names)} models."
        raise ConfigError(f"model {family}:{name}: {family} has no model of this name.{hint}")


def build_torchvision(
    name: str, num_classes: int, in_channels: int, image_size: int | None, *, pretrained: bool = False
) -> nn.Module:
    """``torchvision:NAME`` with random weights, or with torchvision's and a new classifier."""
    models = torchvision_models()
    require_known("torchvision", name, models.list_models(module=models))
    options: dict[str, Any] = {}
    if name in {"googlenet", "inception_v3"}:
        # Their published weights expect transform_input, which needs three channels.
        options = {"aux_logits": False, "init_weights": True, "transform_input": in_channels == 3}
    if image_size is not None and name.startswith("vit_"):
        options["image_size"] = image_size
    if image_size is not None and name.startswith("maxvit"):
        options["input_size"] = (image_size, image_size)
    model: nn.Module = models.get_model(name, weights=None, num_classes=num_classes, **options)
    if pretrained:
        load_state(model, _torchvision_weights(name), f"the weights of torchvision:{name}")
    if in_channels != 3:
        _replace_stem(model, in_channels)
    return model


def _torchvision_weights(name: str) -> dict[str, Tensor]:
    try:
        weights = torchvision_models().get_model_weights(name)
        state: dict[str, Tensor] = weights.DEFAULT.get_state_dict(progress=False, check_hash=True)
        return state
    except (OSError, RuntimeError, AttributeError) as error:
        raise _no_weights(f"torchvision:{name}", error) from error


def _no_weights(spec: str, error: Exception) -> ModelError:
    reason = first_line(error)
    return ModelError(
        f"model {spec}: its pre-trained weights cannot be downloaded ({reason}). Give them as a file with --weights "
        "FILE, or start from random weights with --weights none."
    )


def build_timm(
    name: str, num_classes: int, in_channels: int, image_size: int | None, *, pretrained: bool = False
) -> nn.Module:
    """``timm:NAME`` with random weights, or with timm's and a new classifier."""
    timm = timm_module()
    require_known("timm", name, timm.list_models(), known=timm.is_model(name))
    options: dict[str, Any] = {}
    cfg = timm.get_pretrained_cfg(name, allow_unregistered=True)
    if image_size is not None and getattr(cfg, "fixed_input_size", False):
        options["img_size"] = image_size
    try:
        model: nn.Module = timm.create_model(
            name, pretrained=False, num_classes=num_classes, in_chans=in_channels, **options
        )
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise ConfigError(
            f"model timm:{name} cannot be built with num_classes={num_classes}, in_channels={in_channels}, "
            f"image_size={image_size}: {error}"
        ) from error
    if not pretrained:
        return model
    # Built without them first, so that a failure here is one of the download.
    return _timm_with_weights(timm, name, num_classes=num_classes, in_chans=in_channels, **options)


def _timm_with_weights(timm: Any, name: str, **options: Any) -> nn.Module:
    try:
        with quick_without_internet():
            model: nn.Module = timm.create_model(name, pretrained=True, **options)
        return model
    except Exception as error:  # what a hub raises without internet depends on its version
        raise _no_weights(f"timm:{name}", error) from error


@contextmanager
def quick_without_internet() -> Iterator[None]:
    """Where the hub's name cannot be found, look into the cache alone: its library would retry for a minute."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _found(urlsplit(constants.ENDPOINT).hostname)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _found(host: str | None) -> bool:
    """Whether a name leads to an address; a proxy looks it up itself."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def build_hf(
    name: str, num_classes: int, in_channels: int, image_size: int | None, *, random: bool = False
) -> nn.Module:
    """``hf:NAME`` or ``hf:DIRECTORY``, with its weights unless ``random`` or the directory has none."""
    transformers = _extra("transformers", "hf")
    local = Path(name).is_dir()
    try:
        with quick_without_internet():
            config = transformers.AutoConfig.from_pretrained(name, local_files_only=local, num_labels=num_classes)
        _set_if_there(config, num_channels=in_channels, image_size=image_size)
        auto = transformers.AutoModelForImageClassification
        if random or (local and not _has_weights(Path(name))):
            fresh: nn.Module = auto.from_config(config)
            return fresh
        model, info = auto.from_pretrained(
            name,
            config=config,
            local_files_only=local,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (OSError, ValueError) as error:
        reason = first_line(error)
        raise ConfigError(
            f"model hf:{name} cannot be loaded: {reason} Give a directory written by save_pretrained, or the "
            "name of an image classifier on the Hugging Face hub (needs internet)."
        ) from error
    _check_hf(name, model, info)
    built: nn.Module = model
    return built


def hf_file(name: str, filename: str) -> Path | None:
    """A file of a local directory or of a hub repository; None when there is none or it cannot be fetched."""
    if Path(name).is_dir():
        path = Path(name) / filename
        return path if path.is_file() else None
    _extra("transformers", "hf")
    try:
        found = importlib.import_module("transformers.utils").cached_file(name, filename)
    except (OSError, ValueError):
        return None
    return Path(found) if found else None


def _did_you_mean(name: str, shown: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(name.lower(), list(shown), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(shown[c] for c in close)}?" if close else ""


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"this model needs {module}, which is not installed. Run: pip install 'residapt[{extra}]'"
        ) from error


def _replace_stem(model: nn.Module, in_channels: int) -> None:
    """Give the first convolution another number of input channels, with new weights."""
    name, old = next((n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d))
    new = nn.Conv2d(
        in_channels,
        old.out_channels,
        old.kernel_size,  # type: ignore[arg-type]
        old.stride,  # type: ignore[arg-type]
        old.padding,  # type: ignore[arg-type]
        old.dilation,  # type: ignore[arg-type]
        bias=old.bias is not None,
    )
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, new)


def _set_if_there(config: Any, **values: int | None) -> None:
    for key, value in values.items():
        if value is not None and isinstance(getattr(config, key, None), int):
            setattr(config, key, value)


def _has_weights(directory: Path) -> bool:
    return any(directory.glob("*.safetensors")) or any(directory.glob("*.bin"))


def _check_hf(name: str, model: nn.Module, info: dict[str, Any]) -> None:
    """Reject what transformers only warns about: tensors outside the head that are missing or misfit."""
    heads = tuple(head + "." for head in head_names(model))
    problems = [
        f"{key!r} is {tuple(theirs)} in the file and {tuple(ours)} in the network"
        for key, theirs, ours in sorted(info["mismatched_keys"])
        if not key.startswith(heads)
    ]
    mismatched = {key for key, *_ in info["mismatched_keys"]}
    problems += [
        f"{key!r} is not in the file"
        for key in sorted(set(info["missing_keys"]) - mismatched)
        if not key.startswith(heads)
    ]
    if problems:
        raise ModelError(misfit_message(f"hf:{name}", type(model).__name__, problems))
