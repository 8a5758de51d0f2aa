"""``residapt adapt --resume``: a run that was stopped in any stage ends as one that was not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import residapt
from residapt.errors import ConfigError, Interrupted
from residapt.run import stages
from residapt.run.recorded import recorded_config
from residapt.storage.checkpoint import steps_in
from support.cli import invoke
from support.resume import Die, Fall, assert_same_run, folders, untimed

SETTINGS = (
    "--set",
    "pretrain.steps=30",
    "--set",
    "pretrain.allow_chance=true",
    "--steps",
    "30",
    "--device",
    "cpu",
    "--select",
    "infomax",
    "--force",
)


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    code, text = invoke("adapt", *folders(digits), "-o", str(out), *SETTINGS)
    assert code == 0, text
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "step"), [("source", 8), ("adapt", 2), ("adapt", 17), ("adapt", 30)])
def test_a_run_that_died_in_any_stage_goes_on(
    stage: str, step: int, digits: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = tmp_path / "run", stages._listeners
    with monkeypatch.context() as patch:
        patch.setattr(
            stages, "_listeners", lambda plan, run, name: [*real(plan, run, name), *([Fall(step)] * (name == stage))]
        )
        with pytest.raises(Die):
            invoke("adapt", *folders(digits), "-o", str(out), *SETTINGS)
    assert steps_in(out / "checkpoint" / stage)
    code, text = invoke("adapt", "--resume", str(out))
    assert code == 0, text
    assert_same_run(whole, out)


def test_a_finished_run_is_shown_again(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    code, text = invoke("adapt", "--resume", str(whole))
    assert code == 0
    assert f"residapt predict {whole}" in text
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_what_cannot_be_resumed_is_refused(whole: Path, tmp_path: Path) -> None:
    code, text = invoke("adapt", "--resume", str(tmp_path))
    assert code == 2
    assert str(tmp_path) in text
    code, text = invoke("adapt", "--resume", str(whole), "-o", str(tmp_path / "other"))
    assert code == 2
    assert "-o" in text
    with pytest.raises(ConfigError):
        recorded_config(whole)
    for option in (("--select", "snd"), ("--set", "train.clip=1"), ("--steps", "99"), ("--force", "--seed", "3")):
        code, text = invoke("adapt", "--resume", str(whole), *option)
        assert code == 2, "never silently ignored"
        assert str(whole) in text
    with pytest.raises(ConfigError):
        residapt.adapt("lenet", source=1, target=2, out=whole, resume=True, seed=3)


def test_settings_that_would_make_another_run_are_refused(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text((whole / "config.toml").read_text())
    assert recorded_config(tmp_path, ["train.clip=1.0"]).train.clip == 1.0
    for change in ("model.spec=svhnet", "seed=3", "method=dann", "train.optimizer=sgd"):
        with pytest.raises(ConfigError, match=change):
            recorded_config(tmp_path, [change])


def test_the_library_resumes_with_data_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    images, labels = torch.randn(40, 1, 28, 28), torch.arange(40) % 4
    data = {"source": (images, labels), "target": images + 0.3}
    model, real = residapt.models.build_model("lenet", num_classes=4, in_channels=1), stages._listeners
    settings = {"steps": 8, "train_source_first": False, "force": True, "train": {"checkpoint_every": 3}}
    expected = residapt.adapt(model, **data, out=tmp_path / "whole", **settings)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "_listeners", lambda plan, run, name: [*real(plan, run, name), Fall(5, signal.SIGTERM)])
        with pytest.raises(Interrupted, match=r"step 5 of 8.*--resume"):
            residapt.adapt(model, **data, out=tmp_path / "run", **settings)
    found = residapt.adapt(model, **data, out=tmp_path / "run", resume=True, train_source_first=False)
    for name, tensor in expected.streams.state_dict().items():
        assert torch.equal(tensor, found.streams.state_dict()[name]), name


LAST = 40
"""Steps of the runs in processes of their own."""
TINY = (
    "--set",
    "pretrain.steps=2",
    "--set",
    "pretrain.allow_chance=true",
    "--steps",
    str(LAST),
    "--set",
    "train.batch_size=8",
    "--device",
    "cpu",
)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


@pytest.mark.slow
def test_ctrl_c_and_resume_in_processes_of_their_own(digits: Path, tmp_path: Path) -> None:
    """A real signal, the exit code of a shell, and the command that the message gives."""
    out = tmp_path / "my run"
    command = [sys.executable, "-m", "residapt", "adapt"]
    process = subprocess.Popen(
        [*command, *folders(digits), "-o", str(out), *TINY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
    waited = time.monotonic()
    while not steps_in(out / "checkpoint" / "adapt") and time.monotonic() - waited < 120 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "stopped by SIGINT after step" in text
    assert f"residapt adapt --resume '{out}'" in text
    assert "Traceback" not in text
    step = steps_in(out / "checkpoint" / "adapt")[0]
    assert 0 <= step < LAST
    again = subprocess.run(
        [*command, "--resume", str(out)], capture_output=True, text=True, timeout=200, env=environment()
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{LAST - step} steps" in again.stdout
    logged = [line["step"] for line in untimed(out) if line["kind"] == "step" and line["stage"] == "adapt"]
    assert logged == list(range(1, LAST + 1))


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize("launcher", ["torch.distributed.run", "accelerate.commands.launch", "residapt"])
def test_two_processes_make_one_run(launcher: str, digits: Path, tmp_path: Path) -> None:
    """torchrun, accelerate launch and --processes: both train, one writes and speaks."""
    out = tmp_path / "run"
    options = ["--nproc_per_node", "2"] if "torch" in launcher else ["--cpu", "--num_processes", "2"]
    begin, end = ([], ["--processes", "2"]) if launcher == "residapt" else ([launcher, *options, "-m"], [])
    done = subprocess.run(
        [sys.executable, "-m", *begin, "residapt", "adapt", *folders(digits), "-o", str(out), *TINY, *end],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment(MASTER_PORT=str(free_port())),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Next: residapt predict") == 1
    logged = [line["step"] for line in untimed(out) if line["kind"] == "step" and line["stage"] == "adapt"]
    assert logged == list(range(1, LAST + 1))
    assert (out / "report.html").exists()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
