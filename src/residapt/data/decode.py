"""Image files as uint8 tensors; training, prediction and evaluation decode here and see the same pixels."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from residapt.errors import ConfigError, DataError

# Only these decoders are tried: Pillow would hand an EPS file, whatever its name, to an outside program.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "AVIF", "HEIF")
_SIXTEEN_BIT = ("I;16", "I;16B", "I;16L", "I;16N")
_WITH_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


class UnreadableImageError(DataError):
    """A file that cannot be decoded; ``reason`` says why in a few words."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"image '{path}' cannot be read: {reason}. Repair or remove it.")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type[UnreadableImageError], tuple[Path, str]]:
        return type(self), (self.path, self.reason)


def decode_image(
    path: Path, *, size: int, channels: int, interpolation: str = "bilinear", encoded: bytes | None = None
) -> Tensor:
    """The image as uint8 (channels, size, size): shorter side brought to ``size``, the centre cut out.

    ``encoded`` is the content of an image that is no file of its own; ``path`` is then only its name.
    """
    resampling = _resampling(interpolation)
    mode = _mode(channels)
    try:
        with Image.open(path if encoded is None else io.BytesIO(encoded), formats=_formats()) as file:
            # A JPEG can be decoded at 1/2, 1/4 or 1/8 of its size for less; twice the wanted size is enough.
            file.draft(None, (2 * size, 2 * size))
            return _pixels(file, size, mode, resampling)
    except Exception as error:  # a broken file can make a decoder raise almost anything
        raise UnreadableImageError(path, _reason(path, error, encoded)) from None


def fit_image(image: Image.Image, *, size: int, channels: int, interpolation: str = "bilinear") -> Tensor:
    """An image that is open already, as :func:`decode_image` gives it."""
    return _pixels(image, size, _mode(channels), _resampling(interpolation))


def _pixels(image: Image.Image, size: int, mode: str, resampling: Image.Resampling) -> Tensor:
    # A turned copy has forgotten its file format, and a converted one its orientation.
    eight_bits = _to_mode(ImageOps.exif_transpose(image), mode, image.format)
    pixels = torch.from_numpy(np.array(_centre_square(eight_bits, size, resampling), dtype=np.uint8))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def _centre_square(image: Image.Image, size: int, resampling: Image.Resampling) -> Image.Image:
    """Resize and crop in one go: the largest square in the middle becomes size x size."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return image.resize((size, size), resampling, box=(left, top, left + side, top + side))


def _to_mode(image: Image.Image, mode: str, file_format: str | None) -> Image.Image:
    """Eight bits per channel, in grey or RGB; what is transparent becomes white."""
    if image.mode in (*_SIXTEEN_BIT, "I", "F"):
        image = _to_eight_bits(image, file_format)
    elif image.mode in _WITH_ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert(mode)


def _to_eight_bits(image: Image.Image, file_format: str | None) -> Image.Image:
    """Deep grey images by one rule for all: to stretch each to its own range would hide its exposure."""
    values = np.asarray(image)
    if image.mode == "F":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise ValueError("it holds floating-point values outside [0, 1]; convert it to 8 or 16 bits")
        return Image.fromarray(np.rint(values * 255).astype(np.uint8))
    # Older versions of Pillow open a 16-bit PNG as 32-bit integers.
    if image.mode == "I" and (file_format not in ("PNG", "PPM") or values.min() < 0 or values.max() > 65535):
        raise ValueError("it holds 32-bit integers, whose range is not known; convert it to 8 or 16 bits")
    return Image.fromarray(np.rint(values.astype(np.float32) / 257).astype(np.uint8))


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _resampling(interpolation: str) -> Image.Resampling:
    try:
        return Image.Resampling[interpolation.upper()]
    except KeyError:
        known = ", ".join(name.lower() for name in Image.Resampling.__members__)
        raise ConfigError(f"interpolation must be one of {known}, got {interpolation!r}.") from None


def _mode(channels: int) -> str:
    if channels not in (1, 3):
        raise ConfigError(f"images have 1 (grey) or 3 (RGB) channels, got {channels}; set data.channels to 1 or 3.")
    return "L" if channels == 1 else "RGB"


def _reason(path: Path, error: Exception, encoded: bytes | None) -> str:
    if path.suffix.lower() in (".heic", ".heif") and "HEIF" not in _formats():
        return "HEIC needs a decoder that is not installed; convert it to JPEG"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
    if isinstance(error, UnidentifiedImageError):
        length = path.stat().st_size if encoded is None else len(encoded)
        return "it is empty" if length == 0 else "its content is not an image of a known format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error) or type(error).__name__).rstrip(".")
