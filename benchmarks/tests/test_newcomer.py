"""What a new user types, what it took, and the table of both."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from residapt.data.synthetic import printed_digits
from residapt.errors import TrainingError
from residapt_bench import newcomer
from residapt_bench.newcomer import (
    NewcomerRecord,
    NewcomerRun,
    newcomer_table,
    read_newcomer_records,
    run_missing,
    run_newcomer,
)
from residapt_bench.usage import Usage, run_measured
from support.cli import invoke
from support.digit_folders import write_images

USAGE = {"seconds": 120.0, "processor_seconds": 180.0, "others": 0.5, "peak_memory_mb": 900}
ENVIRONMENT = {"residapt": "0", "torch": "0", "python": "0"}


def record(run: NewcomerRun, adapted: float = 70.0, seconds: float = 120.0) -> NewcomerRecord:
    parts = {"reading": 10.0, "adaptation": 75.0, "checks": 5.0, "scoring": 4.0, "report": 6.0}
    values = {"source_only": 50.0, "adapted": adapted, "selected": adapted, "helped": True, "frozen": "blocks.5"}
    usage = {**USAGE, "seconds": seconds}
    more = {"views": 8, "steps": {"adaptation": 9}, "parts": parts, "usage": usage, "environment": ENVIRONMENT}
    return NewcomerRecord.parse({**values, **more, "run": run.model_dump()})


def test_nothing_is_typed_but_network_weights_and_size(tmp_path: Path) -> None:
    words = NewcomerRun(source="amazon", target="webcam").command(tmp_path, tmp_path / "run")
    options = [word for word in words if word.startswith("-")]
    assert words[0] == "adapt"
    assert options == ["-s", "-t", "-m", "--weights", "--image-size", "--evaluate", "-o", "--seed"]
    more = NewcomerRun(source="amazon", target="webcam", freeze="none", minutes=2.5).command(tmp_path, tmp_path / "r")
    assert more[-4:] == ["--freeze", "none", "--set", "minutes=2.5"]


def test_a_run_of_the_command_makes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for domain, seed in (("amazon", 0), ("webcam", 1)):
        write_images(printed_digits(60, seed=seed), tmp_path / "office31" / domain / "images", classes=True)
    quick = ["--set", "pretrain.steps=1", "--set", "pretrain.allow_chance=true", "--steps", "2"]
    command = NewcomerRun.command

    def short(run: NewcomerRun, root: Path, out: Path) -> list[str]:
        words = command(run, root, out)
        words[words.index("-m") + 1] = "lenet"
        at = words.index("--weights")
        return [*words[:at], *words[at + 2 :], *quick]

    monkeypatch.setattr(NewcomerRun, "command", short)
    run = NewcomerRun(source="amazon", target="webcam", image_size=32)
    (found,) = run_missing([run], tmp_path / "r.jsonl", tmp_path, tmp_path / "cache")
    assert read_newcomer_records(tmp_path / "r.jsonl") == [found]
    assert found.run == run
    assert found.steps == {"source training": 1, "adaptation": 2}
    assert found.frozen is None
    assert 0 < found.share_of_looks < 1
    assert 0 < sum(found.parts.values()) < found.usage.seconds
    assert found.usage.peak_memory_mb > 50
    assert list(run_missing([run], tmp_path / "r.jsonl", tmp_path, tmp_path / "cache")) == []


def test_a_command_that_fails_is_an_error_that_names_its_output(tmp_path: Path) -> None:
    run = NewcomerRun(source="amazon", target="webcam")
    with pytest.raises(TrainingError, match=r"code 2.*run\.log"):
        run_newcomer(run, tmp_path, tmp_path / "run")
    assert "amazon" in (tmp_path / "run.log").read_text()


def test_seeds_of_the_same_command_are_one_row() -> None:
    runs = [NewcomerRun(source="amazon", target="webcam", seed=seed) for seed in (0, 1)]
    rows = newcomer_table([record(runs[0], 70.0, 60.0), record(runs[1], 73.0, 180.0)]).splitlines()[2:]
    assert rows == ["| amazon -> webcam, 128 pixels | 0, 1 | `blocks.5` | 50.0 | 71.5 | 2.0 | 3.0 | 0.5 | 15.0 |"]
    assert len(newcomer_table([record(runs[0]), record(NewcomerRun(source="dslr", target="webcam"))]).splitlines()) == 4


def test_a_pair_that_there_is_not_is_refused(tmp_path: Path) -> None:
    code, text = invoke("bench", "newcomer", "--pairs", "amazon-amazon", "--data", str(tmp_path))
    assert code == 2
    assert "amazon-webcam" in text


def test_the_command_runs_pairs_and_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[NewcomerRun] = []

    def run(run: NewcomerRun, root: Path, out: Path) -> NewcomerRecord:
        called.append(run)
        return record(run)

    monkeypatch.setattr(newcomer, "run_newcomer", run)
    out = tmp_path / "r.jsonl"
    options = ("--seeds", "0,1", "--data", str(tmp_path), "-o", str(out), "--cache", str(tmp_path), "--freeze", "none")
    code, text = invoke("bench", "newcomer", "--pairs", "dslr-amazon,amazon-dslr", *options)
    assert code == 0, text
    assert [(one.source, one.target, one.seed, one.freeze) for one in called] == [
        ("dslr", "amazon", 0, "none"),
        ("dslr", "amazon", 1, "none"),
        ("amazon", "dslr", 0, "none"),
        ("amazon", "dslr", 1, "none"),
    ]
    code, text = invoke("bench", "report", "newcomer", str(out))
    assert code == 0, text
    assert text.count("freeze none") == 2


def test_usage_is_of_the_program_alone(tmp_path: Path) -> None:
    busy = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint('done')\nexit(3)"
    code, usage = run_measured([sys.executable, "-c", busy], tmp_path / "log")
    assert code == 3
    assert (tmp_path / "log").read_text() == "done\n"
    assert isinstance(usage, Usage)
    assert usage.processor_seconds >= 0.5
    assert usage.seconds >= 0.5
