"""How large adapter files are beside the networks that they change, with the source network referred to by hash.

    python benchmarks/adapter_size.py benchmarks/results/office31.jsonl

EfficientNet-Lite0 with the ranks of each recorded RPT run on A -> W, beside fixed ranks; ResNet-50 at ranks 32 and 8.
Sizes do not depend on values, so that the networks here have random ones. Ranks of biases are not in the records:
all are kept, which makes a file a little larger than it would be.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

from residapt.models.heads import with_bottleneck
from residapt.models.specs import build_model
from residapt.rank.prune import prune_transform
from residapt.storage.adapter import save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.streams import TwoStream
from residapt.transform import ResidualTransform, TransformConfig
from residapt_bench.office31.network import CLASSES, OfficeNetwork, trained_part
from residapt_bench.plan import OfficeSetup
from residapt_bench.record import Ranks, Record, read_records
from residapt_bench.speed.cases import find_case

METADATA = AdapterMetadata(method="rpt", classes=tuple(f"class {number}" for number in range(CLASSES)))


def adapter_bytes(streams: TwoStream) -> int:
    """Size of the adapter's folder."""
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(streams, Path(folder) / "adapter", metadata=METADATA)
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def model_bytes(model: nn.Module) -> int:
    """Bytes of all tensors."""
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


def first(count: int, of: int) -> torch.Tensor:
    """A mask of the first ones."""
    return torch.arange(of) < count


def with_ranks(streams: TwoStream, ranks: Ranks) -> TwoStream:
    """Cut every transform to the given ranks."""
    for name, (left, right) in ranks.items():
        transform = streams.transform(name)
        assert isinstance(transform, ResidualTransform)
        biases = torch.ones(transform.bias_rank, dtype=torch.bool) if transform.has_bias else None
        rows, columns = (first(*pair) for pair in zip((left, right), transform.ranks, strict=True))
        prune_transform(transform, rows, columns, biases, None)
    return streams


def line(what: str, adapter: int, model: int) -> None:
    """One row."""
    print(f"| {what} | {adapter / 1e6:.2f} | {model / 1e6:.2f} | {100 * adapter / model:.1f} % |")


def office(record: Record) -> None:
    """One recorded run."""
    plan, setup = record.plan, record.plan.setup
    assert isinstance(setup, OfficeSetup)
    network = OfficeNetwork(**{**setup.model_dump(), "weights": None}, arch=plan.arch, standardise=plan.standardise)
    rest = trained_part(network, Path(), 0)
    plain = build_model(network.arch, num_classes=CLASSES, image_size=network.image_size)
    whole = model_bytes(with_bottleneck(plain, num_classes=CLASSES, width=network.bottleneck))
    streams = TwoStream(rest, TransformConfig.parse(plan.settings["transform"]))
    size = adapter_bytes(with_ranks(streams, record.ranks.after))
    note = f", {plan.note}" if plan.note else ""
    line(f"EfficientNet-Lite0, {plan.task}, {plan.method}{note}, seed {plan.seed}", size, whole)


def main() -> None:
    """Print the table."""
    print("| network | adapter, MB | network, MB | share |\n|---|---|---|---|")
    for record in read_records([Path(name) for name in sys.argv[1:]]):
        if record.plan.task == "a-w" and record.plan.method in ("rpt", "rpt_fixed"):
            office(record)
    resnet = find_case("resnet50").network()
    for rank in (32, 8):
        streams = TwoStream(resnet, left_rank=rank, right_rank=rank)
        line(f"ResNet-50, all {len(streams.layers)} layers at rank {rank}", adapter_bytes(streams), model_bytes(resnet))


if __name__ == "__main__":
    main()
