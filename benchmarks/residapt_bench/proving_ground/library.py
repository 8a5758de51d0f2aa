"""All that the proving ground takes from residapt: readers, networks, files that appear whole, errors."""

from __future__ import annotations

from residapt.atomic import atomic_file
from residapt.data.decode import decode_image
from residapt.data.digits import read_mnist, read_svhn, read_usps
from residapt.data.drones.standin import StandInConfig, detection_data, load_standin
from residapt.data.folders import scan_source
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.data.uav import DetectionData
from residapt.errors import ConfigError, DataError
from residapt.models.specs import build_model

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
