"""All that the proving ground takes from residapt: readers, networks, files that appear whole, errors."""

from __future__ import annotations

from residapt.data.decode import decode_image
from residapt.data.folders import scan_source
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.errors import ConfigError, DataError
from residapt.models.specs import build_model
from residapt.storage.atomic import atomic_file
from residapt_bench.digits.readers import read_mnist, read_svhn, read_usps
from residapt_bench.drones.patches import DetectionData
from residapt_bench.drones.render.standin import StandInConfig, detection_data, load_standin

__all__ = [
    "ConfigError",
    "DataError",
    "DetectionData",
    "StandInConfig",
    "atomic_file",
    "build_model",
    "decode_image",
    "detection_data",
    "handwritten_digits",
    "load_standin",
    "printed_digits",
    "read_mnist",
    "read_svhn",
    "read_usps",
    "scan_source",
]
