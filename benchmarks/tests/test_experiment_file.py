"""Experiments as files; every committed one is read, and stands for the runs that its records hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from residapt.errors import ConfigError
from residapt.methods import MethodConfig
from residapt.models import LeNet
from residapt.train import TrainConfig
from residapt_bench.cli.group import EXPERIMENTS, RESULTS
from residapt_bench.digits.layer_choice import layer_combinations
from residapt_bench.experiment_file import read_experiment
from residapt_bench.proving_ground.grid import is_ground
from residapt_bench.record import Record, read_records
from residapt_bench.runner import pending

FILES = sorted(file for file in EXPERIMENTS.glob("*.toml") if not is_ground(file))
"""Of the proving ground, test_grid.py has the tests."""


def written(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def still_runs(record: Record) -> bool:
    """Whether all settings of a finished run are still there; some were removed because they had gained nothing."""
    try:
        MethodConfig.parse(record.plan.settings)
        TrainConfig.parse(record.plan.train)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_committed_experiment_stands_for_the_runs_of_its_records(file: Path) -> None:
    """Tasks, methods and settings are known, and every record is of one of the runs."""
    found = read_experiment(file)
    records = RESULTS / f"{file.stem}.jsonl"
    if not records.is_file():
        assert found.without_choices().plans()
        return
    plans = found.plans(results=RESULTS)
    done = {plan.key() for plan in plans} - {plan.key() for plan in pending(plans, records)}
    assert len(done) == len({record.key for record in read_records([records]) if still_runs(record)})


def test_every_file_of_records_of_runs_has_an_experiment() -> None:
    names = {file.stem for file in FILES}
    for file in RESULTS.glob("*.jsonl"):
        if '"plan"' in file.open().readline():
            assert file.stem in names


def test_the_layer_experiment_has_every_combination() -> None:
    plans = read_experiment(EXPERIMENTS / "svhn-mnist-layers.toml").plans()
    assert {plan.settings.two_stream.layers for plan in plans} == set(layer_combinations(LeNet()))
    assert {plan.swept for plan in plans} == {"two_stream.layers"}


def test_common_settings_are_under_those_of_each_set(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        title = "two sets"
        [common]
        tasks = ["svhn-mnist", "mnist-usps"]
        set = { rank.every = 50, train.steps = 7 }
        [[runs]]
        methods = ["rpt", "dann_flip"]
        recipes = ["common", "plus"]
        seeds = [3, 1]
        [[runs]]
        methods = ["rpt"]
        note = "longer"
        set = { train.steps = 9 }
        """,
    )
    plans = read_experiment(path).plans()
    assert [(plan.seed, plan.task, plan.label, plan.train.steps) for plan in plans] == [
        (0, "svhn-mnist", "rpt", 9),
        (0, "mnist-usps", "rpt", 9),
        *(
            (seed, task, name, 7)
            for seed in (1, 3)
            for task in ("svhn-mnist", "mnist-usps")
            for name in ("rpt", "rpt (plus)", "dann_flip", "dann_flip (plus)")
        ),
    ]
    assert {plan.settings.rank.every for plan in plans} == {50}
    chosen = read_experiment(path).only(["rpt", "common"], [3]).plans({"precision": "bf16"})
    assert [(plan.seed, plan.method, plan.precision) for plan in chosen] == [(3, "rpt", "bf16")] * 2
    with pytest.raises(ConfigError, match="adda"):
        read_experiment(path).only(["adda"])


def test_variants_have_their_settings_and_are_named_by_them(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        title = "variants"
        [[runs]]
        tasks = ["mnist-usps"]
        methods = ["rpt"]
        note = "second round:"
        each = ["stream_weight=0.1", "rank.weight=2  rank.every=7"]
        [runs.sweep]
        stream_weight = [0.5, 2.0]
        "two_stream.layers" = [[], ["conv1", "full4"]]
        """,
    )
    plans = read_experiment(path).plans()
    assert [(plan.note, plan.swept) for plan in plans] == [
        ("second round: stream_weight=0.1", ""),
        ("second round: rank.weight=2 rank.every=7", ""),
        ("sweep stream_weight", "stream_weight"),
        ("sweep stream_weight", "stream_weight"),
        ("layers none", "two_stream.layers"),
        ("layers conv1+full4", "two_stream.layers"),
    ]
    assert [plan.settings.stream_weight for plan in plans[:4]] == [0.1, 1.0, 0.5, 2.0]
    assert (plans[1].settings.rank.weight, plans[1].settings.rank.every) == (2.0, 7)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('methods = ["rtp"]', "rtp"),
        ('methods = ["rpt"]\nseed = 3', "seed"),
        ('methods = ["rpt"]\nset = { rank.evry = 3 }', "evry"),
        ('methods = ["rpt"]\nsetup = { labels = 3 }', "labels"),
        ('methods = ["rpt"]\ntasks = ["svhn-minst"]', "svhn-minst"),
        ("methods = []", "methods"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, line: str, named: str) -> None:
    path = written(tmp_path, f'title = "a"\n[common]\ntasks = ["svhn-mnist"]\n[[runs]]\n{line}\n')
    with pytest.raises(ConfigError, match=named):
        read_experiment(path).plans()


def test_the_example_of_the_readme_is_an_experiment(tmp_path: Path) -> None:
    text = (EXPERIMENTS.parent / "README.md").read_text(encoding="utf-8")
    path = written(tmp_path, text.partition("```toml\n")[2].partition("```")[0])
    plans = read_experiment(path).plans()
    assert len(plans) == 3 * 2 + 3 * 3
    assert {plan.settings.rank.weight for plan in plans if plan.swept} == {0.1, 1.0, 10.0}
