"""The cheapest adaptation: batch-norm statistics of the target in place of the source's, and nothing else."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from residapt.data.domains import Images

BATCH = 64


def with_target_statistics(network: nn.Module, images: Images, device: torch.device) -> nn.Module:
    """A copy whose batch-norm layers have mean and variance over these images (AdaBN, Li et al. 2017).

    Networks without batch norm stay as they are.
    """
    network = copy.deepcopy(network).eval().to(device)
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return network
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
        norm.train()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for index in torch.split(torch.randperm(len(images), generator=generator), BATCH):
            if len(index) > 1:
                network(images.fetch(index, generator).to(device))
    return network.eval()
