"""``--dry-run``, and how large the adapter will be: told before anything is trained or written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from residapt.storage.run_directory import RunDirectory
from support.cli import invoke
from support.digit_folders import QUICK, Run


def megabytes(text: str) -> list[float]:
    """Sizes in a text, in MB."""
    found = re.findall(r"([\d.]+) (k|M)B", text)
    return [float(number) / (1000 if unit == "k" else 1) for number, unit in found]


def size_of(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def test_a_dry_run_says_what_would_be_done_and_does_nothing(digits: Path, tmp_path: Path) -> None:
    data = ("-s", str(digits / "printed"), "-t", str(digits / "written"), "--evaluate", str(digits / "scored"))
    code, text = invoke("adapt", *data, "-o", str(tmp_path / "run"), *QUICK, "--dry-run")
    assert code == 0, text
    assert list(tmp_path.iterdir()) == []
    lines = {line.partition(":")[0]: line for line in text.splitlines()}
    assert "200 images of 10 classes, 20 of them held out" in lines["Source"]
    assert "60 images" in lines["Target"]
    assert "60 images" in lines["Scored at the end"]
    assert "431,080 parameters, random weights" in lines["Network"]
    assert "recipe" in lines["Method"]
    stages = [line for line in text.splitlines() if re.match(r"  \d\. ", line)]
    assert ["20 steps" in line for line in stages] == [True, True, False]
    assert all(re.search(r"about \d+ s|about \d+ min", line) for line in stages)
    assert re.search(r"about \d+", lines["Time"])
    assert str(tmp_path / "run") in text.splitlines()[-1]


def test_a_list_makes_the_plan_that_its_folders_make(digits: Path, tmp_path: Path) -> None:
    printed = digits / "printed"
    lines = [f"{path},{path.parent.name}" for path in sorted(printed.rglob("*.png"), reverse=True)]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    texts = []
    for source in (printed, tmp_path / "labels.csv"):
        code, text = invoke("adapt", "-s", str(source), "-t", str(digits / "written"), *QUICK, "--dry-run")
        assert code == 0, text
        texts.append([line for line in text.splitlines() if not re.search(r"about \d", line)])
    assert texts[0] == texts[1]
    assert any("200 images of 10 classes" in line for line in texts[0])


def test_a_dry_run_refuses_what_a_run_refuses(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "used").write_text("")
    for wrong in (("-t", "nowhere"), ("-o", str(tmp_path)), ("--resume", str(tmp_path))):
        given = ("-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(tmp_path / "run"))
        code, _ = invoke("adapt", *given, *wrong, "--dry-run")
        assert code == 2


def test_the_size_is_told_before_and_after(finished: Run) -> None:
    before = next(line for line in finished.text.splitlines() if line.startswith("The adapter will be"))
    after = next(line for line in finished.text.splitlines() if line.startswith("Adapter: "))
    run = RunDirectory(finished.path)
    true, network = size_of(run.adapter), run.source.stat().st_size / 1e6
    most, whole, small = megabytes(before)
    assert true <= most + 0.05
    assert whole == pytest.approx(network, abs=0.06)
    assert small < 0.5 * network
    assert "--freeze base" in before
    assert megabytes(after) == pytest.approx([true, network], abs=0.06)


@pytest.mark.slow
def test_freeze_base_keeps_what_is_promised(digits: Path, tmp_path: Path) -> None:
    data = ("-s", str(digits / "printed"), "-t", str(digits / "written"))
    code, text = invoke("adapt", *data, "-o", str(tmp_path / "run"), *QUICK, "--freeze", "base", "--force")
    assert code == 0, text
    run = RunDirectory(tmp_path / "run")
    most, whole = megabytes(next(line for line in text.splitlines() if line.startswith("The adapter will be")))
    config = (run.adapter / "adapter_config.json").stat().st_size / 1e6
    assert size_of(run.adapter) - config <= most + 0.05 < 0.5 * whole
