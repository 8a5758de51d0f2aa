from __future__ import annotations

import pytest
import torch

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.experiment import class_text
from residapt_bench.record import Record
from residapt_bench.report.agreement import agreement_table, pair_agreements


def record(seed: int, predicted: str, *, note: str = "", recipe: str = "common") -> Record:
    scores = {"infomax": (1.0, 2.0 + seed)}
    return digit_record(seed=seed, predicted=predicted, note=note, recipe=recipe, label_free=scores)


def test_agreement_is_the_share_of_equal_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(200, 10, generator=generator) for _ in range(3)]
    expected = [
        float((logits[i].argmax(1) == logits[j].argmax(1)).double().mean()) for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert pair_agreements([class_text(x) for x in logits]) == pytest.approx(expected)


def test_groups_that_agree_stand_first_and_single_runs_are_left_out() -> None:
    records = [record(0, "1234"), record(1, "1200"), record(0, "7777", note="slow"), record(1, "7778", note="slow")]
    lines = agreement_table([*records, record(0, "1111", note="alone")]).splitlines()[2:]
    assert [line.split(" | ")[3:] for line in lines if line] == [
        ["common", "2000", "all", "slow", "2", "75.0", "75.0", "2.500 |"],
        ["common", "2000", "all", "", "2", "50.0", "50.0", "2.500 |"],
    ]


def test_runs_of_another_recipe_are_another_group() -> None:
    runs = [record(seed, "12", recipe=recipe) for recipe in ("common", "plus") for seed in (0, 1)]
    lines = agreement_table(runs).splitlines()[2:]
    assert [line.split(" | ")[3] for line in lines if line] == ["common", "plus"]


def test_records_without_predictions_are_said() -> None:
    with pytest.raises(DataError):
        agreement_table([record(0, "1234")])
