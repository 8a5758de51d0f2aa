"""The group ``residapt bench`` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from bench_support.drone_photographs import write_photographs
from bench_support.records import digit_record, drone_record, office_record
from bench_support.small_digits import small_digits
from residapt_bench.cli import app, group
from residapt_bench.cli.report import KINDS
from residapt_bench.digits.network_choice import RULE_PAIRS
from residapt_bench.drones.patches import FOLDERS
from residapt_bench.drones.render import standin
from residapt_bench.drones.render.standin import StandInConfig
from residapt_bench.record import Record, append_record
from support.cli import invoke

DIGITS = """
title = "tiny"
[[runs]]
tasks = ["mnist-usps"]
methods = ["source_only", "rpt"]
seeds = [0, 1]
source = { steps = 1, batch_size = 4 }
set = { train.steps = 1, train.batch_size = 4 }
"""
DRONES = """
title = "tiny"
[common]
tasks = ["{task}"]
source = {{ steps = 1, batch_size = 4 }}
set = {{ train.steps = 1, train.batch_size = 4 }}
[[runs]]
methods = ["source_only", "rpt"]
setup = {{ labels = 2 }}
[[runs]]
methods = ["rpt"]
note = "variant"
setup = {{ labels = 2, part = "validation" }}
"""


def saved(path: Path, *records: Record) -> str:
    for record in records:
        append_record(path, record)
    return str(path)


def bench(*arguments: str) -> str:
    code, text = invoke("bench", *arguments)
    assert code == 0, text
    return text


def test_there_are_at_most_eight_commands_and_each_has_an_example() -> None:
    commands = app.registered_commands
    assert len(commands) <= 8
    assert all("Example: residapt bench" in (command.epilog or "") for command in commands)


def test_a_new_experiment_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "EXPERIMENTS", tmp_path)
    (tmp_path / "mine.toml").write_text(DIGITS)
    found = bench("run", "mine", "--dry-run", "--out", str(tmp_path / "none.jsonl")).splitlines()
    assert found == [f"mnist-usps {method} seed {seed}" for seed in (0, 1) for method in ("source_only", "rpt")]


def test_an_experiment_runs_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, out = tmp_path / "tiny.toml", tmp_path / "r.jsonl"
    file.write_text(DIGITS)
    small_digits(tmp_path)
    options = ("--data", str(tmp_path), "--out", str(out), "--cache", str(tmp_path / "c"))
    assert len(bench("run", str(file), "--dry-run", "--out", str(out)).splitlines()) == 4
    text = bench("run", str(file), *options, "--only", "rpt", "--seeds", "1", "--set", "rank.every=7")
    assert "[1/1] mnist-usps rpt seed 1: target_test" in text
    (record,) = (json.loads(line) for line in out.read_text().splitlines())
    assert record["plan"]["settings"]["rank"]["every"] == 7
    for _ in range(2):
        text = bench("run", str(file), *options, "--only", "source_only", "--seeds", "1")
    assert text.startswith("1 runs, 1 of them")
    assert len(out.read_text().splitlines()) == 2
    assert len(bench("run", str(file), "--dry-run", "--out", str(out)).splitlines()) == 3


def test_uav_and_the_standin_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = StandInConfig(labelled=10, birds=0.5, held=0.3, synthetic=6, source_negatives=6, crops=2)
    monkeypatch.setattr(standin, "StandInConfig", lambda: small)
    for number, folder in enumerate(FOLDERS):
        (tmp_path / folder).mkdir(parents=True)
        for place in range(4):
            Image.new("L", (40, 40), 40 * number + place).save(tmp_path / folder / f"{place}.png")
    write_photographs(tmp_path)
    places = ("--data", str(tmp_path), "--cache", str(tmp_path / "c"))
    for task in ("uav", "drone-standin"):
        file, out = tmp_path / f"{task}.toml", tmp_path / f"{task}.jsonl"
        file.write_text(DRONES.format(task=task))
        text = bench("run", str(file), *places, "--out", str(out))
        assert f"{task} rpt 2 labels seed 0: target_test AP" in text
        assert "validation AP" in text
        assert [json.loads(line)["labelled"] for line in out.read_text().splitlines()] == [0, 2, 2]
    assert "| brightness |" in bench("report", "sheet", *places, "-o", str(tmp_path / "s.png"))
    assert (tmp_path / "s.png").is_file()


def test_every_kind_of_report_is_made_from_records(tmp_path: Path) -> None:
    weights = {"stream_weight": 1.0, "rank": {"weight": 1.0}, "two_stream": {"layers": ["conv1"]}}
    curve = ({"step": 1000, "target_test": 70.0}, {"step": 2000, "target_test": 80.0})
    votes = dict.fromkeys(
        ("infomax", "class_ami", "bnm", "snd", "anchored_ami", "source_accuracy", "sure_agreement", "frequency_shift",
         "lost_mass", "renamed_classes"),
        (0.5, 0.5),
    )  # fmt: skip
    common = {"label_free": votes, "curve": curve, "settings": weights, "predicted": "0123"}
    ranks = {"before": {"conv1": (8, 8)}, "after": {"conv1": (4, 2)}}
    digits = saved(
        tmp_path / "digits.jsonl",
        digit_record("source_only", 60.0, **common),
        *(digit_record("rpt", 80.0, seed=seed, **common, **ranks) for seed in (0, 1)),
        digit_record("dann_flip", 79.0, **common),
        digit_record("rpt", 70.0, swept="stream_weight", note="sweep stream_weight", **common),
        digit_record("two_stream", 70.0, swept="two_stream.layers", note="layers conv1", stream_mmd=0.1, **common),
    )
    drones = saved(tmp_path / "drones.jsonl", drone_record("rpt", 0.5), drone_record("rpt", 0.4, labels=0))
    runs = ((pair, seed) for pair in (*RULE_PAIRS, "svhn-mnist") for seed in range(5))
    short = saved(
        tmp_path / "short.jsonl",
        *(digit_record("rpt", 70.0 + seed, task=pair, seed=seed, **common) for pair, seed in runs),
    )
    files = {"labels": [drones], "networks": [short], "restarts": [short, "--score", "infomax"]}
    for kind in KINDS:
        out = tmp_path / f"{kind}.out"
        written = kind in ("page", "curves", "sweeps", "pareto", "labels")
        text = bench("report", kind, *files.get(kind, [digits]), *(("-o", str(out)) if written else ()))
        assert out.is_file() if written else text.strip(), kind


def test_the_table_is_that_of_the_benchmark(tmp_path: Path) -> None:
    digits = saved(tmp_path / "digits.jsonl", digit_record())
    office = saved(tmp_path / "office.jsonl", office_record("a-w", "rpt", 61.25))
    drones = saved(
        tmp_path / "drones.jsonl", drone_record("rpt", 0.5), drone_record("rpt", 0.4, part="validation", note="try")
    )
    assert "| svhn-mnist | lenet | rpt |" in bench("report", "table", digits, "--markdown")
    assert "A→W" in bench("report", "table", office, "--markdown")
    assert "| RPT | try | 0.400 |" in bench("report", "table", drones)
    page = tmp_path / "page.md"
    names = ("methods", "differences", "labels", "ranks", "tries")
    page.write_text("".join(f"<!-- {name} -->\n<!-- end {name} -->\n" for name in names))
    bench("report", "table", drones, "-o", str(page))
    assert "| RPT | try | 0.400 |" in page.read_text()
    code, text = invoke("bench", "report", "table", digits, office)
    assert code == 2
    assert "digits, office31" in text


def test_two_methods_are_compared(tmp_path: Path) -> None:
    scores = {"infomax": (0.0, 1.0)}
    runs = [digit_record(name, 80.0 + 2 * (name == "rpt"), label_free=scores) for name in ("rpt", "dann_flip")]
    file = saved(tmp_path / "r.jsonl", *runs)
    assert "+2.00 points over 1 seeds" in bench("compare", file, "rpt", "dann_flip")
    assert "| 0 | 1 | 82.0 | 80.0 |" in bench("compare", file, "rpt", "dann_flip", "--picked", "infomax")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("run", "svhn-minst"), "svhn-minst"),
        (("run", "svhn-mnist", "--seeds", "a"), "--seeds 'a'"),
        (("run", "svhn-mnist", "--only", "rtp"), "rtp"),
        (("report", "tabel", "svhn-mnist"), "tabel"),
        (("report", "table", "nothing.jsonl"), "nothing.jsonl"),
        (("speed", "stpes"), "stpes"),
        (("speed", "steps", "--case", "alexnet"), "alexnet"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_name_what_was_given(arguments: tuple[str, ...], named: str) -> None:
    code, text = invoke("bench", *arguments)
    assert code == 2
    assert named in text
