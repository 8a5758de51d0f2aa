"""What is written to disk: adapters, model files, checkpoints and run directories."""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
    from residapt.storage.adapter import load, save_pretrained
    from residapt.storage.adapter_format import AdapterConfig, LayerRecord, read_config
    from residapt.storage.adapter_set import AdapterSet
    from residapt.storage.base_network import base_hashes
    from residapt.storage.metadata import AdapterMetadata
    from residapt.storage.model_file import read_model_metadata, write_model

__all__ = [
    "AdapterConfig",
    "AdapterMetadata",
    "AdapterSet",
    "LayerRecord",
    "base_hashes",
    "load",
    "read_config",
    "read_model_metadata",
    "save_pretrained",
    "write_model",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(("load", "save_pretrained"), "residapt.storage.adapter"),
        **dict.fromkeys(("AdapterConfig", "LayerRecord", "read_config"), "residapt.storage.adapter_format"),
        "AdapterSet": "residapt.storage.adapter_set",
        "base_hashes": "residapt.storage.base_network",
        **dict.fromkeys(("AdapterMetadata", "Input"), "residapt.storage.metadata"),
        **dict.fromkeys(("read_model_metadata", "write_model"), "residapt.storage.model_file"),
    },
)
