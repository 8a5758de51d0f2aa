"""What is written to disk: adapters, model files, checkpoints and run directories."""

from residapt.storage.adapter import load, save_pretrained
from residapt.storage.adapter_format import AdapterConfig, LayerRecord, read_config
from residapt.storage.base_network import base_hashes
from residapt.storage.metadata import AdapterMetadata
from residapt.storage.model_file import read_model_metadata, write_model

__all__ = [
    "AdapterConfig",
    "AdapterMetadata",
    "LayerRecord",
    "base_hashes",
    "load",
    "read_config",
    "read_model_metadata",
    "save_pretrained",
    "write_model",
]
