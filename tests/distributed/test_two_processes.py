"""Two processes (gloo) that share each batch do what one process does with the whole of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.distributed import Engine, from_main, process_count
from residapt.errors import Interrupted, TrainingError
from residapt.losses.gather import gather_features, own_rows
from residapt.losses.moments import coral, gaussian_mmd, linear_mmd
from residapt.methods.config import AverageConfig, PriorConfig
from residapt.rank import RankChange, RankConfig
from residapt.storage import checkpoint as files
from residapt.train import Callback, Method, StepInfo, TrainConfig, Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.metrics import MetricsFile
from support.tiny_run import tiny_pair, tiny_trainer

pytestmark = [pytest.mark.dist, pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs fork")]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def together(work: Callable[[int], Any], folder: Path, world: int = 2) -> list[Any]:
    """Fork processes that form a group, let each work, and give what they found, in order.

    torch is imported once, in the parent, which has no group and no threads of its own.
    """
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    port, children = free_port(), []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            _child(work, folder, rank, world, port)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    errors = "".join(file.read_text() for file in folder.glob("error-*"))
    assert statuses == [0] * world, errors
    return [torch.load(folder / f"result-{rank}.pt", weights_only=True) for rank in range(world)]


def _child(work: Callable[[int], Any], folder: Path, rank: int, world: int, port: int) -> None:
    from accelerate import PartialState

    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": world, "WORLD_SIZE": world}
    os.environ |= {name: str(value) for name, value in {**place, "RANK": rank, "LOCAL_RANK": rank}.items()}
    PartialState._reset_state()
    signal.alarm(120)  # a group that waits for each other forever must not hold up the tests
    try:
        torch.save(work(rank), folder / f"result-{rank}.pt")
        torch.distributed.destroy_process_group()
        os._exit(0)
    except BaseException:
        (folder / f"error-{rank}").write_text(traceback.format_exc())
        os._exit(1)


class Record(Callback):
    """Losses of each step, and the ranks after each prune."""

    def __init__(self) -> None:
        self.losses: list[dict[str, float]] = []
        self.prunes: list[dict[str, tuple[int, int]]] = []

    def on_log(self, method: Method, info: StepInfo) -> None:
        self.losses.append(info.values)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        self.prunes.append(dict(method.streams.ranks()))


PLAIN = {"norm": False, "dropout": 0.0}
"""Batch norm sees the images of one process only, and each process drops other units: both are left out here."""
REQUIRED = ("rpt", "dann_flip", "mmd", "rman")
SKEWED = [0] * 15 + [1] * 10 + [2] * 5
PLUS = {
    "prior": {"kind": "estimated", "warmup": 0.0},
    "information": {"weight": 0.3, "gamma": 0.0},
    "discrepancy": {"steps": 2},
    "average": {"decay": 0.9},
}
"""Every part that looks at the whole batch, on class frequencies that give every sample a weight of its own."""
WEIGHTED = ("rpt+", "dann_flip+", "mmd+", "mk_mmd+", "coral+", "cdan_e+", "adda+")
CAUTIOUS = "rpt+"
OTHERS = ("dann", "confusion", "mk_mmd", "coral", "cdan", "cdan_e", "adda", "two_stream", "source_only", "rpt_fixed")


@pytest.fixture(scope="module", autouse=True)
def _estimates_of_a_tiny_network_count() -> Iterator[None]:
    """For the whole module: ``curves`` is computed once, before any fixture of a single test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PriorConfig, "max_condition", 1e6)
        patch.setattr(AverageConfig, "every", 2)
        yield


