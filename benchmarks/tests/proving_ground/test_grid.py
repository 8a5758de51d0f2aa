"""Recipes on pairs: the library's whole way on a small pair, runs that are not repeated, tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from residapt.config import Config
from residapt.data.domains import TensorImages
from residapt_bench.proving_ground import grid
from residapt_bench.proving_ground.grid import (
    GroundExperiment,
    GroundRecord,
    GroundRun,
    execute,
    is_ground,
    read_ground,
    read_ground_experiment,
    run_ground,
)
from residapt_bench.proving_ground.grid_table import left_out_table, pairs_table, results, summary_table
from residapt_bench.proving_ground.library import ConfigError
from residapt_bench.proving_ground.pair import ProvingPair
from residapt_bench.proving_ground.registry import PAIRS
from residapt_bench.proving_ground.statistics_only import with_target_statistics
from residapt_bench.record import append_record

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
GROUND = [path for path in sorted(EXPERIMENTS.glob("*.toml")) if is_ground(path)]
FEW = {"pretrain": {"steps": 20}, "train": {"steps": 4}, "recipe": "paper"}


@pytest.fixture
def small(pair: ProvingPair, monkeypatch: pytest.MonkeyPatch) -> ProvingPair:
    """A pair of two classes in the place of the one that is asked for."""
    labels = torch.arange(200) % 2
    pixels = (torch.randint(0, 40, (200, 1, 28, 28)) + 150 * labels.view(-1, 1, 1, 1)).to(torch.uint8)
    small = replace(pair, source_images=pixels, source_labels=labels, target_images=pixels + 20, few=None)
    monkeypatch.setattr(grid, "load", lambda *_: small)
    return small


def run(pair: str = "svhn-mnist", recipe: str = "paper", seed: int = 0, **settings: Any) -> GroundRun:
    return GroundRun(pair=pair, recipe=recipe, seed=seed, settings={**FEW, **settings})


def record(pair: str, recipe: str, source: float, adapted: float, selected: float, seed: int = 0) -> GroundRecord:
    return GroundRecord.parse(
        {
            "run": {"pair": pair, "recipe": recipe, "seed": seed},
            "metric": "accuracy",
            "source": source,
            "adapted": adapted,
            "selected": selected,
            "helped": adapted > source,
            "pair_sha256": "",
            "environment": {"residapt": "0", "torch": "0", "python": "0"},
        },
        where="test",
    )


def test_a_run_goes_the_whole_way_and_recipes_share_the_source_network(small: ProvingPair, tmp_path: Path) -> None:
    first = execute(run(), tmp_path, tmp_path)
    assert first.steps == (20, 4)
    assert first.selected in (first.adapted, first.source)
    assert set(first.predicted) <= {"0", "1"}
    assert len(first.predicted) == 200
    assert {"anchored_ami", "reverse_accuracy", "neighbours", "atc"} <= set(first.measurements)
    kept = list((tmp_path / "sources").iterdir())
    assert len(kept) == 1
    second = execute(run(recipe="dann", method="dann"), tmp_path, tmp_path)
    assert second.source_sha256 == first.source_sha256
    assert list((tmp_path / "sources").iterdir()) == kept
    other = execute(run(recipe="changed", augment={"strength": "weak"}), tmp_path, tmp_path)
    assert other.source_sha256 != first.source_sha256


def test_what_has_a_record_is_not_run_again(
    small: ProvingPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, done = tmp_path / "ground.jsonl", []
    experiment = GroundExperiment.parse(
        {"title": "t", "kind": "proving-ground", "pairs": ["series"], "recipes": {"a": {}, "b": {}}}, where="test"
    )

    def executed(one: GroundRun, *_: Path) -> GroundRecord:
        done.append(one.name)
        return record(one.pair, one.recipe, 50, 60, 60)

    monkeypatch.setattr(grid, "execute", executed)
    append_record(out, record("series-drift", "a", 50, 60, 60))
    run_ground(experiment, {}, out, tmp_path, tmp_path)
    assert done == ["series-drift b seed 0", "series-speed a seed 0", "series-speed b seed 0"]
    assert len(read_ground(out)) == 4
    with out.open("a") as file:
        file.write('{"cut')
    assert len(read_ground(out)) == 4


def test_unknown_pairs_and_recipes_are_refused() -> None:
    values = {"title": "t", "kind": "proving-ground", "pairs": ["no-such-pair"], "recipes": {"a": {}}}
    experiment = GroundExperiment.parse(values, where="test")
    with pytest.raises(ConfigError, match="no-such-pair"):
        list(experiment.runs())
    with pytest.raises(ConfigError, match="'b'"):
        experiment.only(["b"])


def test_the_committed_experiment_covers_every_pair() -> None:
    runs = list(read_ground_experiment(EXPERIMENTS / "proving-ground.toml").runs())
    assert {one.pair for one in runs} == set(PAIRS)
    assert len({one.key for one in runs}) == len(runs)


def test_a_pair_outside_of_the_proving_ground_is_run_by_its_name_alone() -> None:
    by_kind, by_name = (
        GroundExperiment.parse(
            {"title": "t", "kind": "proving-ground", "pairs": [what], "recipes": {"a": {}}}, where="test"
        )
        for what in ("real digits", "svhn-mnist-whole")
    )
    assert "svhn-mnist-whole" not in {one.pair for one in by_kind.runs()}
    assert [one.pair for one in by_name.runs()] == ["svhn-mnist-whole"]
    found = results([record("svhn-mnist-whole", "statistics", 60, 60, 60)])
    assert found[0].kinds == {"real digits"}
    assert "`svhn-mnist-whole` | real digits | 60.0" in pairs_table(found)


def test_the_shipped_default_is_run_beside_source_only_on_five_seeds() -> None:
    runs = list(read_ground_experiment(EXPERIMENTS / "shipped-default.toml").runs())
    pairs = {"svhn-mnist-whole", "amazon-webcam", "drones-200", "drones-0"}
    assert {(one.pair, one.recipe, one.seed) for one in runs} == set(
        product(pairs, ("statistics", "default"), range(5))
    )
    same = read_ground_experiment(EXPERIMENTS / "proving-ground.toml")
    wanted = {one.recipe: (one.statistics, one.settings) for one in same.only(["statistics", "default"]).runs()}
    assert {one.recipe: (one.statistics, one.settings) for one in runs} == wanted


@pytest.mark.parametrize("path", GROUND, ids=lambda path: path.stem)
def test_settings_of_committed_experiments_are_those_of_the_library(path: Path) -> None:
    runs = list(read_ground_experiment(path).runs())
    assert len({one.key for one in runs}) == len(runs)
    for recipe in {one.recipe: one.settings for one in runs}.values():
        assert Config.parse(recipe, where=path.name).recipe == recipe["recipe"]


def test_restarts_are_more_seeds_of_the_runs_of_the_proving_ground() -> None:
    first, more = (
        {(one.pair, one.recipe): one.settings for one in read_ground_experiment(EXPERIMENTS / name).runs()}
        for name in ("proving-ground.toml", "proving-ground-restarts.toml")
    )
    assert {key: first[key] for key in more} == more


def test_target_statistics_are_those_of_the_target() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    images = 3 + 2 * torch.randn(128, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    changed = with_target_statistics(network, TensorImages(images), torch.device("cpu"))
    seen = network[0](images).detach()
    torch.testing.assert_close(changed[1].running_mean, seen.mean((0, 2, 3)))  # both batches are of one size
    assert not network[1].running_mean.any()  # the network itself stays as it was


def test_tables_count_what_the_guard_selected_and_leave_whole_kinds_out() -> None:
    records = [
        record("svhn-mnist", "paper", 60, 62, 62),
        record("svhn-mnist", "default", 70, 90, 90),
        record("series-drift", "paper", 50, 80, 80),
        record("series-drift", "default", 50, 60, 50),
        record("webcam-dslr", "paper", 97, 96, 96),
        record("webcam-dslr", "default", 97, 90, 97),
    ]
    found = results([*records, record("usps-mnist", "default", 80, 95, 95)])
    assert [one.source for one in found] == [60, None, 97, 50]  # of the plainly trained network
    assert "| `usps-mnist` | real digits |  |  | 95.0 (helped) |  |  |" in pairs_table(found)
    found = [one for one in found if one.source is not None]
    assert [one.has_room for one in found] == [True, False, True]
    rows = [line.split(" | ") for line in summary_table(found).splitlines()[2:]]
    # Gains of 2 and 30, and of 30 and 0, with the standard error of two pairs; the default is 28 ahead and 30 behind.
    assert [(row[0].strip("| "), *row[5:7]) for row in rows] == [
        ("paper", "+16.0 ± 14.0", "-1.0 ± 29.0"),
        ("default", "+15.0 ± 15.0", ""),
    ]
    # On digits the other kinds would have chosen paper, on series default.
    left = left_out_table(found).splitlines()[2:]
    assert [line.split(" | ")[2:4] for line in left[:2]] == [["paper", "+2.0"], ["default", "+0.0"]]
    assert "`webcam-dslr` | office | 97.0 (no harm)" in pairs_table(found)


def test_seeds_of_a_pair_have_a_standard_error_and_the_default_comes_last() -> None:
    records = [record("svhn-mnist", "default", 70, after, after, seed) for seed, after in enumerate((90.0, 94.0))]
    records += [record("svhn-mnist", "dann", 60, 70, 70, seed) for seed in range(2)]
    head, _, row = pairs_table(results(records)).splitlines()
    assert [name.strip() for name in head.split("|")][4:6] == ["dann", "default"]
    assert [cell.strip() for cell in row.split("|")][4:6] == ["70.0 ± 0.0 (2 helped)", "92.0 ± 2.0 (2 helped)"]


def test_a_variant_is_left_out_with_the_kind_of_its_base() -> None:
    found = results([record("svhn-mnist-skewed", "paper", 60, 62, 62)])
    assert found[0].kinds == {"class frequencies", "real digits"}
