"""Trainings that are repeated with the class frequencies found: when, from where, and that the last one counts."""

from __future__ import annotations

import pytest
import torch

from residapt.methods import MethodConfig
from residapt.methods.config import PriorConfig, SearchConfig
from residapt.methods.extras.prior import TargetPrior
from residapt.methods.rounds import Ended, Round, in_rounds, rounds
from residapt.train import Method, TrainConfig
from support.tiny_run import tiny_pair, tiny_trainer

SEARCH = {
    "kind": "estimated",
    "search": {"rounds": 4},
}


@pytest.fixture(autouse=True)
def _shorter_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriorConfig, "cautious", False)
    for name, value in {"settled": 0.1, "share": 0.25, "smoothing": 0.3}.items():
        monkeypatch.setattr(SearchConfig, name, value)


def first(**search: object) -> Round:
    prior = {**SEARCH, "search": {**SEARCH["search"], **search}}  # type: ignore[dict-item]
    return Round(MethodConfig.parse({"prior": prior}), TrainConfig(steps=40, seed=5))


def ended(turn: Round, target: tuple[float, ...]) -> TargetPrior:
    """The prior of a training that ended with these frequencies."""
    prior = TargetPrior(turn.settings.prior, torch.tensor((0.5, 0.3, 0.2), dtype=torch.float64))
    prior.target.copy_(torch.tensor(target, dtype=torch.float64))
    return prior


def walk(begin: Round, *ends: tuple[float, ...], agreements: tuple[float, ...] = ()) -> list[Round]:
    """The rounds if their estimates end so, and the short ones agree with the clusters so well."""
    todo, seen, scores = rounds(begin), [], iter(agreements)
    turn = next(todo)
    for end in ends:
        seen.append(turn)
        try:
            turn = todo.send(Ended(ended(turn, end), lambda: next(scores)))
        except StopIteration:
            break
    else:
        raise AssertionError("there are more rounds than ends")
    assert next(scores, None) is None
    return seen


def test_how_far_an_estimate_has_moved_is_the_total_variation_from_its_start() -> None:
    prior = ended(first(), (0.6, 0.3, 0.1))
    assert prior.moved == pytest.approx(0.5 * (0.6 - 1 / 3 + 1 / 3 - 0.3 + 1 / 3 - 0.1))
    started = PriorConfig(kind="estimated", start=(0.6, 0.3, 0.1))
    assert TargetPrior(started, torch.tensor((0.5, 0.3, 0.2))).moved == pytest.approx(0.0, abs=1e-6)
    assert sum(prior.frequencies) == pytest.approx(1.0, abs=1e-12)


def test_an_estimate_that_stays_needs_no_further_training() -> None:
    assert walk(first(), (0.4, 0.3, 0.3)) == [first()]


def test_without_a_search_there_is_one_training_however_far_it_moves() -> None:
    assert walk(first(rounds=0), (0.8, 0.1, 0.1)) == [first(rounds=0)]


def test_short_trainings_look_and_the_whole_one_is_repeated_with_the_best_of_them() -> None:
    begin = first()
    ends = [(0.5, 0.3, 0.2), (0.6, 0.3, 0.1), (0.7, 0.2, 0.1), (0.8, 0.1, 0.1), (0.7, 0.2, 0.1), (0.7, 0.2, 0.1)]
    turns = walk(begin, *ends, agreements=(0.8, 0.9, 0.7, 0.85))
    assert [turn.train.steps for turn in turns] == [40, 10, 10, 10, 10, 40]
    assert [turn.settings.prior.smoothing for turn in turns] == [0.9, 0.3, 0.3, 0.3, 0.3, 0.9]
    # Half of the search begins where the training did: what that ended with is a mixture of its start and the truth.
    assert [turn.settings.prior.start for turn in turns[:3]] == ["flat", "flat", "flat"]
    assert turns[3].settings.prior.start == pytest.approx(ends[2]), "the better of the two"
    assert turns[4].settings.prior.start == pytest.approx(ends[2]), "not the one before, which agrees less"
    assert turns[5].settings.prior.start == pytest.approx(ends[2])
    assert len({turn.train.seed for turn in turns}) == 6
    for turn in turns:
        same = {"start": "flat", "smoothing": 0.9}
        assert turn.settings.model_copy(update={"prior": turn.settings.prior.model_copy(update=same)}) == begin.settings


def test_the_search_ends_after_so_many_rounds() -> None:
    far = [(0.8, 0.1, 0.1), (0.1, 0.8, 0.1)] * 3
    assert [turn.train.steps for turn in walk(first(), *far, agreements=(0.5,) * 4)] == [40, 10, 10, 10, 10, 40]
    assert [turn.train.steps for turn in walk(first(rounds=1), *far, agreements=(0.5,))] == [40, 10, 40]


def run_of(turn: Round, name: str = "rpt") -> Method:
    prior = turn.settings.prior.model_dump()
    trainer = tiny_trainer(name, parts={"prior": prior}, steps=turn.train.steps, seed=turn.train.seed)
    return trainer.run()


def test_the_last_training_counts_and_is_the_one_that_its_settings_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriorConfig, "max_condition", 1e6)
    monkeypatch.setattr(PriorConfig, "min_ess", 0.0)
    monkeypatch.setattr(PriorConfig, "every", 2)
    for name, value in {"settled": 1e-9, "share": 0.5, "smoothing": 0.5}.items():
        monkeypatch.setattr(SearchConfig, name, value)
    soon = {**SEARCH, "warmup": 0.0, "smoothing": 0.0, "search": {"rounds": 2}}
    begin = Round(MethodConfig.parse({"prior": soon}), TrainConfig(steps=12, seed=5))
    ran: list[Round] = []
    last, story = in_rounds(begin, lambda turn: (ran.append(turn), run_of(turn))[1], tiny_pair().target)
    assert [turn.train.steps for turn in ran] == [12, 6, 6, 12] == [done["steps"] for done in story]
    assert all(done["moved"] > 0 for done in story)
    assert ["agreement" in done for done in story] == [False, True, True, False]
    better = max(story[1:3], key=lambda done: done["agreement"])
    assert ran[-1].settings.prior.start == pytest.approx(better["target"], abs=1e-4)
    again = run_of(ran[-1])
    expected = again.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in last.state_dict().items())
    assert story[-1]["target"] == again.record()["prior"]["target"]


@pytest.mark.parametrize("kind", ["as-is", "balanced"])
def test_where_nothing_is_estimated_there_is_one_training(kind: str) -> None:
    begin = Round(MethodConfig.parse({"prior": {**SEARCH, "kind": kind}}), TrainConfig(steps=3))
    assert in_rounds(begin, run_of, tiny_pair().target)[1] == []
    assert in_rounds(begin, lambda turn: run_of(turn, "source_only"), tiny_pair().target)[1] == []