def curve(name: str, steps: int) -> dict[str, Any]:
    record, plus = Record(), name.endswith("+")
    pair = tiny_pair(torch.float64, augment=False)
    trainer = tiny_trainer(
        name.removesuffix("+"),
        [record],
        pair=replace(pair, source=replace(pair.source, labels=torch.tensor(SKEWED))) if plus else pair,
        parts=PLUS if plus else None,
        dtype=torch.float64,
        net=PLAIN,
        rank=RankConfig(every=15, step=8e-2),
        steps=steps,
        network={"lr": 5e-3},
        transform={"lr": 5e-3},
    )
    with pytest.MonkeyPatch.context() as patch:
        # So few images say too little for a cautious estimate to move: it is computed, and stays where it started.
        patch.setattr(PriorConfig, "cautious", name == CAUTIOUS)
        patch.setattr(PriorConfig, "every", 2)
        trainer.run()
    return {"losses": record.losses, "prunes": record.prunes, "weights": trainer.method.state_dict()}


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """By method: of one process, and of both of two."""
    lengths = {**dict.fromkeys(REQUIRED, 50), **dict.fromkeys((*OTHERS, *WEIGHTED), 6)}

    def work(_rank: int) -> dict[str, Any]:
        return {name: curve(name, steps) for name, steps in lengths.items()}

    torch.set_num_threads(1)
    return work(0), together(work, tmp_path_factory.mktemp("curves"))


@pytest.mark.parametrize("name", [*REQUIRED, *OTHERS, *WEIGHTED])
def test_losses_ranks_and_weights_are_those_of_one_process(
    name: str, curves: tuple[dict[str, Any], list[dict[str, Any]]]
) -> None:
    one, many = curves[0][name], [found[name] for found in curves[1]]
    for found in many:
        assert len(found["losses"]) == len(one["losses"])
        for expected, values in zip(one["losses"], found["losses"], strict=True):
            assert values == pytest.approx(expected, abs=1e-5)
        assert found["prunes"] == one["prunes"]
        for key, tensor in one["weights"].items():
            torch.testing.assert_close(found["weights"][key], tensor, atol=1e-5, rtol=0)
    for key, tensor in many[0]["weights"].items():
        assert torch.equal(tensor, many[1]["weights"][key]), key
    if name == "rpt":
        assert len(one["prunes"]) >= 2, "the test needs ranks that fall twice"
    if name.endswith("+"):
        assert int(one["weights"]["prior.counts"][0]) > 0, "the test needs an estimate"
        assert float(one["losses"][-1]["prior_distance"]) > 0
        moved = bool((one["weights"]["prior.target"] - 1 / 3).abs().max() > 1e-3)
        assert moved is not (name == CAUTIOUS)


def test_gathered_losses_have_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    """Averaged over the processes, parameters get exactly dL/dtheta; shares of rows keep the order of the batch."""
    generator = torch.Generator().manual_seed(0)
    batches = torch.randn(2, 8, 5, generator=generator, dtype=torch.float64)
    start = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    losses = {"linear": linear_mmd, "gaussian": gaussian_mmd, "coral": coral}

    def gradients(source: Tensor, target: Tensor, engine: Engine | None) -> dict[str, Tensor]:
        found = {}
        for name, loss in losses.items():
            weight = nn.Parameter(start.clone())
            f_s, f_t = (gather_features(torch.tanh(x @ weight.T)) for x in (source, target))
            # A factor that differs between processes: the sum of the adjoint must see each of them.
            factor = 1.0 if engine is None else 0.5 + engine.rank
            (factor * loss(f_s, f_t)).backward()
            if engine is not None:
                engine.average_gradients([weight])
            assert weight.grad is not None
            found[name] = weight.grad
        return found

    def work(rank: int) -> dict[str, Tensor]:
        engine = Engine("cpu")
        assert process_count() == engine.world == 2
        source, target = (batch[4 * rank : 4 * rank + 4] for batch in batches)
        assert torch.equal(gather_features(source), batches[0])
        assert torch.equal(own_rows(batches[0]), source)
        return gradients(source, target, engine)

    whole = gradients(*batches, None)
    for found in together(work, tmp_path):
        for name, gradient in whole.items():
            torch.testing.assert_close(found[name], gradient, atol=1e-12, rtol=1e-10)


