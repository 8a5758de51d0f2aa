"""Detections that never happened: drones among fifty times as many birds, before and after."""

from __future__ import annotations

import torch

from residapt.evaluate.metrics import detect
from residapt.storage.summary import ScoredDetection


def detections(positive: str = "drone", other: str = "bird") -> list[ScoredDetection]:
    generator = torch.Generator().manual_seed(3)
    labels = (torch.arange(4000) % 50 == 0).long()
    found = []
    for stage, strength in (("source_only", 1.2), ("adapted", 3.0)):
        margin = strength * labels + torch.randn(4000, generator=generator)
        detection = detect(torch.stack([-margin, margin], 1) / 2, labels, (other, positive))
        assert detection is not None
        values = {"name": "site/test", "stage": stage, "protocol": "held-out", "detection": detection}
        found.append(ScoredDetection.parse(values, where="test"))
    return found
