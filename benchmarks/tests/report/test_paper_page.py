"""The paper's page: cells say how far they are, and the committed page is what the records give."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_support.records import digit_record, office_record
from residapt_bench.cli.group import EXPERIMENTS, HOME, RESULTS
from residapt_bench.digits.network_choice import RULE_PAIRS
from residapt_bench.record import Record, append_record
from residapt_bench.report.markdown import fill_in
from residapt_bench.report.paper import all_parts
from residapt_bench.report.paper_runs import Lab, read_lab

PAGE = HOME.parent / "docs" / "research" / "paper.md"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return read_lab(EXPERIMENTS, tmp_path_factory.mktemp("results"))


def order(method: str, seed: int, accuracy: float, **more: object) -> Record:
    curve = tuple({"step": step, "target_test": 1.0, "infomax": 1.0 + step / 1e6} for step in (1000, 8000, 12000))
    return digit_record(method, accuracy, seed=seed, varied="order", steps=12000, curve=curve, **more)


def row(table: str, name: str) -> list[str]:
    (found,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_committed_page_is_what_the_records_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fill_in(text, all_parts(read_lab(EXPERIMENTS, RESULTS)), PAGE.name) == text, "bench report paper -o PAGE"


def test_without_records_every_table_is_there_and_empty(empty: Lab) -> None:
    parts = all_parts(empty)
    assert row(parts["lenet"], "RPT")[1:3] == ["84.7", "0 of 5"]
    assert row(parts["lenet"], "ADDA")[3] == "", "flipped labels are not asked for"
    assert row(parts["office"], "DANN, flipped labels")[-2:] == ["73.9", ""]
    assert row(parts["differences"], "RPT minus DANN, five orders")[2:] == ["", "", "0"]
    assert "nothing is chosen" in parts["networks"]


def test_cells_are_means_of_the_runs_of_their_row_with_their_number(tmp_path: Path) -> None:
    ranks = {"before": {"conv1": (32, 32)}, "after": {"conv1": (30, 20)}}
    runs = [order("rpt", seed, 80.0 + seed, note="by reversal", **ranks) for seed in (0, 1, 2)]
    runs += [order("dann", seed, 78.0) for seed in range(5)]
    runs += [order("rpt", 0, 10.0, note="another")]
    for run in runs:
        append_record(tmp_path / "paper-orders.jsonl", run)
    swept = order("rpt", 0, 60.0, note="by reversal sweep", swept="rank.weight", settings={"rank": {"weight": 100.0}})
    append_record(tmp_path / "paper-sweeps.jsonl", swept)
    office = [office_record(pair, "rpt", 70.0 + place) for place, pair in enumerate(("a-w", "d-a", "a-d"))]
    for run in office:
        append_record(tmp_path / "paper-office31-resnet50.jsonl", run)
    parts = all_parts(read_lab(EXPERIMENTS, tmp_path))
    assert row(parts["lenet"], "RPT")[2] == "81.0 ± 1.0 (3 of 5)"
    assert row(parts["lenet"], "DANN")[2] == "78.0 ± 0.0 (n = 5)"
    assert row(parts["differences"], "RPT minus DANN, five orders")[2:] == ["+3.0", "+0.5 to +5.5", "3"]
    assert row(parts["ranks"], "conv1")[3] == "[30.0, 20.0]"
    assert row(parts["length"], "RPT")[-2:] == ["+0.004", "3"]
    assert row(parts["sweeps"], "λr")[1:] == ["", "", "80.0", "", "60.0"]
    assert row(parts["office"], "RPT, flipped labels")[-1] == "71.0"


def test_the_best_of_five_waits_for_the_rule(tmp_path: Path) -> None:
    scores = dict.fromkeys(("source_accuracy", "class_ami", "infomax", "bnm", "snd", "anchored_ami"), (0.5, 0.5))
    for seed in range(6):
        run = digit_record("dann", 70.0 + seed, seed=seed, steps=12000, label_free={**scores, "bnm": (0.5, seed / 9)})
        append_record(tmp_path / "paper-grid.jsonl", run)
    assert row(all_parts(read_lab(EXPERIMENTS, tmp_path))["lenet"], "DANN")[5] == ""
    for pair in (*RULE_PAIRS, "svhn-mnist"):
        for seed in range(4):
            label_free = {**scores, "bnm": (0.5, seed / 9)}
            append_record(
                tmp_path / "paper-networks.jsonl",
                digit_record("rpt", 60.0 + seed, seed=seed, task=pair, label_free=label_free),
            )
    # The last of six is in five of the six sets of five, and the one before it is the best of the sixth.
    assert row(all_parts(read_lab(EXPERIMENTS, tmp_path))["lenet"], "DANN")[5] == f"{(5 * 75 + 74) / 6:.1f}"
