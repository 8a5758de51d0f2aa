"""Which defects of first contact a version of residapt has: the same questions to any version, one table out.

    git worktree add --detach OLD b38e5e3
    python tests/catalogue/reproduce_first_contact.py OLD/src src

Each version is used as a user does, by its command line and its public names, in processes of its own. The images are
scikit-learn's handwritten digits; nothing is downloaded. A version takes a few minutes of one processor.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

RUINOUS = ("--set", "train.network.lr=0.05", "--set", "train.transform.lr=0.05")
"""Learning rates so large that the guard turns the adapted network down."""
PARTS = {"source": 300, "target": 400, "scored": 480, "many": 1400}
"""Folders, and the image that each ends before; ``many`` are more than any version looks at while it trains."""
TEN_LINES = """
import copy, json, torch, residapt
from torch import nn
torch.manual_seed(0)
body = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
net = nn.Sequential(*body, nn.Linear(128, 10))
x, y = torch.randn(80, 1, 12, 12), torch.arange(80) % 10
x += 2 * torch.randn(10, 1, 12, 12)[y]
given = dict(source=(x, y), target=2 * x + 1, train_source_first=False, steps=3, force=True)
run = residapt.adapt(net, **given)
merged = run.merge_and_unload()
"""
"""The first half of README's example."""


@dataclass
class Done:
    """A process that has ended."""

    code: int
    text: str
    seconds: float
    """Of the processor."""


@dataclass
class Library:
    """A version of residapt, and a folder to work in."""

    source: Path
    place: Path

    @property
    def environment(self) -> dict[str, str]:
        """No internet, one thread, this version."""
        mine = {"PYTHONPATH": str(self.source), "OMP_NUM_THREADS": "1", "TERM": "xterm"}
        return {**os.environ, **mine, "HF_HUB_OFFLINE": "1", "HF_HOME": str(self.place), "TORCH_HOME": str(self.place)}

    def process(self, *arguments: str, room: int | None = None, columns: int = 80) -> Done:
        """Run Python in the folder; ``room`` is the number of bytes after which a file ends, as on a full disk."""

        def bound() -> None:
            if room is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *arguments],
            **{
                "cwd": self.place,
                "env": {**self.environment, "COLUMNS": str(columns)},
                "preexec_fn": bound,
                "timeout": 900,
                "check": False,
            },
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Done(done.returncode, re.sub(r"\s+", " ", done.stdout), seconds)

    def command(self, *arguments: str, room: int | None = None, columns: int = 80) -> Done:
        """``residapt ...``."""
        return self.process("-m", "residapt", *arguments, room=room, columns=columns)

    def python(self, code: str) -> Done:
        """A script."""
        return self.process("-c", code)

    @cached_property
    def source_group(self) -> str:
        """What the settings of the source network's training are called."""
        return "pretrain" if "pretrain.steps" in self.command("config").text else "source"

    def adapt(self, out: str, *more: str, steps: int = 30, source_steps: int = 60) -> Done:
        """A run on the digits; at chance only where that is asked for."""
        steps_of_both = ("--set", f"{self.source_group}.steps={source_steps}", "--steps", str(steps))
        given = ("-s", "source", "-t", "target", "-o", out, "--device", "cpu", *steps_of_both)
        return self.command("adapt", *given, *more)

    @cached_property
    def refused(self) -> tuple[Path, Done]:
        """A run whose network the guard turned down; kept as it is, look at copies only."""
        done = self.adapt("refused", "--evaluate", "scored", "--set", "train.checkpoint_every=10", *RUINOUS)
        assert done.code == 0, done.text
        return self.place / "refused", done

    def copy(self, name: str) -> Path:
        """A copy of that run."""
        return Path(shutil.copytree(self.refused[0], self.place / name))


