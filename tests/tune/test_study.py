"""A search by a label-free score: resumable, nothing repeated, nothing of the target's labels."""

from __future__ import annotations

import json
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
from residapt.parallel.local_engine import LocalEngine
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from residapt.tune import trial as tune_trial
from residapt.tune.store import StudyFolder
from residapt.tune.study import Study, tune
from residapt.tune.trial import Outcome, TrialJob, judge, run_trial
from support.cli import invoke
from support.small_study import SEARCH, small_request, study_config

optuna = pytest.importorskip("optuna", reason="needs the extra tune")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A search that nothing stopped."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "study"
    return tune(small_request(out), study_config(4))


def of(study: Study) -> list[tuple[object, ...]]:
    return [(trial.values, trial.outcome.state, trial.outcome.score) for trial in study.trials]


def test_every_trial_is_a_run_from_the_same_source_network(whole: Study) -> None:
    assert len(whole.trials) == 4
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
    assert len({trial.values["discrepancy.weight"] for trial in whole.trials}) == 4


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
    again = tune(small_request(whole.folder.path), study_config(4), resume=True)
    assert of(again) == of(whole)


@pytest.mark.slow
def test_more_trials_can_be_added(whole: Study, tmp_path: Path) -> None:
    first = tune(small_request(tmp_path / "study"), study_config(2))
    assert of(first) == of(whole)[:2]
    assert of(tune(small_request(tmp_path / "study"), study_config(4), resume=True)) == of(whole)


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
    study = tune(small_request(place), study_config(4), resume=True, on_trial=lambda trial: ran.append(trial.run))
    assert of(study) == of(whole)
    assert ran[0] == "0001"  # in the folder of the trial that was killed
    assert "0000" not in ran
    states = [trial.state.name for trial in open_journal(study).get_trials()]
    assert states.count("FAIL") == 1
    assert len(states) == 5


def open_journal(study: Study) -> object:
    from residapt.tune.store import open_trials

    return open_trials(study.folder.journal)


