from __future__ import annotations

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.picked import compare_variants, picked_text


def run(method: str, seed: int, note: str, accuracy: float, infomax: float) -> Record:
    scores = {"infomax": (0.0, infomax)}
    return digit_record(method, accuracy, recipe="plus", seed=seed, note=note, label_free=scores)


RUNS = [
    # The score picks 'b' of RPT and 'a' of DANN on seed 0, though the labels would take 'a' of RPT.
    run("rpt", 0, "a", 99.0, 1.0),
    run("rpt", 0, "b", 97.0, 2.0),
    run("dann_flip", 0, "a", 95.0, 2.0),
    run("dann_flip", 0, "b", 90.0, 1.0),
    run("rpt", 1, "a", 96.0, 3.0),
    run("rpt", 1, "b", 80.0, 1.0),
    run("dann_flip", 1, "a", 91.0, 1.0),
    run("dann_flip", 1, "b", 92.0, 2.0),
]


def test_each_method_is_picked_by_its_own_score_and_never_by_labels() -> None:
    found = compare_variants(RUNS, "rpt", "dann_flip", "plus")
    assert found.picked("infomax") == [(0, 97.0, 95.0), (1, 96.0, 92.0)]
    assert found.difference("infomax").differences == {0: 2.0, 1: 4.0}


def test_over_all_variants_settings_are_paired() -> None:
    found = compare_variants(RUNS, "rpt", "dann_flip", "plus").over_all()
    assert found.differences == {0: pytest.approx(5.5), 1: pytest.approx(-3.5)}


def test_the_text_has_picks_means_and_bests() -> None:
    text = picked_text(compare_variants(RUNS, "rpt", "dann_flip", "plus"), "infomax")
    assert "| 0 | 2 | 97.0 | 95.0 | 98.0 | 92.5 | 99.0 | 95.0 |" in text
    assert "By infomax: rpt minus dann_flip: +3.00 points over 2 seeds" in text
    assert "Over all variants: rpt minus dann_flip: +1.00 points over 2 seeds" in text


@pytest.mark.parametrize(
    ("records", "first", "message"),
    [
        (RUNS, "coral", "no runs of 'coral'"),
        (RUNS[:-1], "rpt", "seed 1: 1 variants.* 'b'"),
        ([RUNS[0], RUNS[-1]], "rpt", "'rpt' and 'dann_flip'"),
        ([*RUNS, RUNS[0]], "rpt", r"seed 0 has two runs of 'rpt' with the note 'a'"),
    ],
)
def test_comparisons_that_would_not_be_fair_are_refused(records: list[Record], first: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compare_variants(records, first, "dann_flip", "plus")


def test_an_unknown_score_is_named_with_those_there_are() -> None:
    with pytest.raises(DataError, match=r"'snd'.*infomax"):
        compare_variants(RUNS, "rpt", "dann_flip", "plus").picked("snd")
