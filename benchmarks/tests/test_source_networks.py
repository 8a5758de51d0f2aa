"""Source networks are cached, kept under their hash, and never exchanged for others without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench_support.small_digits import small_digits, small_plans
from residapt.errors import DataError
from residapt_bench import source_networks
from residapt_bench.experiment import execute
from residapt_bench.plan import Plan
from residapt_bench.source_networks import keep_network, state_hash


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "networks"
    monkeypatch.setattr(source_networks, "KEPT", folder)
    return folder


def plan_of(sha256: str | None, seed: int = 0) -> Plan:
    plan = small_plans(1, methods=("source_only",))[0]
    return plan.with_network(seed, sha256)


def test_a_kept_network_is_taken_wherever_the_run_is_executed(tmp_path: Path, kept: Path) -> None:
    root = small_digits(tmp_path)
    first = execute(plan_of(None), root=root, cache=tmp_path / "here")
    assert first.source_sha256 is not None
    path = keep_network(first.source_sha256, tmp_path / "here")
    assert path.parent == kept
    assert state_hash(load_file(path)) == first.source_sha256
    elsewhere = tmp_path / "elsewhere"
    again = execute(plan_of(first.source_sha256), root=root, cache=elsewhere)
    assert again.source_sha256 == first.source_sha256
    assert again.scores == first.scores
    assert not list(elsewhere.glob("*.safetensors")), "nothing was trained"


def test_other_weights_than_the_wanted_ones_stop_the_run(tmp_path: Path, kept: Path) -> None:
    with pytest.raises(DataError, match="0123456789abcdef"):
        execute(plan_of("0123456789abcdef" * 4), root=small_digits(tmp_path), cache=tmp_path / "cache")
    with pytest.raises(DataError, match="no source network"):
        keep_network("f" * 64, tmp_path / "cache")


def test_a_kept_file_that_was_changed_is_noticed(tmp_path: Path, kept: Path) -> None:
    root = small_digits(tmp_path)
    first = execute(plan_of(None), root=root, cache=tmp_path / "here")
    path = keep_network(str(first.source_sha256), tmp_path / "here")
    tensors = load_file(path)
    tensors["full4.bias"] = tensors["full4.bias"] + torch.ones(())
    save_file(tensors, path)
    with pytest.raises(DataError, match=str(first.source_sha256)[:16]):
        execute(plan_of(first.source_sha256), root=root, cache=tmp_path / "here")


def test_curves_hold_label_free_scores_which_change_nothing(tmp_path: Path, kept: Path) -> None:
    """A run that is measured at every step ends where one that is measured at the end only does."""
    root = small_digits(tmp_path)
    plan = small_plans(1, steps=4, methods=("rpt",))[0]
    ends = []
    for every in (1, 4):
        train = plan.train.model_copy(update={"evaluate_every": every})
        ends.append(execute(plan.model_copy(update={"train": train}), root=root, cache=tmp_path / "cache"))
    often, once = ends
    assert [point["step"] for point in often.curve] == [1, 2, 3, 4]
    assert often.label_free == once.label_free
    assert often.scores == once.scores
    for name in ("infomax", "bnm"):
        assert often.curve[-1][name] == pytest.approx(often.label_free[name][1], abs=1e-5)
