"""A search by a label-free score: resumable, nothing repeated, no target labels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from residapt.config import load_config
from residapt.errors import ConfigError, DataError, Interrupted, TrainingError
from residapt.parallel.local_pool import LocalPool
from residapt.parallel.ray_pool import RayPool
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from residapt.tune import trial as tune_trial
from residapt.tune.search import PRETRAIN
from residapt.tune.store import Outcome, StudyFolder, TrialStore
from residapt.tune.study import Study, tune
from residapt.tune.trial import TrialJob, outcome_of, run_trial
from support.cli import invoke
from support.small_study import SEARCH, small_request, study_config

optuna = pytest.importorskip("optuna", reason="needs the extra tune")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A search that nothing stopped."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "study"
    return tune(small_request(out), study_config(3))


def of(study: Study) -> list[tuple[object, ...]]:
    return [(trial.values, trial.outcome.state, trial.outcome.score) for trial in study.trials]


def test_every_trial_is_a_run_from_the_same_source_network(whole: Study) -> None:
    assert len(whole.trials) == 3
    source = load_file(whole.folder.source / "source.safetensors")
    for trial in whole.trials:
        run = RunDirectory(whole.folder.trials / trial.run)
        config = load_config(run.config)
        assert config.method_config.discrepancy.weight == trial.values["discrepancy.weight"]
        assert config.method_config.transform.left_rank == trial.values["transform.left_rank"] in (2, 3)
        assert 0.01 <= config.method_config.discrepancy.weight <= 1
        assert config.data.evaluate is None
        assert read_summary(run.summary).accuracies == []
        own = load_file(run.source)
        assert all(torch.equal(tensor, own[name]) for name, tensor in source.items())
        assert trial.outcome.score == read_summary(run.summary).scores["infomax"][1]
    assert len({trial.values["discrepancy.weight"] for trial in whole.trials}) == 3


def test_the_best_configuration_makes_the_best_run_again(whole: Study, tmp_path: Path) -> None:
    assert whole.best is not None
    scored = [t for t in whole.trials if t.outcome.state == "scored"]
    assert whole.best.outcome.score == max(t.outcome.score for t in scored if t.outcome.score is not None)
    config = load_config(whole.folder.best)
    from residapt.run import run_request

    again = run_request(replace(small_request(tmp_path / "again"), config=config, train_source=None))
    best = load_file(RunDirectory(whole.folder.trials / whole.best.run).model)
    found = again.merge_and_unload().state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in best.items())


def test_a_finished_study_is_not_repeated(whole: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_trial, "run_request", None)
    again = tune(small_request(whole.folder.path), study_config(3), resume=True)
    assert of(again) == of(whole)


@pytest.mark.slow
def test_more_trials_can_be_added(whole: Study, tmp_path: Path) -> None:
    first = tune(small_request(tmp_path / "study"), study_config(1))
    assert of(first) == of(whole)[:1]
    assert of(tune(small_request(tmp_path / "study"), study_config(2), resume=True)) == of(whole)[:2]


@pytest.mark.slow
def test_a_study_whose_process_was_killed_goes_on(whole: Study, tmp_path: Path) -> None:
    """kill -9 within the second trial: it is marked, done again, and all ends as if nothing had been."""
    place = tmp_path / "study"
    process = subprocess.Popen(
        [sys.executable, "-m", "support.small_study", str(place)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        while not (tmp_path / "hanging").exists():
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    ran: list[str] = []
    study = tune(small_request(place), study_config(3), resume=True, on_trial=lambda trial: ran.append(trial.run))
    assert of(study) == of(whole)
    assert ran[0] == "0001"  # in the folder of the trial that was killed
    assert "0000" not in ran
    states = [trial.state.name for trial in TrialStore(study.folder.journal, ())._with()]
    assert states.count("FAIL") == 1
    assert len(states) == 4


def test_a_torn_line_of_the_journal_is_cut_off(whole: Study, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(whole.folder.path, tmp_path / "study")
    journal = tmp_path / "study" / "journal.jsonl"
    with journal.open("a") as file:
        file.write('{"op_code": 4, "work')
    assert of(tune(small_request(tmp_path / "study"), study_config(3), resume=True)) == of(whole)
    journal.write_text("no journal\n" * 3)
    with pytest.raises(DataError, match=str(journal)):
        tune(small_request(tmp_path / "study"), study_config(3), resume=True)


@pytest.mark.slow
@pytest.mark.dist
def test_two_trials_at_a_time(tmp_path: Path) -> None:
    study = tune(small_request(tmp_path / "study"), study_config(2), pool=LocalPool(2))
    assert [trial.outcome.state for trial in study.trials] == ["scored", "scored"]


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.timeout(600)
def test_a_search_on_a_ray_cluster_is_the_same_search(whole: Study, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        study = tune(small_request(tmp_path / "study"), study_config(2), pool=RayPool(jobs=1))
    assert of(study) == of(whole)[:2]
    assert not ray.is_initialized()  # the cluster was started for the search, and has ended with it


def test_trials_that_fail_or_are_rejected_are_listed_with_the_reason(
    whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, number = tune_trial.run_request, [0]

    def odd(request: object) -> object:
        number[0] += 1
        if number[0] == 1:
            raise TrainingError("the loss 'class' is nan at step 2.")
        return real(request)  # type: ignore[arg-type]

    def strict(summary: object, score: str, seconds: float = 0.0) -> Outcome:
        found = outcome_of(summary, score, seconds)  # type: ignore[arg-type]
        return replace(found, state="rejected", reason="it looks worse") if number[0] == 2 else found

    monkeypatch.setattr(tune_trial, "run_request", odd)
    monkeypatch.setattr(tune_trial, "outcome_of", strict)
    study = tune(small_request(tmp_path / "study"), study_config(3))
    assert [trial.outcome.state for trial in study.trials] == ["failed", "rejected", "scored"]
    assert "is nan" in study.trials[0].outcome.reason
    assert study.best is not None
    assert study.best.number == 2


def test_the_guard_decides_what_counts(whole: Study) -> None:
    summary = read_summary(RunDirectory(whole.folder.trials / whole.trials[0].run).summary)
    worse = summary.model_copy(
        update={"verdict": summary.verdict.model_copy(update={"helped": False, "reasons": ("a class is gone",)})}
    )
    outcome = outcome_of(worse, "infomax")
    assert (outcome.state, outcome.reason) == ("rejected", "a class is gone")
    assert outcome_of(summary.model_copy(update={"scores": {}}), "infomax").state == "failed"


def test_ctrl_c_leaves_a_study_that_goes_on(whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(request: object) -> object:
        raise Interrupted("stopped by SIGINT after step 2 of 4.", step=2)

    with monkeypatch.context() as patch:
        patch.setattr(tune_trial, "run_request", stop)
        with pytest.raises(Interrupted, match=r"trial 0\b.*residapt tune --resume .*study"):
            tune(small_request(tmp_path / "study"), study_config(1))
    assert of(tune(small_request(tmp_path / "study"), study_config(1), resume=True)) == of(whole)[:1]


def test_target_labels_are_refused(tmp_path: Path) -> None:
    request = small_request(tmp_path / "study")
    for name in ("evaluate", "target_labels"):
        with pytest.raises(ConfigError, match=name):
            tune(replace(request, **{name: request.source}), study_config(2))
        with pytest.raises(ConfigError, match=name):
            tune(small_request(tmp_path / "study", **{f"data.{name}": "x"}), study_config(2))
    assert not (tmp_path / "study").exists()
    assert not {"evaluate", "target_labels"} & set(TrialJob.__dataclass_fields__)


def test_one_process_at_a_time_works_on_a_study(whole: Study) -> None:
    with StudyFolder(whole.folder.path).locked(), pytest.raises(ConfigError, match=str(whole.folder.path)):
        tune(small_request(whole.folder.path), study_config(3), resume=True)


def test_a_study_cannot_continue_as_another_search(whole: Study) -> None:
    other = study_config(3, ("stream_weight=range:0..1",))
    with pytest.raises(ConfigError, match=r"stream_weight=range:0\.\.1"):
        tune(small_request(whole.folder.path), other, resume=True)
    with pytest.raises(ConfigError, match="snd"):
        tune(small_request(whole.folder.path), study_config(3).model_copy(update={"score": "snd"}), resume=True)


def test_a_machine_that_does_not_see_the_study_says_so(whole: Study, tmp_path: Path) -> None:
    request = small_request(tmp_path)
    job = TrialJob(0, {}, request.config, request.source, request.target, tmp_path / "none" / "0000", "infomax")
    with pytest.raises(DataError, match=str(tmp_path / "none")):
        run_trial(job)
    gone = request.config.with_group("data", source=str(tmp_path / "gone"))
    job = replace(job, out=tmp_path / "0000", source=None, config=gone)
    with pytest.raises(DataError, match="gone"):
        run_trial(job)


def test_a_search_over_the_source_training_has_a_source_network_for_each_trial(tmp_path: Path) -> None:
    study = tune(small_request(tmp_path / "study"), study_config(2, (f"{PRETRAIN}.lr=log:1e-4..1e-2",)))
    assert not (study.folder.source / "source.safetensors").exists()
    first, second = (load_file(study.folder.trials / t.run / "source.safetensors") for t in study.trials)
    assert any(not torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("--search", SEARCH[0]), "-o"),
        (("--resume", "study", "--search", SEARCH[0]), "--resume study"),
        (("--resume", "study", "--steps", "3"), "--resume study"),
        (("--resume", "study", "-o", "other"), "--resume study"),
        (("-o", "study", "--engine", "slurm"), "slurm"),
        (("-o", "study", "--address", "head:6379"), "head:6379"),
    ],
)
def test_options_are_checked_before_torch_is_imported(
    arguments: tuple[str, ...], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "residapt.config", "residapt.tune.store"):
        monkeypatch.setitem(sys.modules, name, None)  # importing one of them is an ImportError
    code, text = invoke("tune", *arguments)
    assert code == 2
    assert value in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("-o", "study", "--search", SEARCH[0], "--set", "discrepancy.wieght=1"), "discrepancy.weight"),
        (("-o", "study", "--search", "discrepancy.wieght=log:1..2"), "discrepancy.weight"),
        (("-o", "study", "-s", ".", "-t", ".", "--search", SEARCH[0], "--score", "accuracy"), "'accuracy'"),
        (("-o", "study"), "--search"),
        (("--resume", "study"), "study.toml"),
    ],
)
def test_bad_settings_write_nothing(
    arguments: tuple[str, ...], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = invoke("tune", *arguments)
    assert code == 2
    assert value in text
    assert not list(tmp_path.iterdir())


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    folders = ("-s", str(tmp_path), "-t", str(tmp_path))
    code, text = invoke("tune", "-o", str(tmp_path / "study"), *folders, "--search", SEARCH[0])
    assert code == 2
    assert "residapt[tune]" in text


def test_help_has_an_example() -> None:
    code, text = invoke("tune", "--help")
    assert code == 0
    assert "residapt tune -s photos/" in " ".join(text.split())
