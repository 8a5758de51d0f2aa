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
    Case("labels missing", LABELS, "few.csv' does not exist"),
    Case("labels empty", LABELS, "names no image", _file("")),
    Case("labels with a header alone", LABELS, "names no image", _file("path,class\n")),
    Case("labels not UTF-8", LABELS, "line 2 is not UTF-8", _file(b"0.png,cat\n1.png,d\xf6g\n")),
    Case("labels that are a picture", LABELS, "line 1 is not UTF-8", _file(b"\x89PNG\r\n\x1a\n")),
    Case("labels with an open quote", LABELS, "line 2 is not CSV", _file('0.png,cat\n"1.png,dog\n')),
    Case("labels with one column", LABELS, "line 2: 1 column instead of 2", _file("0.png,cat\n1.png\n")),
    Case("labels with three columns", LABELS, "line 1: 3 columns instead of 2", _file("0.png,cat,0.9\n")),
    Case("labels with semicolons", LABELS, "line 1: 1 column instead of 2", _file("0.png;cat\n")),
    Case("labels without a class", LABELS, "line 1: the class is empty", _file("0.png,\n")),
    Case(
        "labels of an unknown class", LABELS, "line 3: 'dgo' is not a class", _file("path,class\n0.png,cat\n1.png,dgo")
    ),
    Case("labels in another case", LABELS, "Did you mean 'cat'?", _file("0.png,CAT\n")),
    Case("labels of a missing image", LABELS, "line 2: image '9.png' is not in the", _file("0.png,cat\n9.png,dog\n")),
    Case("labels that contradict", LABELS, "line 3: '0.png' is 'dog' here", _file("0.png,cat\n1.png,dog\n0.png,dog\n")),
    Case("labels of an image outside", LABELS, "line 2: image 'x.png' lies outside", _outside),
    Case("labels of a file that is no image", LABELS, "line 1: 'few.csv' is not an image", _file("few.csv,cat\n")),
    Case("labels of a broken image", OWN, "line 2: image", _own_target("0.png,cat\n1.png,dog\n", broken="1.png")),
    Case(
        "labels of a copy that contradict", OWN, "same image with two", _own_target("0.png,cat\n1.png,dog\n", copy=True)
    ),
    Case("label folder with an unknown class", FOLDERS, "not a class of the source", _class_folders("yak/1.png")),
    Case("label folder without images", FOLDERS, "no images in class folders", _class_folders()),
    Case("label folder that contradicts", FOLDERS, "two classes", _class_folders("cat/1.png", "dog/2.png", same=True)),
    Case("labels that are all scored", FOLDERS + " --evaluate {bad}/few", "all 1 images", _class_folders("cat/1.png")),
    Case("labelled batch of nothing", ADAPT + " --set train.few_batch=0", "train.few_batch = 0 cannot be used"),
    Case("label weight negative", ADAPT + " --set few_weight=-1", "few_weight = -1 cannot be used"),
    Case("unknown balance", ADAPT + " --set data.balance=fair", "data.balance = 'fair' cannot be used"),
    Case("fine-tuning without labels", ADAPT + " --method fine_tune", "Give some with --target-labels"),
    Case("pooling without labels", ADAPT + " --method pooled", "Give some with --target-labels"),
    Case("unknown positive class", ADAPT + " --positive catt", "Did you mean 'cat'?"),
    Case("unknown positive class to score", "eval {good}/run {good}/scored --positive catt", "Did you mean 'cat'?"),
)
