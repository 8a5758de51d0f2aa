"""The target network in formats that other programs read, compared with it before the file takes its place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, get_args

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from residapt.deploy.export_onnx import quiet, write_onnx
from residapt.deploy.load_run import DeployedModel, load_run
from residapt.deploy.parity import Runner, check_parity, example_batch, with_plain_output
from residapt.errors import ConfigError, ModelError, ResidaptError, first_line
from residapt.models import read_weights
from residapt.storage.atomic import atomic_file, refuse_existing
from residapt.storage.metadata import to_properties
from residapt.storage.model_file import plain_state, write_model

Format = Literal["onnx", "torch-export", "safetensors", "state-dict"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[Format, str] = {
    "onnx": ".onnx",
    "torch-export": ".pt2",
    "safetensors": ".safetensors",
    "state-dict": ".pth",
}
"""How the names of the files end."""


@dataclass(frozen=True)
class Exported:
    """A file that was written and compared."""

    path: Path
    format: Format
    difference: float
    """Largest difference of logits, relative to the largest logit; 0 where tensors were compared."""
    size: int
    """Bytes."""


def export_run(
    run: DeployedModel | Path | str,
    form: Format,
    out: Path | str,
    *,
    overwrite: bool = False,
    trust_code: bool = False,
) -> Exported:
    """Write a run's network in one of :data:`FORMATS`; ``trust_code`` is that of :func:`load_run`."""
    if form not in FORMATS:
        raise ConfigError(f"export format must be one of {', '.join(FORMATS)}, got {form!r}.")
    path = Path(out)
    if path.suffix.lower() != SUFFIXES[form]:
        raise ConfigError(f"output '{path}' should end in '{SUFFIXES[form]}' for the format {form}.")
    refuse_existing(path, overwrite=overwrite)
    deployed = run if isinstance(run, DeployedModel) else load_run(run, trust_code=trust_code)
    with atomic_file(path, overwrite=overwrite) as temporary:
        difference = _write(deployed, form, temporary)
        size = temporary.stat().st_size
    return Exported(path, form, difference, size)


def default_output(run: Path, form: Format) -> Path:
    """``target`` with the format's suffix, in the run directory or beside the model file."""
    return (run if run.is_dir() else run.parent) / f"target{SUFFIXES[form]}"


def _write(deployed: DeployedModel, form: Format, path: Path) -> float:
    if form == "safetensors":
        try:
            write_model(deployed.model, path, deployed.metadata, overwrite=True)
        except SafetensorError as error:  # what its writer raises where the system gives an OSError
            raise OSError(str(error)) from error
        return _compare_tensors(path, plain_state(deployed.model))
    if form == "state-dict":
        _write_by_torch(path, lambda buffer: torch.save(plain_state(deployed.model), buffer))
        return _compare_tensors(path, plain_state(deployed.model))
    example = example_batch(deployed.input, 2)
    network = with_plain_output(copy.deepcopy(deployed.model).cpu().eval(), example)
    write = write_onnx if form == "onnx" else write_torch_export
    try:
        runner = write(network, example, path, to_properties(deployed.metadata))
    except (ResidaptError, OSError):
        raise
    except Exception as error:  # exporters raise whatever their passes do
        text = f"{deployed.spec} cannot be exported as {form}: {first_line(error)}. Try another --format."
        raise ModelError(text) from error
    return check_parity(f"the {form} file", network, runner, deployed.input)


def _write_by_torch(path: Path, save: Callable[[BytesIO], None]) -> None:
    """In memory first: on a full disk torch's own writer raises a RuntimeError, or ends the process."""
    buffer = BytesIO()
    save(buffer)
    path.write_bytes(buffer.getbuffer())


def write_torch_export(network: nn.Module, example: Tensor, path: Path, properties: dict[str, str]) -> Runner:
    """Write the network with a free batch size as a ``.pt2`` archive, and give a function that runs it."""
    with quiet():
        program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        _write_by_torch(path, lambda buffer: torch.export.save(program, buffer, extra_files=dict(properties)))
        loaded: Runner = torch.export.load(path).module()
    return loaded


def _compare_tensors(path: Path, state: dict[str, Tensor]) -> float:
    found = read_weights(path)
    if found.keys() != state.keys() or not all(torch.equal(found[name], tensor) for name, tensor in state.items()):
        raise ModelError("the file does not hold the network's tensors after writing. Check the disk.")
    return 0.0
