"""Adapters on the Hugging Face Hub: the same three files as in a folder, and never any others."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from residapt.errors import ConfigError, ModelError

CARD, CONFIG, WEIGHTS = "README.md", "adapter_config.json", "adapter_model.safetensors"
FILES = (CONFIG, WEIGHTS, CARD)
"""Nothing else is downloaded or uploaded; the weights are safetensors, which run no code."""
HERE = "this-folder/"
"""How a model card names the folder that it lies in."""
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_hub_name(path: Path | str) -> bool:
    """Whether this is ``user/name`` on the Hub.

    It is not if something is there under that path, nor if its first part is a folder: ``runs/camera-7`` beside a
    folder ``runs`` is a mistyped path, for which no request is sent.
    """
    return bool(_NAME.fullmatch(str(path))) and not Path(path).exists() and not Path(path).parent.exists()


def adapter_folder(path: Path | str, *, revision: str | None = None) -> Path:
    """The folder of an adapter: the given one, or the local copy of ``user/name`` on the Hub."""
    name, path = str(path), Path(path)
    if not is_hub_name(name):
        if revision is not None:
            raise ConfigError(f"revision={revision!r} is for adapters on the Hugging Face Hub; '{name}' is a path.")
        return path
    hub = _hub(f"'{name}' is not a folder here. To load it from the Hugging Face Hub")
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=list(FILES), library_name="residapt")
    except Exception as error:
        raise ModelError(f"'{name}' is not a folder here, and on the Hugging Face Hub {_reason(error)}") from None
    if not (Path(folder) / CONFIG).exists():
        raise ModelError(f"'{name}' on the Hugging Face Hub is not a residapt adapter: it has no {CONFIG}.")
    return Path(folder)


def push_to_hub(
    folder: Path | str,
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    message: str = "Upload residapt adapter",
) -> str:
    """Upload an adapter to the Hugging Face Hub, where ``residapt.load(model, repo_id)`` finds it.

    The repository is created if it is not there. It gets the adapter's weights, configuration and model card.

    Args:
        folder: The folder that ``save_pretrained`` wrote, such as ``run/adapter``.
        repo_id: Where to: ``"user/name"``.
        private: Whether a new repository is private.
        token: Access token; without it the one that ``hf auth login`` has stored.
        message: Message of the commit.

    Returns:
        The address of the repository.

    Example:
        >>> push_to_hub("run/adapter", "me/camera-7")  # doctest: +SKIP
        'https://huggingface.co/me/camera-7'
        >>> push_to_hub("run/adapter", "camera-7")
        Traceback (most recent call last):
        residapt.errors.ConfigError: push_to_hub: repo_id must be 'user/name', got 'camera-7'.
    """
    from residapt.storage.adapter_format import read_config

    folder = Path(folder)
    if not _NAME.fullmatch(repo_id):
        raise ConfigError(f"push_to_hub: repo_id must be 'user/name', got {repo_id!r}.")
    config = read_config(folder)
    weights = (folder / WEIGHTS).read_bytes() if (folder / WEIGHTS).is_file() else b""
    if hashlib.sha256(weights).hexdigest() != config.weights_sha256:
        raise ModelError(f"'{folder / WEIGHTS}' is missing or damaged. Write the adapter again.")
    api = _hub("To upload an adapter").HfApi(token=token, library_name="residapt")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        (copy / WEIGHTS).write_bytes(weights)
        (copy / CONFIG).write_bytes((folder / CONFIG).read_bytes())
        (copy / CARD).write_text(_card(folder, repo_id), encoding="utf-8")
        try:
            api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=repo_id, folder_path=copy, allow_patterns=list(FILES), commit_message=message
            )  # fmt: skip
        except Exception as error:
            raise ModelError(f"'{folder}' cannot be uploaded to '{repo_id}': {_reason(error)}") from None
    return f"{api.endpoint}/{repo_id}"


def _card(folder: Path, repo_id: str) -> str:
    """The model card with the name that it has on the Hub; what a person has written into it stays."""
    file = folder / CARD
    text = file.read_text(encoding="utf-8") if file.is_file() else f"---\nlibrary_name: residapt\n---\n\n# {repo_id}\n"
    return text.replace(HERE, repo_id)


def _hub(what: str) -> ModuleType:
    try:
        import huggingface_hub
    except ImportError:
        raise ModelError(f"{what}, install the client: pip install 'residapt[hub]'") from None
    module: ModuleType = huggingface_hub
    return module


def _reason(error: Exception) -> str:
    """What went wrong, by the names of the error's classes: versions of the client keep them in different places."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return "it is gated: ask for access on its page, then log in with 'hf auth login'."
    if "RevisionNotFoundError" in kinds:
        return "it has no such revision. Leave revision out for the newest."
    if "RepositoryNotFoundError" in kinds:
        return "there is no such repository, or it is private: log in with 'hf auth login'."
    status = _status(error)
    if status in (401, 403):
        return f"access is denied (status {status}): log in with 'hf auth login', with a token that may write."
    if status is not None:
        return f"the request failed with status {status}: {error}"
    if kinds & {"HFValidationError", "LocalTokenNotFoundError"}:
        return f"the request is refused: {error}"
    return (
        f"nothing can be reached, nor is a copy kept here ({type(error).__name__}). Check the connection, HF_ENDPOINT "
        "and HF_HUB_OFFLINE, or copy the adapter's folder here and give its path."
    )


def _status(error: Exception) -> Any:
    return getattr(getattr(error, "response", None), "status_code", None)
