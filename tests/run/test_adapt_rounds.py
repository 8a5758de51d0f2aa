"""``prior.search``: a run of several trainings, and one that is stopped in a later of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from residapt.methods.config import PriorConfig, SearchConfig
from residapt.run import stages
from residapt.storage.checkpoint import steps_in
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.digit_folders import QUICK
from support.resume import Die, Fall, assert_same_run, folders

ROUNDS = (
    *("--recipe", "plus", "--force", "--select", "infomax", *QUICK),
    *("--set", "prior.warmup=0", "--set", "prior.search.rounds=2"),
)


@pytest.fixture(scope="module", autouse=True)
def _every_estimate_counts() -> Iterator[None]:
    """So few images say little about class frequencies; here they are believed all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PriorConfig, "every", 2)
        patch.setattr(PriorConfig, "cautious", False)
        patch.setattr(PriorConfig, "max_condition", 1e9)
        patch.setattr(SearchConfig, "settled", 1e-9)
        yield


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rounds") / "run"
    code, text = invoke("adapt", *folders(digits), "-o", str(out), *ROUNDS)
    assert code == 0, text
    assert "training again from the source network (4)" in text
    return out


@pytest.mark.slow
def test_the_report_says_how_often_was_trained(whole: Path) -> None:
    assert sum(note.startswith("trained 4 times") for note in read_summary(whole / "summary.json").notes) == 1
    assert "rained 4 times, since the estimated class frequencies" in (whole / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("turn", "step"), [(2, 1), (4, 3)])
def test_a_run_that_died_in_a_later_round_goes_on(
    turn: int, step: int, digits: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real, begun = tmp_path / "run", stages._listeners, []

    def listeners(plan: object, run: object, name: str) -> list[object]:
        begun.append(name)
        return [*real(plan, run, name), *([Fall(step)] * (begun.count("adapt") == turn and name == "adapt"))]

    with monkeypatch.context() as patch:
        patch.setattr(stages, "_listeners", listeners)
        with pytest.raises(Die):
            invoke("adapt", *folders(digits), "-o", str(out), *ROUNDS)
    assert steps_in(out / "checkpoint" / f"adapt-{turn}")
    code, text = invoke("adapt", "--resume", str(out))
    assert code == 0, text
    assert_same_run(whole, out)
