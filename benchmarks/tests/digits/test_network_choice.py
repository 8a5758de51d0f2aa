"""The rule that chooses a source network reads no label of the pair it chooses for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.digits.network_choice import (
    CANDIDATES,
    RULE_PAIRS,
    Candidate,
    choose_network,
    judge_candidates,
    rank_correlation,
    restart_score,
)
from residapt_bench.experiment_file import RunSet, read_experiment
from residapt_bench.record import Record, append_record
from residapt_bench.report.networks import network_report

SEEDS = range(300, 306)
PAIRS = (*RULE_PAIRS, "svhn-mnist")


def records(accuracy: dict[str, list[float]] | None = None) -> list[Record]:
    """BNM after adaptation follows the accuracy on the pairs of the rule; nothing else does."""
    generator = np.random.default_rng(0)
    made = []
    for pair in PAIRS:
        points = (accuracy or {}).get(pair, list(generator.permutation(len(SEEDS)) * 2.0 + 60))
        for seed, value in zip(SEEDS, points, strict=True):
            scores = {each.score: (float(generator.uniform()), float(generator.uniform())) for each in CANDIDATES}
            scores["bnm"] = (0.5, value / 100 if pair != "svhn-mnist" else float(generator.uniform()))
            more = {"task": pair, "seed": seed, "label_free": scores, "source_sha256": f"{seed:064d}"}
            made.append(digit_record("rpt", float(value), **more))
    return made


def test_the_rule_is_the_candidate_with_the_highest_mean_correlation() -> None:
    judged = judge_candidates(records())
    assert judged[0].candidate == Candidate("bnm", 1)
    assert judged[0].mean == pytest.approx(1.0)
    assert judged[0].loss == 0.0
    assert {each.candidate for each in judged} == set(CANDIDATES)
    assert [each.mean for each in judged] == sorted((each.mean for each in judged), reverse=True)
    assert restart_score(records()) == Candidate("bnm", 1)


def test_labels_of_the_pair_itself_change_nothing_but_the_oracle() -> None:
    plain = records()
    turned = [
        run if run.plan.task in RULE_PAIRS else run.model_copy(update={"scores": _other(run, 99.0 - run.target)})
        for run in plain
    ]
    assert choose_network(plain, "svhn-mnist") == choose_network(turned, "svhn-mnist")
    assert judge_candidates(plain) == judge_candidates(turned)
    assert choose_network(plain, "svhn-mnist", "labels") != choose_network(turned, "svhn-mnist", "labels")


def _other(run: Record, accuracy: float) -> dict[str, object]:
    return {name: score.model_copy(update={"accuracy": accuracy}) for name, score in run.scores.items()}


def test_the_chosen_network_has_the_highest_score_on_the_pair() -> None:
    runs = [run for run in records() if run.plan.task == "svhn-mnist"]
    best = max(runs, key=lambda run: run.label_free["bnm"][1])
    choice = choose_network(records(), "svhn-mnist")
    assert (choice.seed, choice.sha256) == (best.plan.seed, best.source_sha256)
    report = network_report(records(), "svhn-mnist")
    assert f"chooses the network of seed {best.plan.seed}" in report
    assert f"**{best.plan.seed}**" in report


def test_nothing_is_chosen_before_every_short_run_is_there() -> None:
    made = records()
    gone = next(run for run in made if run.plan.task == "usps-mnist")
    with pytest.raises(DataError, match=f"usps-mnist seed {gone.plan.seed}"):
        choose_network([run for run in made if run is not gone], "svhn-mnist")


def test_rank_correlation_is_spearmans_and_zero_for_a_constant() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=9), generator.normal(size=9)
    expected = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic
    assert rank_correlation(list(x), list(y)) == pytest.approx(expected)
    assert rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == 0.0


def test_orders_start_from_the_chosen_network_with_its_seed(tmp_path: Path) -> None:
    for record in records():
        append_record(tmp_path / "short.jsonl", record)
    file = tmp_path / "orders.toml"
    file.write_text(
        'title = "orders"\n[[runs]]\ntasks = ["svhn-mnist"]\nmethods = ["rpt", "dann"]\nseeds = [0, 1]\n'
        'varied = "order"\nnetwork_from = "short"\n'
    )
    choice = choose_network(records(), "svhn-mnist")
    plans = read_experiment(file).plans(results=tmp_path)
    assert len(plans) == 4
    for plan in plans:
        assert plan.source.seed == plan.settings.transform.seed == plan.settings.discrepancy.seed == choice.seed
        assert plan.network_sha256 == choice.sha256
        assert plan.train.seed == plan.seed in (0, 1)
    assert len(read_experiment(file).without_choices().plans()) == 4


def test_one_network_is_for_orders_only() -> None:
    with pytest.raises(ValueError, match="varied"):
        RunSet(tasks=("svhn-mnist",), methods=("rpt",), network_from="short")
