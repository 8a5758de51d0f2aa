"""What the small run of these tests says of itself."""

from __future__ import annotations

from residapt.models import InputSpec
from residapt.storage import AdapterMetadata

CLASSES = ("cat", "dog", "owl & <i>co</i>")
METADATA = AdapterMetadata(
    method="rpt", classes=CLASSES, model="lenet", input=InputSpec(size=28, channels=1, mean=(0.4,), std=(0.2,))
)
