"""Image files in batches, decoded ahead of the network by a few threads; unreadable ones are set aside."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.decode import UnreadableImageError, decode_image
from residapt.models import InputSpec


@dataclass(frozen=True, eq=False)
class DecodedBatch:
    """Some files in order: which of them could be read, their pixels, and the others."""

    places: Tensor
    """Indices of the readable ones into all paths."""
    pixels: Tensor
    """uint8 (n, channels, size, size); n may be 0."""
    unreadable: tuple[UnreadableImageError, ...]


def decoded_batches(paths: Sequence[Path], form: InputSpec, batch_size: int) -> Iterator[DecodedBatch]:
    """All files in order. At most two batches are in memory: one being decoded, one in use."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        waiting: deque[tuple[int, list[Future[Tensor | UnreadableImageError]]]] = deque()
        for start in range(0, len(paths), batch_size):
            futures = [pool.submit(_decode, path, form) for path in paths[start : start + batch_size]]
            waiting.append((start, futures))
            if len(waiting) == 2:
                yield _collect(*waiting.popleft(), form)
        while waiting:
            yield _collect(*waiting.popleft(), form)


def _decode(path: Path, form: InputSpec) -> Tensor | UnreadableImageError:
    try:
        return decode_image(path, size=form.size, channels=form.channels, interpolation=form.interpolation)
    except UnreadableImageError as error:
        return error


def _collect(start: int, futures: Sequence[Future[Tensor | UnreadableImageError]], form: InputSpec) -> DecodedBatch:
    results = [future.result() for future in futures]
    good = {start + i: result for i, result in enumerate(results) if isinstance(result, Tensor)}
    empty = torch.empty(0, form.channels, form.size, form.size, dtype=torch.uint8)
    pixels = torch.stack(list(good.values())) if good else empty
    bad = tuple(result for result in results if isinstance(result, UnreadableImageError))
    return DecodedBatch(torch.tensor(list(good), dtype=torch.long), pixels, bad)
