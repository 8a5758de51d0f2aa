"""The two-stream model (paper Fig. 1), and its adapter as a file."""

from residapt.streams.adapter import load, save_pretrained
from residapt.streams.adapter_format import AdapterConfig, LayerRecord, read_config
from residapt.streams.base import base_hashes
from residapt.streams.merge import check_merge, merge_and_unload
from residapt.streams.metadata import AdapterMetadata, Input
from residapt.streams.norm import batch_norms
from residapt.streams.outputs import Outputs
from residapt.streams.two_stream import Stream, TwoStream

__all__ = [
    "AdapterConfig",
    "AdapterMetadata",
    "Input",
    "LayerRecord",
    "Outputs",
    "Stream",
    "TwoStream",
    "base_hashes",
    "batch_norms",
    "check_merge",
    "load",
    "merge_and_unload",
    "read_config",
    "save_pretrained",
]
