"""A base network with the adapters of many domains, for folders of images in which each domain has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.preprocess import to_float
from residapt.deploy.load_run import DeployedModel, load_run
from residapt.errors import ConfigError, ModelError
from residapt.storage import AdapterSet, load, read_config
from residapt.storage.adapter_set import SOURCE
from residapt.storage.adapters_in import adapters_in
from residapt.storage.run_directory import RunDirectory


@dataclass(frozen=True, eq=False)
class DeployedDomains:
    """A base network and its adapters, ready to use."""

    base: DeployedModel
    adapters: AdapterSet

    @torch.inference_mode()
    def logits(self, pixels: Tensor, paths: Sequence[str]) -> Tensor:
        """Logits of uint8 images, on the CPU; each image's domain is the first folder of its path."""
        form = self.base.input
        floats = to_float(pixels.to(self.base.device), form.mean, form.std)
        return self.adapters(floats, stream=[domain_of(path) for path in paths]).float().cpu()

    def check(self, paths: Sequence[str]) -> None:
        """Refuse images whose folder names no adapter."""
        known = {SOURCE, *self.adapters}
        for path in paths:
            domain = domain_of(path)
            if domain not in known:
                what = f"folder '{domain}'" if domain else "no folder"
                raise ConfigError(
                    f"image '{path}' lies in {what}, which names no adapter. Adapters: {', '.join(self.adapters)}; "
                    f"images in a folder '{SOURCE}' are predicted by the base itself."
                )


def domain_of(path: str) -> str:
    """The first folder of a path with forward slashes; nothing for a file without one."""
    first, slash, _ = path.partition("/")
    return first if slash else ""


def load_domains(
    base: Path, adapters: Path, *, device: str = "cpu", trust_code: bool = False, cached: int = 4
) -> DeployedDomains:
    """The source network of a run (or a model file) with the adapters of a folder, all for the same classes.

    Args:
        base: A run, whose source network is the base, or its file.
        adapters: A folder of adapters, or of runs with one, by the name of their domain.
        device: Where to compute.
        trust_code: Allow code that the base's file names as its network.
        cached: How many domains' networks are kept formed.
    """
    found = adapters_in(adapters)
    deployed = load_run(RunDirectory.open(base).source if base.is_dir() else base, device=device, trust_code=trust_code)
    for name, path in found.items():
        if (classes := read_config(path).classes) != deployed.classes:
            raise ModelError(
                f"adapter '{name}' is for the classes {', '.join(classes[:4])}, but the base '{base}' for "
                f"{', '.join(deployed.classes[:4])}. Take it out of '{adapters}'."
            )
    return DeployedDomains(deployed, load(deployed.model, found, cached=cached))
