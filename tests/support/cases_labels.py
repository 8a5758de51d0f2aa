"""Bad labels of target images."""

from __future__ import annotations

from pathlib import Path

from support.bad_case import ADAPT, Case, Make, write
from support.small_world import draw

LABELS = ADAPT + " --target-labels {bad}/few.csv"
FOLDERS = ADAPT + " --target-labels {bad}/few"
OWN = ADAPT + " -t {bad}/t --target-labels {bad}/few.csv"


def _file(content: str | bytes) -> Make:
    return write("few.csv", content)


def _own_target(content: str, broken: str = "", copy: bool = False) -> Make:
    """A target of its own, with a label file for it."""

    def make(bad: Path, good: Path) -> None:
        for number in range(4):
            draw(bad / "t" / f"{number}.png", 0 if copy else number)
        if broken:
            (bad / "t" / broken).write_bytes(b"no picture")
        _file(content)(bad, good)

    return make


def _outside(bad: Path, good: Path) -> None:
    draw(bad / "x.png", 1)
    _file("0.png,cat\nx.png,dog\n")(bad, good)


def _class_folders(*names: str, same: bool = False) -> Make:
    def make(bad: Path, good: Path) -> None:
        (bad / "few").mkdir()
        for number, name in enumerate(names):
            draw(bad / "few" / name, 0 if same else number)

    return make


LABEL_FILES = (
    Case("columns exchanged", LABELS, "DataError", ("{bad}/few.csv", "'class,path'"), _file("class,path\ncat,0.png\n")),
    Case("labels missing", LABELS, "DataError", ("few.csv",)),
    Case("labels empty", LABELS, "DataError", ("{bad}/few.csv",), _file("")),
    Case("labels with a header alone", LABELS, "DataError", ("{bad}/few.csv",), _file("path,class\n")),
    Case("labels not UTF-8", LABELS, "DataError", ("2", "8"), _file(b"0.png,cat\n1.png,d\xf6g\n")),
    Case("labels that are a picture", LABELS, "DataError", ("1", "8"), _file(b"\x89PNG\r\n\x1a\n")),
    Case("labels with an open quote", LABELS, "DataError", ("2",), _file('0.png,cat\n"1.png,dog\n')),
    Case("labels with one column", LABELS, "DataError", ("2", "1", "2"), _file("0.png,cat\n1.png\n")),
    Case("labels with three columns", LABELS, "DataError", ("1", "3", "2"), _file("0.png,cat,0.9\n")),
    Case("labels with semicolons", LABELS, "DataError", ("1", "1", "2"), _file("0.png;cat\n")),
    Case("labels without a class", LABELS, "DataError", ("1",), _file("0.png,\n")),
    Case("labels of an unknown class", LABELS, "DataError", ("'dgo'", "3"), _file("path,class\n0.png,cat\n1.png,dgo")),
    Case("labels in another case", LABELS, "DataError", ("'cat'",), _file("0.png,CAT\n")),
    Case("labels of a missing image", LABELS, "DataError", ("'9.png'", "2"), _file("0.png,cat\n9.png,dog\n")),
    Case(
        "labels that contradict",
        LABELS,
        "DataError",
        ("'0.png'", "'dog'", "3"),
        _file("0.png,cat\n1.png,dog\n0.png,dog\n"),
    ),
    Case("labels of an image outside", LABELS, "DataError", ("'x.png'", "2"), _outside),
    Case("labels of a file that is no image", LABELS, "DataError", ("'few.csv'", "1"), _file("few.csv,cat\n")),
    Case("labels of a broken image", OWN, "DataError", ("2",), _own_target("0.png,cat\n1.png,dog\n", broken="1.png")),
    Case(
        "labels of a copy that contradict",
        OWN,
        "DataError",
        ("{bad}/few.csv",),
        _own_target("0.png,cat\n1.png,dog\n", copy=True),
    ),
    Case("label folder with an unknown class", FOLDERS, "DataError", ("{bad}/few/yak",), _class_folders("yak/1.png")),
    Case("label folder without images", FOLDERS, "DataError", ("{bad}/few",), _class_folders()),
    Case(
        "label folder that contradicts",
        FOLDERS,
        "DataError",
        ("'dog'",),
        _class_folders("cat/1.png", "dog/2.png", same=True),
    ),
    Case(
        "labels that are all scored",
        FOLDERS + " --evaluate {bad}/few",
        "DataError",
        ("1",),
        _class_folders("cat/1.png"),
    ),
    Case("labelled batch of nothing", ADAPT + " --set train.few_batch=0", "ConfigError", ("train.few_batch = 0",)),
    Case("label weight negative", ADAPT + " --set few_weight=-1", "ConfigError", ("1",)),
    Case("unknown balance", ADAPT + " --set data.balance=fair", "ConfigError", ("'fair'", "data.balance")),
    Case("fine-tuning without labels", ADAPT + " --method fine_tune", "ConfigError", ("--target-labels",)),
    Case("pooling without labels", ADAPT + " --method pooled", "ConfigError", ("--target-labels",)),
    Case("unknown positive class", ADAPT + " --positive catt", "ConfigError", ("'cat'",)),
    Case("unknown positive class to score", "eval {good}/run {good}/scored --positive catt", "ConfigError", ("'cat'",)),
)