def test_processes_start_from_the_main_ones_weights_and_agree(tmp_path: Path) -> None:
    def work(rank: int) -> dict[str, Any]:
        engine = Engine("cpu")
        torch.manual_seed(rank)
        network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        engine.synchronise(network)
        network[1].running_mean.fill_(float(rank))
        engine.average_statistics(network)
        unused = nn.Parameter(torch.ones(2))
        partly = nn.Parameter(torch.ones(2))
        if rank:
            partly.grad = torch.full((2,), 4.0)
        engine.average_gradients([unused, partly])
        return {
            "weight": network[0].weight.detach(),
            "mean": network[1].running_mean,
            "unused": unused.grad is None,
            "partly": partly.grad,
            "any": [engine.any(rank == 1), engine.any(False)],
            "agree": engine.agree(7 + rank),
            "values": engine.average_values({"a": float(rank), "b": 2.0}),
            "from_main": from_main(torch.tensor([rank == 0, True])),
        }

    first, second = together(work, tmp_path)
    for found in (first, second):
        assert torch.equal(found["weight"], first["weight"])
        assert found["mean"].tolist() == [0.5, 0.5]
        assert found["unused"]
        assert found["partly"].tolist() == [2.0, 2.0]
        assert (found["any"], found["agree"], found["values"]) == ([True, False], 7, {"a": 0.5, "b": 2.0})
        assert found["from_main"].tolist() == [True, True]


class Asked(Callback):
    """Ask a trainer to stop, as a signal does."""

    trainer: Trainer

    def on_step(self, method: Method, step: int) -> None:
        if step == 11:
            self.trainer.request_stop(signal.SIGTERM)


def test_a_signal_to_one_process_stops_both_and_both_resume(tmp_path: Path) -> None:
    """Batch norm and dropout included; only the main process writes."""

    def trainer(rank: int) -> Trainer:
        listeners: list[Callback] = [MetricsFile(tmp_path / "metrics.jsonl")] if rank == 0 else []
        return tiny_trainer("rpt", [*listeners, Checkpointer(tmp_path / "checkpoint", 100)], steps=16)

    def whole(rank: int) -> dict[str, Tensor]:
        made = tiny_trainer("rpt", [], steps=16)
        made.run()
        return dict(made.method.state_dict())

    def stopped(rank: int) -> int:
        made = trainer(rank)
        if rank == 1:
            asked = Asked()
            asked.trainer = made
            made.callbacks.items.append(asked)
        try:
            made.run()
        except Interrupted as error:
            return error.step
        return -1

    def resumed(rank: int) -> dict[str, Tensor]:
        made = trainer(rank)
        assert restore_checkpoint(made, tmp_path / "checkpoint") == 11
        made.run()
        return dict(made.method.state_dict())

    expected = together(whole, tmp_path / "whole")
    assert together(stopped, tmp_path / "stopped") == [11, 11]
    for left, right in zip(expected, together(resumed, tmp_path / "resumed"), strict=True):
        for name, tensor in left.items():
            assert torch.equal(tensor, right[name]), name
    logged = [
        json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines() if "values" in line
    ]
    assert logged == list(range(1, 17))
    assert files.steps_in(tmp_path / "checkpoint") == [16, 11]


def test_a_nan_in_one_process_ends_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainConfig, "recover", 0)

    def work(rank: int) -> str:
        made = tiny_trainer("rpt")
        real = made.batches.batch

        def batch(step: int, **options: Any) -> Any:
            found = real(step, **options)
            if rank == 1 and step == 3:
                found.source.fill_(float("nan"))
            return found

        made.batches.batch = batch  # type: ignore[method-assign]
        try:
            made.run()
        except TrainingError as error:
            return str(error)
        return ""

    for message in together(work, tmp_path):
        assert "is nan at step 4" in message