def test_a_torn_line_of_the_journal_is_cut_off(whole: Study, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(whole.folder.path, tmp_path / "study")
    journal = tmp_path / "study" / "journal.jsonl"
    with journal.open("a") as file:
        file.write('{"op_code": 4, "work')
    assert of(tune(small_request(tmp_path / "study"), study_config(4), resume=True)) == of(whole)
    journal.write_text("no journal\n" * 3)
    with pytest.raises(DataError, match="cannot be read as the record of a study"):
        tune(small_request(tmp_path / "study"), study_config(4), resume=True)


@pytest.mark.slow
@pytest.mark.dist
def test_two_processes_at_a_time(tmp_path: Path) -> None:
    study = tune(small_request(tmp_path / "study"), study_config(2), engine=LocalEngine(2))
    assert [trial.outcome.state for trial in study.trials] == ["scored", "scored"]


def test_trials_that_fail_or_are_turned_down_are_listed_with_the_reason(
    whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, number = tune_trial.run_request, [0]

    def odd(request: object) -> object:
        number[0] += 1
        if number[0] == 1:
            raise TrainingError("the loss 'class' is nan at step 2.")
        return real(request)  # type: ignore[arg-type]

    def strict(summary: object, score: str, seconds: float = 0.0) -> Outcome:
        found = judge(summary, score, seconds)  # type: ignore[arg-type]
        return replace(found, state="turned down", reason="it looks worse") if number[0] == 2 else found

    monkeypatch.setattr(tune_trial, "run_request", odd)
    monkeypatch.setattr(tune_trial, "judge", strict)
    study = tune(small_request(tmp_path / "study"), study_config(3))
    assert [trial.outcome.state for trial in study.trials] == ["failed", "turned down", "scored"]
    assert "is nan" in study.trials[0].outcome.reason
    assert study.best is not None
    assert study.best.number == 2


def test_the_guard_decides_what_counts(whole: Study) -> None:
    summary = read_summary(RunDirectory(whole.folder.trials / whole.trials[0].run).summary)
    worse = summary.model_copy(
        update={"verdict": summary.verdict.model_copy(update={"helped": False, "reasons": ("a class is gone",)})}
    )
    outcome = judge(worse, "infomax")
    assert (outcome.state, outcome.reason) == ("turned down", "a class is gone")
    assert judge(summary.model_copy(update={"scores": {}}), "infomax").state == "failed"


def test_ctrl_c_leaves_a_study_that_goes_on(whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(request: object) -> object:
        raise Interrupted("stopped by SIGINT after step 2 of 4.", step=2)

    with monkeypatch.context() as patch:
        patch.setattr(tune_trial, "run_request", stop)
        with pytest.raises(Interrupted, match=r"stopped in trial 0\. Go on with: residapt tune --resume"):
            tune(small_request(tmp_path / "study"), study_config(4))
    assert of(tune(small_request(tmp_path / "study"), study_config(4), resume=True)) == of(whole)


def test_labels_of_the_target_are_refused(tmp_path: Path) -> None:
    request = small_request(tmp_path / "study")
    for labelled in ({"evaluate": request.source}, {"target_labels": request.source}):
        with pytest.raises(ConfigError, match="never uses labels of the target"):
            tune(replace(request, **labelled), study_config(2))
    with pytest.raises(ConfigError, match="never uses labels of the target"):
        tune(small_request(tmp_path / "study", **{"data.evaluate": "x"}), study_config(2))
    assert not (tmp_path / "study").exists()
    assert not {"evaluate", "target_labels"} & set(TrialJob.__dataclass_fields__)


def test_a_study_is_worked_on_by_one_process(whole: Study) -> None:
    with (
        StudyFolder(whole.folder.path).locked(),
        pytest.raises(ConfigError, match="another process works on the study"),
    ):
        tune(small_request(whole.folder.path), study_config(4), resume=True)


def test_a_machine_that_does_not_see_the_study_says_so(whole: Study, tmp_path: Path) -> None:
    request = small_request(tmp_path)
    job = TrialJob(0, {}, request.config, request.source, request.target, tmp_path / "none" / "0000", "infomax")
    with pytest.raises(DataError, match=r"of the study does not exist on .*all machines see"):
        run_trial(job)
    gone = request.config.with_group("data", source=str(tmp_path / "gone"))
    job = replace(job, out=tmp_path / "0000", source=None, config=gone)
    with pytest.raises(DataError, match=r"gone' does not exist on .*needs the data there"):
        run_trial(job)


def test_a_search_over_the_source_training_has_a_source_network_for_each_trial(tmp_path: Path) -> None:
    study = tune(small_request(tmp_path / "study"), study_config(2, ("pretrain.lr=log:1e-4..1e-2",)))
    assert not (study.folder.source / "source.safetensors").exists()
    first, second = (load_file(study.folder.trials / t.run / "source.safetensors") for t in study.trials)
    assert any(not torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_the_command_line(digits: Path, tmp_path: Path) -> None:
    arguments = ("tune", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(tmp_path / "study"))
    options = (
        "--search",
        SEARCH[0],
        "--trials",
        "1",
        "--steps",
        "4",
        "--set",
        "pretrain.steps=10",
        "--set",
        "pretrain.allow_chance=true",
    )
    code, text = invoke(*arguments, *options, "--set", "device=cpu", "--score", "snd")
    assert "trial 0" in text
    assert "Trials by snd" in text
    if code:  # ten steps of training need not give anything that the guard lets through
        assert "none of the 1 trials" in text
    else:
        assert "Next: residapt adapt --config" in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "trials").rglob("*")}
    again, text = invoke("tune", "--resume", str(tmp_path / "study"))
    assert again == code
    assert "Trials by snd" in text
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "trials").rglob("*")} == before
    assert all(json.loads(line) for line in (tmp_path / "study" / "journal.jsonl").read_text().splitlines())


def test_help_has_an_example() -> None:
    code, text = invoke("tune", "--help")
    assert code == 0
    assert "residapt tune -s photos/" in " ".join(text.split())
