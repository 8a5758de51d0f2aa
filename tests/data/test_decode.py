"""Image files of every kind as the same pixels; broken ones as one kind of error."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from residapt.data.decode import UnreadableImageError, decode_image
from residapt.data.image_files import list_images
from residapt.errors import ConfigError, DataError

RED, WHITE = (255, 0, 0), (255, 255, 255)


def colour(path: Path) -> tuple[int, ...]:
    """The one colour of a picture."""
    pixels = decode_image(path, size=8, channels=3)
    assert pixels.shape == (3, 8, 8)
    assert pixels.dtype == torch.uint8
    flat = pixels.flatten(1)
    assert int((flat.max(1).values - flat.min(1).values).max()) <= 2
    return tuple(flat[:, 0].tolist())


def palette_with_transparency() -> Image.Image:
    image = Image.new("P", (9, 12), 1)
    image.putpalette([0, 255, 0, *RED])
    image.info["transparency"] = 1
    return image


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        ("rgb.png", Image.new("RGB", (9, 12), RED), RED),
        ("rgb.bmp", Image.new("RGB", (9, 12), RED), RED),
        ("rgb.gif", Image.new("RGB", (9, 12), RED), RED),
        ("rgb.tif", Image.new("RGB", (9, 12), RED), RED),
        ("rgb.jpg", Image.new("RGB", (900, 1200), RED), (254, 0, 0)),
        ("cmyk.jpg", Image.new("CMYK", (9, 12), (0, 255, 255, 0)), (254, 0, 0)),
        ("cmyk.tif", Image.new("CMYK", (9, 12), (0, 255, 255, 0)), RED),
        ("palette.png", Image.new("RGB", (9, 12), RED).quantize(4), RED),
        ("clear.png", Image.new("RGBA", (9, 12), (255, 0, 0, 0)), WHITE),
        ("half.png", Image.new("RGBA", (9, 12), (0, 0, 0, 128)), (127, 127, 127)),
        ("solid.png", Image.new("RGBA", (9, 12), (255, 0, 0, 255)), RED),
        ("grey-alpha.png", Image.new("LA", (9, 12), (0, 0)), WHITE),
        ("palette-alpha.png", palette_with_transparency(), WHITE),
        ("one-bit.png", Image.new("1", (9, 12), 1), WHITE),
        ("grey.png", Image.new("L", (9, 12), 77), (77, 77, 77)),
        ("deep.png", Image.fromarray(np.full((12, 9), 257 * 100, np.uint16)), (100, 100, 100)),
        ("deep-white.png", Image.fromarray(np.full((12, 9), 65535, np.uint16)), WHITE),
        ("deep.tif", Image.fromarray(np.full((12, 9), 257 * 100, np.uint16)), (100, 100, 100)),
        ("deep.pgm", Image.fromarray(np.full((12, 9), 257 * 100, np.uint16)), (100, 100, 100)),
        ("float.tif", Image.fromarray(np.full((12, 9), 0.4, np.float32)), (102, 102, 102)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_file(tmp_path: Path, name: str, image: Image.Image, expected: tuple[int, ...]) -> None:
    try:
        image.save(tmp_path / name)
    except OSError as error:  # older versions of Pillow read more than they write
        pytest.skip(str(error))
    assert np.abs(np.subtract(colour(tmp_path / name), expected)).max() <= 1
    grey = decode_image(tmp_path / name, size=8, channels=1)
    assert grey.shape == (1, 8, 8)
    assert abs(int(grey[0, 0, 0]) - np.dot(expected, (0.299, 0.587, 0.114))) <= 1.5


def test_deep_images_keep_their_exposure(tmp_path: Path) -> None:
    """A dark 16-bit image stays dark: it is not stretched to its own range."""
    dark = np.linspace(0, 6000, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(dark).save(tmp_path / "a.png")
    assert int(decode_image(tmp_path / "a.png", size=8, channels=1).max()) == round(6000 / 257)


# EXIF: where row 0 and column 0 of the stored pixels are in the picture.
SIDES = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


@pytest.mark.parametrize("orientation", SIDES)
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_orientation_is_followed(tmp_path: Path, orientation: int, suffix: str) -> None:
    """Pixels are stored turned, the tag says how; read back, the picture is upright."""
    sides = SIDES[orientation]
    stored = np.kron(np.array([[0, 90], [170, 255]], np.uint8), np.ones((32, 32), np.uint8))
    stored = stored[::-1] if "bottom" in sides else stored
    stored = stored[:, ::-1] if "right" in sides else stored
    stored = stored.T if sides[0] in ("left", "right") else stored
    tag = Image.Exif()
    tag[0x0112] = orientation
    Image.fromarray(stored.copy()).save(tmp_path / f"a.{suffix}", exif=tag)
    corners = decode_image(tmp_path / f"a.{suffix}", size=64, channels=1)[0, 8::48, 8::48]
    assert (corners.int() - torch.tensor([[0, 90], [170, 255]])).abs().max() <= 3


@pytest.mark.parametrize("size", [(200, 100), (100, 200)])
def test_centre_is_cut_out_after_the_shorter_side_is_resized(tmp_path: Path, size: tuple[int, int]) -> None:
    image = Image.new("L", size, 0)
    image.paste(255, (size[0] // 2 - 50, size[1] // 2 - 50, size[0] // 2 + 50, size[1] // 2 + 50))
    image.save(tmp_path / "a.png")
    # The outermost pixels also see a little of what lies beside the square.
    assert int(decode_image(tmp_path / "a.png", size=20, channels=1)[:, 1:-1, 1:-1].min()) == 255
    image.paste(0, (size[0] // 2 - 50, size[1] // 2 - 50, size[0] // 2, size[1] // 2))
    image.save(tmp_path / "b.png")
    half = decode_image(tmp_path / "b.png", size=20, channels=1)[0]
    assert int(half[1:9, 1:9].max()) == 0
    assert int(half[11:-1, 11:-1].min()) == 255


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_interpolation_is_pillows(tmp_path: Path, interpolation: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = Image.fromarray(pixels).resize((11, 11), Image.Resampling[interpolation.upper()])
    found = decode_image(tmp_path / "a.png", size=11, channels=3, interpolation=interpolation)
    assert np.array_equal(found.permute(1, 2, 0).numpy(), np.asarray(expected))


def test_large_jpegs_are_hardly_changed_by_decoding_them_smaller(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    smooth = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((640, 640))
    smooth.save(tmp_path / "a.jpg", quality=95)
    smooth.save(tmp_path / "a.png")
    jpeg, png = (decode_image(tmp_path / f"a.{s}", size=32, channels=3).int() for s in ("jpg", "png"))
    assert (jpeg - png).abs().float().mean() < 2


def bomb(path: Path) -> None:
    """A small PNG that says it has 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def test_bombs_are_refused(tmp_path: Path) -> None:
    bomb(tmp_path / "a.png")
    with pytest.raises(UnreadableImageError, match=r"more than .* pixels"):
        decode_image(tmp_path / "a.png", size=8, channels=3)


