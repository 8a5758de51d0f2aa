"""ONNX by torch's exporter, run by onnxruntime for comparison."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from residapt.deploy.parity import Runner
from residapt.errors import ConfigError, ModelError

# Protocol buffers, and with them ONNX files without side files, end at 2 GB.
_LIMIT = 1_900_000_000


def write_onnx(network: nn.Module, example: Tensor, path: Path, properties: dict[str, str]) -> Runner:
    """Write the network with a free batch size, and give a function that runs the file."""
    runtime = _extra("onnxruntime")
    _extra("onnxscript")
    size = sum(t.numel() * t.element_size() for t in network.state_dict().values())
    if size > _LIMIT:
        raise ModelError(f"the network has {size / 1e9:.1f} GB, too much for an ONNX file. Use --format torch-export.")
    with quiet():
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=["images"],
            output_names=["logits"],
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props.update(properties)
    program.save(str(path), external_data=False)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Tensor:
        return torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])

    return run


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's notes about its own insides from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _extra(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"export to ONNX needs {module}, which is not installed. Run: pip install 'residapt[onnx]'"
        ) from None
