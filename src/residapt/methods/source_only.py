"""Source only: the network trained where labels are plentiful, used as it is. The floor of every table."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from residapt.data.augment import Augment
from residapt.data.batches import Batch
from residapt.methods.config import MethodConfig
from residapt.methods.registry import register, shared_streams
from residapt.streams import Stream, TwoStream
from residapt.train.method import Losses, Method, weighted_sum


class SourceOnly(Method):
    """Cross-entropy on the source; the target is not looked at."""

    name = "source_only"

    def __init__(self, two: TwoStream, change: Augment | None = None) -> None:
        super().__init__()
        self.two, self.change = two, change

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Classification loss on the source."""
        images = batch.source if self.change is None else self.change(batch.source)
        return weighted_sum({"class": functional.cross_entropy(self.two(images), batch.labels)}, {})

    def predict(self, x: Tensor, stream: Stream = "target") -> Tensor:
        """Both domains go through the source network, its batch-norm statistics included."""
        logits: Tensor = self.two(x, stream="source")
        return logits


def single_stream(model: nn.Module, config: MethodConfig) -> TwoStream:
    """The network alone, with one set of batch-norm statistics."""
    transform = config.transform.model_copy(update={"norm": "shared"})
    return shared_streams(model, config.model_copy(update={"transform": transform}))


@register("source_only")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> SourceOnly:
    """The network alone, with one set of batch-norm statistics."""
    return SourceOnly(single_stream(model, config), config.augment.build())
