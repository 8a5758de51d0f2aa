"""What the registry promises of all pairs together, and that the documentation shows it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from residapt_bench.proving_ground.registry import ALL_PAIRS, KINDS, PAIRS
from residapt_bench.proving_ground.source_only import only_no_harm, recorded
from residapt_bench.proving_ground.store import described, recorded_checksums, recorded_sizes
from residapt_bench.proving_ground.table import table

PAGES = Path(__file__).parents[3] / "docs"


def test_there_are_many_pairs_of_many_kinds_for_several_networks() -> None:
    kinds = Counter(spec.kind for spec in PAIRS.values())
    assert set(kinds) == set(KINDS)
    assert len(kinds) >= 8
    assert sum(not spec.classes_differ for spec in PAIRS.values()) >= 26
    assert sum(spec.classes_differ for spec in PAIRS.values()) >= 10
    assert {spec.network for spec in PAIRS.values()} >= {"lenet", "dtn", "efficientnet_lite0", "resnet50", "mlp"}


def test_no_two_pairs_are_made_alike_but_for_the_network() -> None:
    made: dict[str, list[str]] = {}
    for spec in PAIRS.values():
        made.setdefault(json.dumps(described(spec.make)), []).append(spec.network)
    assert all(len(set(networks)) == len(networks) for networks in made.values())


def test_the_proving_ground_is_what_it_was_before_a_large_pair_came_beside_it() -> None:
    assert len(PAIRS) == 47
    assert set(ALL_PAIRS) - set(PAIRS) == {"svhn-mnist-whole"}
    assert not any("all_images" in spec.make.keywords for spec in PAIRS.values())  # their caches stay valid


@pytest.mark.parametrize("name", ALL_PAIRS)
def test_a_pair_is_described_and_recorded(name: str) -> None:
    spec = ALL_PAIRS[name]
    assert spec.name == name
    assert spec.description
    assert spec.base is None or spec.base in PAIRS
    assert len(recorded_checksums()[name].split()[-1]) == 64
    assert min(recorded_sizes()[name]) > 50


def test_source_only_figures_spread_from_hard_to_easy() -> None:
    figures = recorded()
    assert set(figures) <= set(PAIRS)
    tenths = {int(figure // 10) for figure in figures.values()}
    assert len(tenths) >= 6
    assert 55 <= figures["mnist-clutter"] <= 65
    assert [name for name in figures if only_no_harm(name)] == [n for n, figure in figures.items() if figure > 95]


def test_the_page_shows_the_table_as_the_command_prints_it() -> None:
    page = next(PAGES.rglob("proving-ground.md"))
    assert table() in page.read_text(encoding="utf-8")
