"""Every command of README and guide runs as it is written there, with fewer steps, on folders as a reader has them."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
import typer
from PIL import Image

import residapt
from residapt.cli.app import app
from residapt.cli.commands import register
from residapt.config import describe_config, load_config, read_toml
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.methods import MethodConfig
from residapt.models import LeNet
from residapt.train import Callback, TrainConfig
from support.cli import invoke

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {page.name: page for page in (ROOT / "README.md", DOCS / "index.md", *sorted((DOCS / "guide").glob("*.md")))}
QUICK = "--set pretrain.steps=8 --set pretrain.allow_chance=true --steps 3 --device cpu"
ELSEWHERE = {
    "residapt --install-completion": "tests/cli/test_machines.py: the script that it installs",
    "--jobs 4": "tests/tune",
    "--engine ray": "tests/parallel",
}
"""Commands that other tests run: these are only parsed here."""


def blocks(page: Path, language: str = "[a-z]*") -> list[str]:
    """The blocks of code of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```(?:{language})\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def lines(page: Path, language: str) -> list[str]:
    """Lines of code without their remarks; those that end with a backslash are joined."""
    found = (line for block in blocks(page, language) for line in block.replace("\\\n", " ").splitlines())
    plain = (re.sub(r"\s+#.*", "", line).strip() for line in found)
    return [" ".join(line.split()) for line in plain]


def commands(page: Path) -> list[str]:
    """The commands of residapt in a page's blocks."""
    return [line for line in lines(page, "|sh") if line.startswith("residapt ")]


def mentioned(page: Path) -> list[str]:
    """The commands of residapt inside a page's sentences."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(found.split()) for found in re.findall(r"`(residapt [^`]+)`", text)]


ALL = [
    pytest.param(page, command, id=f"{page.name}: {command}")
    for page in PAGES.values()
    for command in dict.fromkeys([*commands(page), *mentioned(page)])
]


@pytest.mark.parametrize("name", PAGES)
def test_no_command_is_written_where_nobody_looks(name: str) -> None:
    """Blocks are of a kind that is run or named here, and what is not of residapt is known to exist."""
    text = PAGES[name].read_text(encoding="utf-8")
    assert set(re.findall(r"^ *```(\w*)", text, flags=re.MULTILINE)) <= {"", "sh", "python"}
    assert not re.findall(r"^ +```", text, flags=re.MULTILINE)
    shell = [line.split() for line in lines(PAGES[name], "sh") if line]
    assert {words[0] for words in shell} <= {"residapt", "pip", "uv"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"[`^]make (?:VENV=\S+ )?([a-z-]+)", text)) <= targets
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    assert set(re.findall(r"'residapt\[(\w+)\]'", text)) <= set(extras)


@pytest.mark.parametrize("name", PAGES)
def test_settings_are_called_so(name: str) -> None:
    known = {key for key, _, _ in describe_config(load_config())}
    groups = {key.partition(".")[0] for key in known if "." in key}
    text = PAGES[name].read_text(encoding="utf-8")
    given = set(re.findall(r"--(?:set|search) ([\w.]+)=", text))
    written = {word for word in re.findall(r"`([a-z_]+\.[a-z_.]+)\b", text) if word.partition(".")[0] in groups}
    assert (given | written) - {"model.safetensors"} <= known


@pytest.mark.parametrize(("page", "command"), ALL)
def test_every_option_is_there(page: Path, command: str) -> None:
    register()
    words = shlex.split(command)[1:]
    if words[0].startswith("-"):
        return
    group = typer.main.get_command(app)
    if words[0] == "bench":
        pytest.importorskip("residapt_bench", reason="needs the laboratory")
    found = group.commands[words[0]]  # type: ignore[attr-defined]
    context = found.make_context(words[0], [], resilient_parsing=True)
    context.resilient_parsing = False  # from here on unknown options are errors
    found.make_parser(context).parse_args(words[1:])


@pytest.fixture(scope="module")
def desk(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the pages name."""
    place = tmp_path_factory.mktemp("desk")
    for name, kind in {"photos": "printed", "new_site": "written", "labelled": "scored", "images": "scored"}.items():
        shutil.copytree(digits / kind, place / name)
    copies = {"printed": "printed", "handwritten": "written", "held-out": "scored"}
    for name, kind in copies.items():
        shutil.copytree(digits / kind, place / "run-demo-images" / name)
    first = sorted((place / "new_site").rglob("*.png"))
    rows = [f"{file.relative_to(place / 'new_site')},digit {number % 10}" for number, file in enumerate(first[:10])]
    (place / "few.csv").write_text("\n".join(["path,class", *rows]) + "\n", encoding="utf-8")
    Image.open(first[0]).convert("RGB").save(place / "photo.jpg")
    out = ["-o", str(place / "run-1"), *QUICK.split(), "--force"]
    code, text = invoke("adapt", "-s", str(place / "photos"), "-t", str(place / "new_site"), *out)
    assert code == 0, text
    return place


@pytest.fixture
def there(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, a copy for each page, with the finished runs that a page takes for granted."""
    place = tmp_path / "desk"
    shutil.copytree(desk, place)
    monkeypatch.chdir(place)
    for name in ("run", "run-2", "run-3", "run-demo"):
        shutil.rmtree(place / name, ignore_errors=True)
        shutil.copytree("run-1", name)
    return place


def shortened(command: str) -> list[str]:
    """The words of a command that takes seconds; its outputs are removed, as a reader has none of them."""
    words = shlex.split(command)[1:]
    if "-o" in words:
        out = Path(words[words.index("-o") + 1])
        shutil.rmtree(out, ignore_errors=True) if out.is_dir() else out.unlink(missing_ok=True)
    if "drone" in words:
        words[words.index("drone")] = "digit 3"
    if words[0] == "adapt" and "--resume" not in words:
        words += QUICK.split()
        named = [place for place, word in enumerate(words) if word.startswith("timm:")]
        for place in named:
            timm = pytest.importorskip("timm")
            assert timm.is_model(words[place].removeprefix("timm:"))
            words[place] = "timm:test_resnet"  # a small one in place of a large one
            words += ["--weights", "none", "--image-size", "32"]
    if words[0] == "tune":
        if "--trials" in words:
            words[words.index("--trials") + 1] = "1" if "-o" in words else "2"
        if "-o" in words:
            words += QUICK.removesuffix(" --device cpu").split()
    return words


def write_classes(suggested: Path) -> None:
    """What the reader does with the list of images to label."""
    head, *rows = suggested.read_text(encoding="utf-8").splitlines()
    labelled = [f"{row.split(',')[0]},digit {number % 10}" for number, row in enumerate(rows)]
    suggested.write_text("\n".join([head, *labelled]) + "\n", encoding="utf-8")


OF_THEIR_OWN = ("many-domains.md",)
"""Pages that a test of their own follows."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if commands(page) and name not in OF_THEIR_OWN])
def test_the_commands_of_a_page_run_in_their_order(name: str, there: Path) -> None:
    for command in commands(PAGES[name]):
        if command == "residapt demo":  # tests/test_demo.py
            continue
        if any(part in command for part in ELSEWHERE):
            continue
        words = shortened(command)
        if words[0] == "tune":
            pytest.importorskip("optuna")
        code, text = invoke(*words)
        assert code == 0, f"{command}\n{text}"
        if words[0] == "suggest":
            write_classes(Path("few.csv"))


@pytest.mark.slow
def test_the_ten_lines_of_the_readme(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(PAGES["README.md"], "python")
    adapt, pushed = residapt.adapt, []
    settings = {"steps": 2, "verbose": False, "pretrain.steps": 4, "pretrain.allow_chance": True, "device": "cpu"}
    monkeypatch.setattr(residapt, "adapt", lambda model, **given: adapt(model, **given, **settings), raising=False)
    monkeypatch.setattr(residapt.AdaptedRun, "push_to_hub", lambda self, name: pushed.append(name))
    shutil.rmtree("run")
    images, labels = torch.rand(60, 1, 28, 28), torch.arange(60) % 10
    data = torch.utils.data.TensorDataset(images, labels)
    names = {
        "model": LeNet(),
        "source_loader": torch.utils.data.DataLoader(data, batch_size=20),
        "target_loader": torch.utils.data.DataLoader(data, batch_size=20),
        "images": images,
    }
    exec(compile(code, "README.md", "exec"), names)
    assert names["logits"].shape == (60, 10)
    torch.testing.assert_close(names["net"](images), names["logits"])
    assert pushed == ["me/camera-7"]


@pytest.fixture
def small_names(there: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the code of the guide takes for granted, small; a run takes a few steps."""
    adapt = residapt.adapt
    quick = {"steps": 2, "verbose": False, "pretrain.steps": 4, "pretrain.allow_chance": True, "device": "cpu"}
    monkeypatch.setattr(residapt, "adapt", lambda model, **given: adapt(model, **given, **quick), raising=False)
    images, labels = torch.rand(60, 1, 28, 28), torch.arange(60) % 10
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=20)
    held_out, target = Labelled(TensorImages(images), labels), TensorImages(images)
    objects = {"images": images, "labels": labels, "unlabelled": images, "source_loader": loader}
    objects |= {"model": LeNet(), "network": LeNet(), "target_loader": loader, "held_out_source": held_out}
    objects |= {"target_images": target, "class_names": tuple("0123456789"), "pair": DomainPair(held_out, target)}
    return objects | {"method_config": MethodConfig(), "train_config": TrainConfig(steps=2), "printer": Callback()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapt.md", "deploy.md", "health.md", "report.md", "tune.md"])
def test_the_python_code_of_a_page_runs(name: str, small_names: dict[str, object]) -> None:
    found = blocks(PAGES[name], "python")
    written = {"adapt.md": "camera-7", "deploy.md": "camera-7.onnx", "report.md": "page.html", "tune.md": "study"}
    if name == "adapt.md":
        shutil.rmtree("run")
    if name == "deploy.md":
        pytest.importorskip("onnxruntime")
        found.reverse()  # the second block makes the file that the first one reads
    code = "\n".join(found)
    if name == "tune.md":
        pytest.importorskip("optuna")
        few = '"train.steps=2", "pretrain.steps=4", "pretrain.allow_chance=true", "device=cpu"'
        code, changed = re.subn(r'"train\.steps=\d+"(.*?)trials=\d+', rf"{few}\1trials=1", code, flags=re.DOTALL)
        assert changed == 1
    names = dict(small_names)
    exec(compile(code, name, "exec"), names)
    assert name not in written or Path(written[name]).exists()


def test_every_page_with_python_code_is_run() -> None:
    with_code = {name for name, page in PAGES.items() if blocks(page, "python")}
    assert with_code == {"README.md", "adapt.md", "deploy.md", "health.md", "many-domains.md", "report.md", "tune.md"}
