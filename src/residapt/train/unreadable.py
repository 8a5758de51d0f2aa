"""Images that are found to be unreadable during training: they are named, and others are used instead."""

from __future__ import annotations

from residapt.data.decoded import pixels_behind
from residapt.data.domains import DomainPair
from residapt.train.callbacks import Callback


class UnreadableNotes(Callback):
    """Names unreadable images once they are found."""

    def __init__(self, pair: DomainPair) -> None:
        images = [pair.source.images, pair.target, *([] if pair.few is None else [pair.few.images])]
        self.pixels = list(dict.fromkeys(pixels for one in images for pixels in pixels_behind(one)))

    def new_notes(self) -> list[str]:
        """What is new."""
        return [text for pixels in self.pixels for text in pixels.news()]