def write_digits(root: Path) -> None:
    """Labelled ``source`` and ``scored``, unlabelled ``target`` and ``many``; all but the source dark on bright."""
    digits = load_digits()
    rows = []
    for number in range(1400):
        pixels = (digits.images[number] * 15.9).astype(np.uint8)
        part = next(part for part, end in PARTS.items() if number < end)
        folder = root / part / ("roll" if part in ("target", "many") else f"digit {digits.target[number]}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number}.png"
        Image.fromarray(pixels if part == "source" else 255 - pixels // 2).resize((28, 28)).save(path)
        if part == "source":
            rows.append(f"{path.relative_to(root)},digit {digits.target[number]}")
    (root / "source.csv").write_text("path,class\n" + "\n".join(rows) + "\n")
    (root / "turned.csv").write_text("class,path\ndigit 0,roll/300.png\n")
    (root / "typo.toml").write_text("sed = 1\n")
    (root / "empty").mkdir()


Seen = dict[str, bool]
"""What a user trips over, and whether it is there."""


def refusal(library: Library) -> Seen:
    run, done = library.refused
    last = json.loads((run / "summary.json").read_text())
    before = (run / "model.safetensors").read_bytes()
    accept = library.command("accept", str(library.copy("to-accept")))
    forced = library.copy("forced")
    force = library.command("adapt", "--resume", str(forced), "--force")
    select = library.command("adapt", "--resume", str(library.copy("selected")), "--select", "infomax")
    reasons = last["verdict"]["reasons"]
    return {
        "a refused network cannot be accepted": accept.code != 0,
        "`--resume --force` does nothing and exits 0": force.code == 0
        and (forced / "model.safetensors").read_bytes() == before,
        "`--resume --select` does nothing and exits 0": select.code == 0
        and json.loads((library.place / "selected" / "summary.json").read_text()) == last,
        "reasons are not marked as for or against": not all(one.startswith(("for: ", "against: ")) for one in reasons),
        "the verdict comes before the accuracies of given labels": done.text.find("looks worse")
        < done.text.find("Accuracy on"),
        "nothing says how to use the refused network": f"{run.name}/rejected" not in done.text,
    }


def ten_lines(library: Library) -> Seen:
    done = library.python(
        TEN_LINES
        + """
run.save_pretrained("batch-norm")
loaded = residapt.load(run.source, "batch-norm")
print("DIFFERENCE", float((loaded(x[:7], stream="target") - merged(x[:7])).abs().max()), loaded.training)
"""
    )
    found = re.search(r"DIFFERENCE (\S+) (\w+)", done.text)
    assert found, done.text
    return {
        "loaded logits are not those of the merged network (1e-5)": not float(found[1]) <= 1e-5,
        "`load` gives training mode": found[2] == "True",
    }


def terminal(library: Library) -> Seen:
    """The last frame of the progress line while it adapts, in a terminal of 80 columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    steps = ("--steps", "60", "--set", f"{library.source_group}.steps=40", "--set", "train.log_every=1")
    environment = {name: value for name, value in library.environment.items() if name != "COLUMNS"}  # the terminal's
    command = [sys.executable, "-m", "residapt", "adapt", "-s", "source", "-t", "target", "-o", "narrow", *steps]
    with subprocess.Popen(
        [*command, "--device", "cpu"], cwd=library.place, env=environment, stdin=child, stdout=child, stderr=child
    ):
        os.close(child)
        parts = []
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # the other end is closed
                break
            parts.append(part)
            if not part:
                break
    os.close(parent)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode(errors="replace"))
    frames = [frame for frame in re.split(r"[\r\n]+", text) if "confusion" in frame or "/60" in frame]
    assert any("confusion" in frame for frame in frames), text[-2000:]
    return {"no step beside the losses at 80 columns": not any(re.search(r"\b[2-5]\d/60", one) for one in frames)}


def pretrained(library: Library) -> Seen:
    random = library.adapt("timm", "-m", "timm:resnet10t", "--image-size", "32", steps=1, source_steps=1)
    still = ("--set", f"{library.source_group}.lr=1e-9")
    chance = library.adapt("chance", *still, steps=1, source_steps=1)
    return {
        "`-m timm:NAME` offline trains from random weights": "--weights" not in random.text
        or "--weights none" not in random.text,
        "a source network at chance is adapted": chance.code == 0,
    }


def size(library: Library) -> Seen:
    run, done = library.refused
    adapter = max(run.rglob("adapter_model.safetensors"))
    ratio = adapter.stat().st_size / (run / "source.safetensors").stat().st_size
    told = re.findall(r"[Aa]dapter[^.]{0,20}[\d.]+ MB", done.text)
    return {
        "an adapter of the network's size, not told before and after": ratio > 0.9 and len(told) < 2,
        "the way to a small one is not told": "--freeze base" not in done.text,
        "a finished run keeps checkpoints": any(run.rglob("step-*")),
    }


def saving(library: Library) -> Seen:
    done = library.python(
        TEN_LINES.replace("force=True", "**{'train.network.lr': 0.5, 'train.transform.lr': 0.5}").replace(
            "steps=3", "steps=30"
        )
        + """
assert run.summary.verdict.helped is not True, "the guard has to refuse"
run.save_pretrained("saved")
loaded = residapt.load(run.source, "saved").eval()
print("APART", float((loaded(x[:7], stream="target") - merged(x[:7])).abs().max()))
run.save_pretrained("saved")
print("AGAIN")
"""
    )
    found = re.search(r"APART (\S+)", done.text)
    assert found, done.text
    return {
        "`save_pretrained` and `merge_and_unload` give two networks": not float(found[1]) <= 1e-4,
        "`save_pretrained` overwrites without a word": "AGAIN" in done.text,
    }


def names(library: Library) -> Seen:
    def missing(name: str) -> bool:
        return library.python(f"import residapt; residapt.{name}").code != 0

    return {f"`residapt.{name}` fails": missing(name) for name in ("losses", "rank", "frozen")}


def hints(library: Library) -> Seen:
    given = ("adapt", "-s", "source", "-t", "target", "-o", "new", "--device", "cpu")
    turned = library.command(*given, "--target-labels", "turned.csv")
    typo = library.command(*given, "--config", "typo.toml")
    folder = library.command("adapt", "-s", "source", "-t", "target", "-o", "empty-too", "-o", "source")
    library.python("import torch; torch.save(torch.nn.Linear(2, 2), 'whole.pth')")
    broken = library.command(*given, "--weights", "whole.pth")
    decide = library.python(
        TEN_LINES.replace("train_source_first=False, ", "").replace(
            "force=True", f"**{{'{library.source_group}.steps': 40}}"
        )
        + "print(run.summary.notes)"
    )
    return {
        "a hint names an argument `train_source`": bool(re.search(r"[Ss]et train_source\b", decide.text)),
        "`class,path` is read as an image 'class'": "'class' is not in" in turned.text,
        "a typo in a TOML file does not name the file": "typo.toml" not in typo.text,
        "a folder that is no run is to be resumed": "--resume" in folder.text,
        "torch's advice about a `.pth` with a whole model is passed on": "Weights only load failed" in broken.text,
    }


def raw(library: Library) -> Seen:
    start = """
import torch, residapt
from torch import nn
from residapt.errors import ResidaptError
torch.manual_seed(0)
x, y = torch.randn(80, 6), torch.arange(80) % 2
x[:, 0] += 4 * y
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
def attempt(*args, **more):
    try:
        run = residapt.adapt(*args, train_source_first=False, steps=2, **more)
    except ResidaptError as error:
        print("REFUSED", error)
    except Exception as error:
        print("RAW", type(error), error)
    else:
        print("DONE", run.summary.model, run.summary.notes)
"""
    vectors = library.python(start + "attempt(net, source=(x, y), target=x + .5, recipe='plus')")
    pixels = "x = torch.rand(80, 3, 12, 12); y = torch.arange(80) % 2\n"
    network = "net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(400, 2))\n"
    channels = library.python(start + pixels + network + "attempt(net, source=(x, y), target=x[:, :1])")
    grey = "x = torch.rand(80, 1, 28, 28); y = torch.arange(80) % 2\n"
    state = library.python(start + grey + "attempt(net.state_dict(), source=(x, y), target=x)")
    same = library.python(start + "attempt(net, source=(x, y), target=x)")
    single = library.python(start + "y[y == 1] = 0; y[3] = 1; attempt(net, source=(x, y), target=x + .5)")
    full = library.command("export", str(library.refused[0]), "-f", "state-dict", room=20_000)
    return {
        "`--recipe plus` on vectors fails without naming the recipe": "DONE" not in vectors.text
        and "'plus'" not in vectors.text,
        "a full disk ends an export with a traceback": full.code != 2 or "Traceback" in full.text,
        "a target with other channels ends with RuntimeError": "RAW" in channels.text,
        "a state dict becomes a LeNet": "DONE lenet" in state.text,
        "target images that are the source's are not remarked upon": "80 of the 80" not in same.text,
        "a class with one image is not remarked upon": "single source image" not in single.text,
    }


def slow(library: Library) -> Seen:
    setting = library.command("adapt", "-s", "source", "-t", "target", "-o", "new", "--set", "rank.wieght=1")
    folder = library.command("adapt", "-s", "gone", "-t", "target", "-o", "new")
    assert setting.code == folder.code == 2
    return {
        "a mistyped `--set` takes more than 1 s of processor time": setting.seconds > 1,
        "a missing folder takes more than 1 s of processor time": folder.seconds > 1,
    }


def report(library: Library) -> Seen:
    done = library.adapt("reported", "--recipe", "paper", "--set", "train.evaluate_every=10", "-t", "many", steps=21)
    assert done.code == 0, done.text
    run = library.place / "reported"
    page = re.sub(r"<script.*?</script>", "", (run / "report.html").read_text(), flags=re.DOTALL)
    header = re.sub(r"<[^>]+>", " ", page[: page.index("</header>") if "</header>" in page else 6000])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    looks = [line["step"] for line in lines if line["kind"] == "scores" and line["stage"] == "adapt"]
    table = json.loads((run / "summary.json").read_text())["scores"]
    last = [line["values"] for line in lines if line["kind"] == "scores" and line["stage"] == "adapt"][-1]
    off = [name for name in ("bnm", "snd") if abs(last[name] / table[name][1] - 1) > 0.2]
    return {
        "BNM or SND are on two scales in table and chart": bool(off),
        "curves begin after step 0": min(looks) != 0,
        "the last two looks are a step apart": looks[-1] - looks[-2] == 1,
        "the recipe is missing in the header": "recipe" not in header.lower(),
    }


def settings(library: Library) -> Seen:
    shown = library.command("config")
    matrix = library.command("eval", str(library.refused[0]), "scored", "--device", "cpu", columns=200)
    head = matrix.text.split("true class", 1)[1].split("│", 1)[0]
    text = library.python(
        TEN_LINES
        + "import inspect; print(repr(run)); print('WITH', list(inspect.signature(residapt.adapt).parameters))"
        "; print('ABOUT', 'console' in (residapt.adapt.__doc__ or ''))"
    ).text
    return {
        "`config rank` is refused": library.command("config", "rank").code != 0,
        "`config` cuts at 80 columns": "…" in shown.text,
        "`-h` is refused": library.command("-h").code != 0,
        "`repr` of a run says nothing": "object at 0x" in text,
        "`adapt` takes no callbacks": "'callbacks'" not in text,
        "`console` is not documented": "ABOUT True" not in text,
        "the confusion matrix has no names": "digit 9" not in head,
    }


def expected(library: Library) -> Seen:
    run = str(library.refused[0])
    one_step = ("--steps", "1", "--set", f"{library.source_group}.steps=40")
    listed = library.command("adapt", "-s", "source.csv", "-t", "target", "-o", "listed", *one_step)
    page = (library.refused[0] / "report.html").read_text()
    summary = json.loads((library.refused[0] / "summary.json").read_text())
    return {
        "no `compare`": library.command("compare", run, run).code != 0,
        "no `--dry-run`": library.adapt("dry", "--dry-run").code != 0,
        "no source as a list": listed.code != 0,
        "no `suggest`": library.command("suggest", run, "-n", "5", "-o", "few.csv").code != 0,
        "no calibration in the report": "alibration" not in page,
        "images that look like no class are not counted": "unusual_count" not in summary,
    }


NUMBERED: Sequence[Callable[[Library], Seen]] = (
    *(refusal, ten_lines, terminal, pretrained, size, saving, names, hints, raw, slow, report, settings, expected),
)


def main() -> None:
    """A table: a row for each question, a column for each version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SRC", help="folder with the package residapt")
    parser.add_argument("--only", type=int, nargs="+", default=range(1, 1 + len(NUMBERED)), help="numbers to ask")
    given = parser.parse_args()
    rows: dict[tuple[int, str], list[str]] = {}
    for source in given.sources:
        with tempfile.TemporaryDirectory() as place:
            write_digits(Path(place))
            library = Library(source.resolve(), Path(place))
            for number in given.only:
                for what, seen in NUMBERED[number - 1](library).items():
                    rows.setdefault((number, what), []).append("yes" if seen else "no")
                print(f"{source}: {number} done", file=sys.stderr, flush=True)
    print(
        "| | what is seen | " + " | ".join(map(str, given.sources)) + " |\n" + "|---" * (2 + len(given.sources)) + "|"
    )
    for (number, what), answers in rows.items():
        print(f"| {number} | {what} | " + " | ".join(answers) + " |")


if __name__ == "__main__":
    main()
