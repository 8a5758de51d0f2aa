"""Bad folders, images, labels and outputs."""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path

from support.bad_case import ADAPT, Case, Make, write
from support.small_world import CLASSES, draw

SOURCE, TARGET = ADAPT + " -s {bad}/data", ADAPT + " -t {bad}/data"
SCORED = ADAPT + " --evaluate {bad}/data"


def _images(*names: str) -> Make:
    """Readable images of these names in the folder ``data``."""

    def make(bad: Path, good: Path) -> None:
        (bad / "data").mkdir()
        for number, name in enumerate(names):
            draw(bad / "data" / name, number)

    return make


def _empty_class(bad: Path, good: Path) -> None:
    shutil.copytree(good / "source", bad / "data")
    (bad / "data" / "yak").mkdir()


def _broken(bad: Path, good: Path) -> None:
    for number in range(3):
        write(f"data/{number}.png", b"\x89PNG no picture")(bad, good)


def _broken_classes(bad: Path, good: Path) -> None:
    for name in ("cat/1", "cat/2", "dog/1", "dog/2"):
        write(f"data/{name}.png", "no picture")(bad, good)


def _bomb(bad: Path, good: Path) -> None:
    """A PNG of a few bytes that claims 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    write("data/bomb.png", png)(bad, good)


def _link_to_nothing(bad: Path, good: Path) -> None:
    (bad / "data").mkdir()
    (bad / "data" / "x.png").symlink_to(bad / "nowhere.png")


SPLITS = tuple(f"{part}/{name}/{n}.png" for part in ("train", "test") for name in CLASSES for n in range(2))

FOLDERS = (
    Case("source missing", SOURCE, "DataError", ("{bad}/data",)),
    Case("source a file", SOURCE, "DataError", ("{bad}/data",), write("data", "")),
    Case("source empty", SOURCE, "DataError", ("{bad}/data",), _images()),
    Case("source without class folders", SOURCE, "DataError", ("{bad}/data", "2"), _images("a.png", "b.png")),
    Case("source of one class", SOURCE, "DataError", ("'cat'", "1"), _images("cat/1.png", "cat/2.png")),
    Case("source with an empty class", SOURCE, "DataError", ("{bad}/data/yak",), _empty_class),
    Case("source of a single image each", SOURCE, "DataError", ("source",), _images("cat/1.png", "dog/1.png")),
    Case("classes that differ in case", SOURCE, "DataError", ("{bad}/data",), _images("cat/1.png", "Cat/2.png")),
    Case("source split in parts", SOURCE, "DataError", ("{bad}/data",), _images(*SPLITS)),
    Case("source of broken images", SOURCE, "DataError", ("{bad}/data/", "4 of 4"), _broken_classes),
    Case("target missing", TARGET, "DataError", ("{bad}/data",)),
    Case("target a file", TARGET, "DataError", ("{bad}/data",), write("data", "")),
    Case("target without images", TARGET, "DataError", ("{bad}/data",), write("data/notes.txt", "no picture")),
    Case("target of broken images", TARGET, "DataError", ("{bad}/data/", "3 of 3"), _broken),
    Case("target of empty files", TARGET, "DataError", ("{bad}/data/1.jpg",), write("data/1.jpg", b"")),
    Case("target with a decompression bomb", TARGET, "DataError", ("{bad}/data/bomb.png",), _bomb),
    Case("target with a link to nothing", TARGET, "DataError", ("{bad}/data/x.png",), _link_to_nothing),
    Case("scored folder missing", SCORED, "DataError", ("{bad}/data",)),
    Case("scored folder with an unknown class", SCORED, "DataError", ("{bad}/data/yak",), _images("yak/1.png")),
    Case("scored folder with another case", SCORED, "DataError", ("'cat'",), _images("CAT/1.png")),
    Case("scored folder without classes", SCORED, "DataError", ("{bad}/data",), _images("1.png")),
    Case("predicted folder missing", "predict {good}/run {bad}/none", "DataError", ("{bad}/none",)),
    Case("predicted folder without images", "predict {good}/run {bad}/data", "DataError", ("{bad}/data",), _images()),
    Case(
        "predicted images broken",
        "predict {good}/run {bad}/data -o {bad}/p.csv",
        "DataError",
        ("'0.png'", "3"),
        _broken,
    ),
    Case("evaluated folder missing", "eval {good}/run {bad}/none", "DataError", ("{bad}/none",)),
    Case(
        "evaluated label unknown", "eval {good}/run {bad}/data", "DataError", ("{bad}/data/yak",), _images("yak/1.png")
    ),
    Case(
        "evaluated images broken",
        "eval {good}/run {bad}/data",
        "DataError",
        ("{bad}/data",),
        write("data/cat/1.png", "no"),
    ),
)

OUTPUTS = (
    Case("output a full folder", ADAPT + " -o {good}/scored", "ConfigError", ("{good}/scored",)),
    Case("output a file", ADAPT + " -o {bad}/file", "ConfigError", ("{bad}/file",), write("file", "")),
    Case("output below a file", ADAPT + " -o {bad}/file/run", "ConfigError", ("{bad}/file/run",), write("file", "")),
    Case(
        "predictions there already",
        "predict {good}/run {good}/target -o {bad}/p.csv",
        "ConfigError",
        ("{bad}/p.csv",),
        write("p.csv", ""),
    ),
    Case("predictions into a folder", "predict {good}/run {good}/target -o {bad}", "ConfigError", ("{bad}",)),
    Case(
        "predictions below a file",
        "predict {good}/run {good}/target -o {bad}/f/p.csv",
        "ConfigError",
        ("{bad}/f/p.csv",),
        write("f", ""),
    ),
    Case(
        "scores there already", "eval {good}/run {good}/scored -o {bad}/s", "ConfigError", ("{bad}/s",), write("s", "")
    ),
    Case(
        "export there already",
        "export {good}/run -f safetensors -o {bad}/m.safetensors",
        "ConfigError",
        ("{bad}/m.safetensors",),
        write("m.safetensors", ""),
    ),
)