def saved(image: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.png", b"", "it is empty"),
        ("a.jpg", b"hello", "not an image of a known format"),
        ("a.jpg", saved(NOISE, "JPEG")[:700], "truncated"),
        ("a.png", saved(NOISE, "PNG")[:700], "truncated"),
        ("a.heic", b"....ftypheic", "convert it to JPEG"),
        ("a.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image of a known format"),
        ("a.tif", saved(Image.fromarray(np.full((4, 4), 9, np.int32)), "TIFF"), "32-bit integers"),
        ("a.tif", saved(Image.fromarray(np.full((4, 4), 9, np.float32)), "TIFF"), r"outside \[0, 1\]"),
        ("a.tif", saved(Image.fromarray(np.full((4, 4), np.nan, np.float32)), "TIFF"), r"outside \[0, 1\]"),
    ],
)
def test_unreadable_files_say_why(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableImageError, match=reason) as caught:
        decode_image(tmp_path / name, size=8, channels=3)
    assert caught.value.path == tmp_path / name
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason


def test_missing_and_forbidden_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImageError, match="No such file"):
        decode_image(tmp_path / "a.png", size=8, channels=3)
    (tmp_path / "b.png").mkdir()
    with pytest.raises(UnreadableImageError):
        decode_image(tmp_path / "b.png", size=8, channels=3)


@given(form=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]), data=st.data())
def test_damaged_files_give_pixels_or_the_one_error(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    content = bytearray(saved(NOISE, form))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"damaged.{form.lower()}"
    path.write_bytes(bytes(content))
    with suppress(UnreadableImageError):
        assert decode_image(path, size=8, channels=3).shape == (3, 8, 8)


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    NOISE.save(tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"1 .*3"):
        decode_image(tmp_path / "a.png", size=8, channels=2)
    with pytest.raises(ConfigError, match=r"interpolation.*nearest.*'cubic'"):
        decode_image(tmp_path / "a.png", size=8, channels=3, interpolation="cubic")


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def names(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in list_images(root)]


def test_listing_any_depth_sorted_and_without_the_rest(tmp_path: Path) -> None:
    make(tmp_path, "b/2.PNG", "b/10.jpeg", "a.jpg", "b/c/d/e.webp", "b-1/x.gif", "photo.HEIC")
    make(tmp_path, "notes.txt", "a.jpg.bak", ".x.png", "._y.png", ".thumbs/z.png", "__MACOSX/z.png", "png", "model.pth")
    assert names(tmp_path) == ["a.jpg", "b/10.jpeg", "b/2.PNG", "b/c/d/e.webp", "b-1/x.gif", "photo.HEIC"]


def test_listing_follows_links_once(tmp_path: Path) -> None:
    make(tmp_path, "real/a.png", "elsewhere/b.png")
    root = tmp_path / "real"
    os.symlink(root, root / "loop")
    os.symlink(tmp_path / "elsewhere", root / "link")
    assert names(root) == ["a.png", "link/b.png"]


def test_listing_what_is_no_folder(tmp_path: Path) -> None:
    make(tmp_path, "a.png")
    with pytest.raises(DataError):
        list_images(tmp_path / "a.png")
    with pytest.raises(DataError):
        list_images(tmp_path / "b")
    (tmp_path / "empty").mkdir()
    assert list_images(tmp_path / "empty") == []


def test_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(top: Path, onerror: Callable[[OSError], None], **_: object) -> list[object]:
        onerror(PermissionError(13, "Permission denied", str(top)))
        return []

    monkeypatch.setattr("residapt.data.image_files.os.walk", walk)
    with pytest.raises(DataError, match="Permission denied"):
        list_images(tmp_path)
