"""First stages of a network that stay as they are, cut off from the rest, which is trained on their outputs."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import Tensor, nn

from residapt.data.config import AugmentConfig
from residapt.methods import MethodConfig
from residapt.models.stages import FrozenStages, join
from residapt.streams import TwoStream


@dataclass(frozen=True, eq=False)
class Frozen:
    """The stages that have been cut off, and what is known of them."""

    stages: FrozenStages
    names: tuple[str, ...]
    """The modules that have been cut off."""
    left: tuple[str, ...]
    """Modules of the rest that are frozen as well."""
    images: Tensor
    """A few images."""
    example: Tensor
    """The output for them."""

    def whole(self, rest: nn.Module) -> nn.Module:
        """The whole network with the rest as it is now."""
        return join(self.stages, rest)

    def whole_streams(self, streams: TwoStream) -> TwoStream:
        """Both streams of the whole network, which read images."""
        found = copy.deepcopy(streams.eval_model())
        found.model = join(self.stages, found.model)
        found.frozen = (*self.names, *self.left)
        found.config = found.config.model_copy(update={"freeze": found.frozen})
        return found.eval()

    def settings(self, method: MethodConfig) -> MethodConfig:
        """The settings of the method for the rest; random changes of images are in the outputs already.

        Outputs cannot be cropped or turned again: a second view of an image is another one of its cached ones.
        """
        transform = method.transform.model_copy(update={"freeze": self.left})
        consistency = method.consistency.model_copy(update={"view": "drawn"})
        return method.model_copy(
            update={"transform": transform, "augment": AugmentConfig(), "consistency": consistency}
        )
