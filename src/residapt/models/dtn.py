"""DTN, the batch-normalised digits network of CDAN (Long et al. 2018) and SHOT (Liang et al. 2020)."""

from __future__ import annotations

from torch import Tensor, nn

from residapt.errors import ModelError


def _block(in_channels: int, out_channels: int, dropout: float) -> list[nn.Module]:
    return [
        nn.Conv2d(in_channels, out_channels, 5, stride=2, padding=2),
        nn.BatchNorm2d(out_channels),
        nn.Dropout2d(dropout),
        nn.ReLU(),
    ]


class DTN(nn.Module):
    """64-128-256 strided convolutions, a 512-wide layer and a classifier, all but the last batch-normalised.

    ``fc_params`` is the 512-wide feature that domain classifiers read; 32x32 images by default.
    """

    def __init__(self, in_channels: int = 3, num_classes: int = 10, *, image_size: int = 32) -> None:
        super().__init__()
        self.image_size = image_size
        side = -(-image_size // 8)
        if side < 1:
            raise ModelError(f"image_size={image_size} is too small for DTN. Use images of at least one pixel.")
        self.conv_params = nn.Sequential(*_block(in_channels, 64, 0.1), *_block(64, 128, 0.3), *_block(128, 256, 0.5))
        self.fc_params = nn.Sequential(
            nn.Linear(256 * side * side, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5)
        )
        self.classifier = nn.Linear(512, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        logits: Tensor = self.classifier(self.fc_params(self.conv_params(x).flatten(1)))
        return logits
