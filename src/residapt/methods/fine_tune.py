r"""Fine-tuning: the source network, trained further on a few labelled target images and nothing else.

.. math:: L = \frac1n \sum_i -\log p_{y_i}(x_i^t)

The supervised baseline of the paper's UAV experiment. It starts from the network as given, so train it on
the source first. ``few_weight`` does not count: there is nothing to weigh it against.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.registry import register, shared_streams
from residapt.streams import TwoStream
from residapt.train.method import Losses, Method, weighted_sum


def needs_labels(name: str) -> str:
    """What to say to somebody who has given no labelled target images to a method that lives on them."""
    return (
        f"method '{name}' learns from labelled target images, but none were given. Give some with "
        "--target-labels (DomainPair.few), or use an unsupervised method such as rpt."
    )


class FineTune(Method):
    """Cross-entropy on the few labelled target images."""

    name = "fine_tune"

    def __init__(self, two: TwoStream) -> None:
        super().__init__()
        self.two = two

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Classification loss on the few labelled target images."""
        if batch.few is None or batch.few_labels is None:
            raise ConfigError(needs_labels(self.name))
        logits = self.two(batch.few, stream="target")
        return weighted_sum({"target_class": functional.cross_entropy(logits, batch.few_labels)}, {})


@register("fine_tune")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> FineTune:
    """Batch norm follows the same policy as for RPT."""
    return FineTune(shared_streams(model, config))
